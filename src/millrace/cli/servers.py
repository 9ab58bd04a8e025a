"""Provide ``millrace servers``: list, install, show, verify, remove and add servers."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from millrace import databases
from millrace.app import servers as use_case
from millrace.cli.console import LineTable, err, plain_table, print_json, print_table
from millrace.cli.progress import Listener
from millrace.errors import TrialFailed, UserError
from millrace.model.servers import AttachedServer, Server, build_facts
from millrace.quantities import counted
from millrace.servers import attached, catalogue
from millrace.servers.attached import AttachedInstance
from millrace.servers.availability import Availability
from millrace.servers.catalogue import Entry
from millrace.shown_text import shown_line


@click.group("servers")
def command() -> None:
    """List, install, check and add servers."""


@command.command("list")
@click.option(
    "--ask",
    is_flag=True,
    help="Query every source of the catalogue: does it still offer the server?",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(ask: bool, as_json: bool) -> None:
    """List all known servers, and which of them are on this host.

    A server is `gone` if no source offers it any more. The name of a suite installs its newest
    build, under the exact name of that build.
    """
    with Listener() as listener:
        rows = use_case.list_servers(listener, ask=ask)
    if as_json:
        print_json(
            [{**asdict(row), **({} if today is None else asdict(today))} for row, today in rows]
        )
        return
    columns = ["server", "version", "state", "download", "source"]
    table = plain_table(*columns, *(["today"] if ask else []))
    for row, today in rows:
        size = "" if row.download_bytes is None else f"{row.download_bytes / 1e6:6.0f} MB"
        state = row.state if row.state != "gone" else f"gone {row.gone_since}"
        cells = [row.name, row.version or "", state, size, row.source or ""]
        table.add_row(*cells, *([_today(today)] if ask else []))
    print_table(table)


def _today(answer: Availability | None) -> str:
    if answer is None:
        return ""
    words = {True: "served", False: "gone", None: "not known"}[answer.served]
    return f"{words}: {answer.reason}" if answer.reason else words


@command.command("install")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def install_command(names: tuple[str, ...]) -> None:
    """Download servers of the catalogue and install them, without root."""
    with Listener() as listener:
        for each in use_case.install_servers(names, listener):
            if each.is_added:
                err.print(f"{each.name} was added: it needs no installation")
                continue
            assert each.server is not None
            if each.suite is not None:
                place = f"installed in {each.server.base_dir}"
                err.print(f"{each.suite} is {each.name} today, {place}")
            elif each.is_new:
                err.print(f"installed {each.name} in {each.server.base_dir}")
            else:
                err.print(f"{each.name} is installed already")


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_command(name: str, as_json: bool) -> None:
    """Show where a server comes from and how it was built."""
    found = use_case.find_server(name)
    data = _available(found) if isinstance(found, Entry) else _present(found)
    if as_json:
        print_json(data)
        return
    table = LineTable.grid(padding=(0, 2))
    for key, value in data.items():
        if (key == "note" and value is None) or (key == "changed_files" and not value):
            continue
        for line, text in enumerate(_lines(key, value)):
            table.add_row("" if line else Text(key.replace("_", " "), style="bold"), text)
    print_table(table)


@command.command("verify")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "every", is_flag=True, help="All installed, added and attached servers.")
def verify_command(names: tuple[str, ...], every: bool) -> None:
    """Start, query, load and stop servers; check that their files did not change."""
    with Listener() as listener:
        verified = use_case.verify_servers(names, listener, every=every)
    table = plain_table("server", "version", "result", "steps")
    for each in verified:
        result = each.result
        steps = ", ".join(f"{step} {duration_s:.1f} s" for step, duration_s, _ in result.steps)
        outcome = "works" if result.ok else f"fails: {result.reason}"
        if each.changed:
            outcome += f"; changed since it was installed: {', '.join(each.changed)}"
        table.add_row(each.server.name, result.version_reported or "?", outcome, steps)
    print_table(table)
    failed = [each.server.name for each in verified if not each.is_ok]
    if failed:
        raise TrialFailed(
            f"{len(failed)} of {counted(len(verified), 'server')} failed, or changed since the "
            f"installation: {', '.join(failed)}",
            hint="the table above has the reasons; remove a changed server and install it again",
        )


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove_command(names: tuple[str, ...]) -> None:
    """Remove installed servers, or forget added ones (a directory used in place stays)."""
    for name in use_case.remove_servers(names):
        err.print(f"removed {name}")


@command.command("add")
@click.argument("name")
@click.option("--family", required=True, type=click.Choice(databases.names()))
@click.option("--tarball", metavar="PATH|URL", help="A vendor's archive (tar, zip).")
@click.option("--sha256", metavar="HEX", help="The SHA-256 of the archive.")
@click.option("--dir", "directory", metavar="PATH", help="An installation or a build tree.")
@click.option(
    "--attach",
    "dsn",
    metavar="DSN",
    help="A running server: mysql://user@host:port/ or mysql://user@/?socket=PATH",
)
def add_command(
    *,
    name: str,
    family: str,
    tarball: str | None,
    sha256: str | None,
    directory: str | None,
    dsn: str | None,
) -> None:
    """Add a server: from a tarball, from a directory, or one that is running.

    millrace reads the password for a running server from MILLRACE_PASSWORD, or asks for it. The DSN
    can contain it too (mysql://user:password@host:port/), but other users of this host can then see
    it.
    """
    if [tarball, directory, dsn].count(None) != 2:
        raise UserError(
            f"{name}: the place of the server is missing or ambiguous",
            hint="use exactly one of --tarball, --dir and --attach",
        )
    if sha256 is not None and tarball is None:
        raise UserError("--sha256 needs --tarball", hint="leave out --sha256, or use --tarball")
    if dsn is not None:
        instance = use_case.attach_server(AttachedServer(name, family, dsn), _password)
        err.print(f"added {name}; millrace never starts, stops or reconfigures it:")
        for limit in instance.limits:
            err.print(f"  {limit}")
        if (refusal := use_case.refusal_of(instance)) is not None:
            err.print(f"but it accepts no session now: {shown_line(refusal.message)}")
            err.print(f"  `millrace servers verify {name}` tries again; {refusal.hint}")
        return
    place = None if directory is None else Path(directory)
    with Listener() as listener:
        server = use_case.add_server(
            name, family, listener, tarball=tarball, sha256=sha256, directory=place
        )
    err.print(f"added {name}: {server.family} {server.version}")


def _password() -> str:
    """Return the password for a running server; empty for an account without one."""
    password = click.get_current_context().find_root().obj
    if isinstance(password, str) or not sys.stdin.isatty():
        return password or ""
    text = "Password (empty if there is none)"
    typed: str = click.prompt(text, default="", show_default=False, hide_input=True, err=True)
    return typed


def _present(server: Server) -> dict[str, Any]:
    if isinstance(server, AttachedServer):
        return {
            "name": server.name,
            "family": server.family,
            "attached": True,
            "address": attached.parse_dsn(server).account,
            "limits": AttachedInstance(server).limits,
        }
    return {
        "name": server.name,
        "family": server.family,
        "version": server.version,
        "state": "installed" if server.name in catalogue.entries() else "added",
        "program": str(server.program),
        "own_loader": len(server.argv) > 1,
        **build_facts(server).to_json(),
    }


def _available(entry: Entry) -> dict[str, Any]:
    source = entry.sources[0]
    return {
        "name": entry.name,
        "family": entry.family,
        "version": entry.version,
        "state": "available" if entry.gone is None else "gone",
        **({} if entry.gone is None else {"gone_since": entry.gone.isoformat()}),
        "source": str(source.coordinate),
        "sha256": source.sha256,
        "size_bytes": source.size_bytes,
        "symbols": entry.symbols,
    }


def _lines(key: str, value: Any) -> list[str]:
    if key == "artefacts":
        return _artefact_lines(value)
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return ["not known" if value is None else str(value)]


def _artefact_lines(artefacts: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"{each['coordinate']}, {each['size_bytes']} bytes, sha256 {each['sha256']}"
        for each in artefacts[:1]
    ]
    if len(artefacts) > 1:
        size_bytes = sum(each["size_bytes"] for each in artefacts[1:])
        packages = counted(len(artefacts) - 1, "package")
        lines.append(f"and {packages} of libraries, {size_bytes} bytes (--json names them)")
    return lines or ["none: used in place"]
