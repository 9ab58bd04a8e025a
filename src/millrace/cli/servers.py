"""``millrace servers``: list, install, show, verify, remove and add servers."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from millrace import databases
from millrace.cli.console import LineTable, err, plain_table, print_json, print_table
from millrace.cli.exclusive_host import quiet_host
from millrace.errors import TrialFailed, UserError
from millrace.model.servers import AttachedServer, InstalledServer, Server, as_data
from millrace.servers import added, attached, catalogue, install, served, suites
from millrace.servers.attached import AttachedInstance
from millrace.servers.catalogue import Suite
from millrace.servers.instances.signals import signals_as_errors
from millrace.servers.served import ServedAnswer
from millrace.servers.verify import verify


@click.group("servers")
def command() -> None:
    """List, install, check and add servers."""


@command.command("list")
@click.option("--ask", is_flag=True, help="Ask every source of the catalogue whether it has it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(ask: bool, as_json: bool) -> None:
    """Every server millrace knows, and whether it is on this host.

    A server that is gone has no source any more, as far as this millrace knows; a suite's name
    installs its newest build, under the exact name of that build.
    """
    rows = [*install.list_servers(), *install.list_suites()]
    if ask:
        err.print("asking every source")
    answers = served.ask_all() if ask else {}
    if as_json:
        asked = {name: asdict(answer) for name, answer in answers.items()}
        print_json([{**asdict(row), **asked.get(row.name, {})} for row in rows])
        return
    columns = ["server", "version", "state", "download", "source"]
    table = plain_table(*columns, *(["today"] if ask else []))
    for row in rows:
        size = "" if row.download_bytes is None else f"{row.download_bytes / 1e6:6.0f} MB"
        state = row.state if row.state != "gone" else f"gone {row.gone_since}"
        cells = [row.name, row.version or "", state, size, row.source or ""]
        table.add_row(*cells, *([_today(answers.get(row.name))] if ask else []))
    print_table(table)


def _today(answer: ServedAnswer | None) -> str:
    if answer is None:
        return ""
    words = {True: "served", False: "gone", None: "not known"}[answer.served]
    return f"{words}: {answer.reason}" if answer.reason else words


@command.command("install")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def install_command(names: tuple[str, ...]) -> None:
    """Download servers of the catalogue and make them ready; no root is needed."""
    wanted = dict.fromkeys(names)
    install.require_known(name for name in wanted if name not in catalogue.suites())
    for name in wanted:
        if name in catalogue.suites():
            _install_newest(catalogue.suites()[name])
            continue
        if name not in catalogue.entries():
            err.print(f"{name} was added: it needs no installing")
            continue
        already = install.installed(name) is not None
        with signals_as_errors(), DownloadBar() as bar:
            server = install.install(name, progress=bar)
        err.print(
            f"{name} is installed already" if already else f"installed {name} in {server.base_dir}"
        )


def _install_newest(suite: Suite) -> None:
    with signals_as_errors(), DownloadBar() as bar:
        server = suites.install_newest(suite, bar)
    err.print(f"{suite.name} is {server.name} today, installed in {server.base_dir}")


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_command(name: str, as_json: bool) -> None:
    """Where a server comes from and how it was built."""
    entry = catalogue.entries().get(name)
    if entry is not None and install.installed(name) is None:
        data = _available(entry)
    else:
        data = _present(install.find(name))
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
@click.option("--all", "every", is_flag=True, help="All that are installed, added or attached.")
def verify_command(names: tuple[str, ...], every: bool) -> None:
    """Boot, query, load, stop: does a server work here, and is it what was installed?"""
    if bool(names) == every:
        raise UserError("give the names of servers, or --all")
    if every:
        names = tuple(
            row.name for row in install.list_servers() if row.state not in install.MISSING
        )
    servers = [install.find(name) for name in dict.fromkeys(names)]
    table = plain_table("server", "version", "result", "steps")
    failed = []
    with quiet_host("servers verify"):
        for server in servers:
            err.print(Text(server.name, style="bold"))
            result = verify(server, lambda text: err.print(f"  {text}"))
            steps = ", ".join(f"{step} {duration_s:.1f} s" for step, duration_s, _ in result.steps)
            outcome = "works" if result.ok else f"fails: {result.reason}"
            changed = server.changed if isinstance(server, InstalledServer) else ()
            if changed:
                outcome += f"; changed since it was installed: {', '.join(changed)}"
            table.add_row(server.name, result.version_reported or "?", outcome, steps)
            if not result.ok or changed:
                failed.append(server.name)
    print_table(table)
    if failed:
        raise TrialFailed(
            f"{len(failed)} of {len(servers)} do not work, or are not what was installed: "
            f"{', '.join(failed)}"
        )


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove_command(names: tuple[str, ...]) -> None:
    """Remove installed servers, or forget added ones (a directory used in place stays)."""
    for name in dict.fromkeys(names):
        install.remove(name)
        err.print(f"removed {name}")


@command.command("add")
@click.argument("name")
@click.option("--family", required=True, type=click.Choice(databases.names()))
@click.option("--tarball", metavar="PATH|URL", help="A vendor's archive (tar, zip).")
@click.option("--sha256", metavar="HEX", help="What the archive must have.")
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
    """Add any other server: a tarball, a directory, or one that runs elsewhere.

    The password for a running server is taken from MILLRACE_PASSWORD, or asked for. It can also be
    a part of the DSN (mysql://user:password@host:port/), where other users of this host can see it.
    """
    if [tarball, directory, dsn].count(None) != 2:
        raise UserError("say where the server is: one of --tarball, --dir, --attach")
    if sha256 is not None and tarball is None:
        raise UserError("--sha256 goes with --tarball")
    if dsn is not None:
        _attach(AttachedServer(name, family, dsn))
        return
    with signals_as_errors(), DownloadBar() as bar:
        if tarball is not None:
            server = added.add_tarball(name, family, tarball, sha256=sha256, progress=bar)
        else:
            assert directory is not None
            server = added.add_directory(name, family, Path(directory), progress=bar)
    err.print(f"added {name}: {server.family} {server.version}")


def _attach(server: AttachedServer) -> None:
    if attached.lacks_password(server):
        server = attached.with_password(server, _password())
    _say_limits(added.add_attached(server.name, server.family, server.dsn))


def _password() -> str:
    """The password for a running server; an account without one has an empty one."""
    given = os.environ.get("MILLRACE_PASSWORD")
    if given is not None or not sys.stdin.isatty():
        return given or ""
    text = "Password (empty if there is none)"
    asked: str = click.prompt(text, default="", show_default=False, hide_input=True, err=True)
    return asked


def _say_limits(server: AttachedServer) -> None:
    err.print(f"added {server.name}; it is measured, never started, stopped or reconfigured:")
    for limit in AttachedInstance(server).limits:
        err.print(f"  {limit}")


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
        "state": _state(server),
        "program": str(server.program),
        "own_loader": len(server.argv) > 1,
        **as_data(server),
    }


def _state(server: InstalledServer) -> str:
    return "installed" if server.name in catalogue.entries() else "added"


def _available(entry: catalogue.Entry) -> dict[str, Any]:
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
    """A value of ``show`` as lines of text."""
    if key == "artefacts":
        return _artefact_lines(value)
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return ["not known" if value is None else str(value)]


def _artefact_lines(artefacts: list[dict[str, Any]]) -> list[str]:
    """The artefact itself; of the packages that came with it only how many."""
    lines = [
        f"{each['coordinate']}, {each['size_bytes']} bytes, sha256 {each['sha256']}"
        for each in artefacts[:1]
    ]
    if len(artefacts) > 1:
        size_bytes = sum(each["size_bytes"] for each in artefacts[1:])
        count = len(artefacts) - 1
        lines.append(f"and {count} packages of libraries, {size_bytes} bytes (--json names them)")
    return lines or ["none: used in place"]


class DownloadBar:
    """Shows what a download tells: a bar on a terminal, sentences everywhere."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(24),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=err,
            transient=True,
            disable=not err.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> DownloadBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def moved(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        """See ``servers.progress.Progress``."""
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total_bytes)
        self._bar.update(self._tasks[what], completed=done_bytes, total=total_bytes)

    def say(self, text: str) -> None:
        """See ``servers.progress.Progress``."""
        err.print(text, markup=False)
