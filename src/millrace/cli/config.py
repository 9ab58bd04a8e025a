"""Provide ``millrace config``: show requested options and the servers' effective variables."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape

from millrace.analysis import variables
from millrace.analysis.variables import Mismatch, VariablesDiff
from millrace.app.inspect_config import (
    FoundConfiguration,
    InspectedConfig,
    find_configuration,
    inspect_config,
)
from millrace.app.servers import exclusive_host
from millrace.cli.console import err, out, plain_table, print_json, print_table
from millrace.cli.progress import Listener
from millrace.model.servers import Option, Server
from millrace.quantities import parse_size
from millrace.servers import configurations, install
from millrace.store.records import OptionRecord

_DEFAULT = "default"


def size(text: str) -> int:
    """Return a size such as 4G in bytes."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_data_option = click.option(
    "--data",
    "data_bytes",
    type=size,
    default="0",
    show_default="the smallest",
    help="Data set size, such as 4G; memory and redo log sizes scale with it.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Show and compare server configurations, as servers apply them."""


@command.command("list")
@_json_option
def list_(as_json: bool) -> None:
    """List the configurations that come with millrace."""
    definitions = configurations.load_builtin()
    rows = [
        {"name": name, "extends": each.get("extends"), "title": each.get("title", "")}
        for name, each in definitions.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = plain_table("configuration", "extends", "title")
    for row in rows:
        table.add_row(*(str(each or "") for each in row.values()))
    print_table(table)


@command.command()
@click.argument("server")
@click.argument("config", metavar="CONFIG")
@_data_option
@_json_option
def show(server: str, config: str, data_bytes: int, as_json: bool) -> None:
    """Show the options that CONFIG requests from SERVER, and the variables that they change.

    CONFIG is the name of a shipped configuration, FILE.toml:NAME for one of an experiment, or the
    path of an option file such as ./my.cnf.
    """
    wanted, own = _parse_side(f"{server}:{config}"), _parse_side(server)
    with Listener() as listener, exclusive_host("config show", listener):
        asked = _inspect(wanted, data_bytes)
        of_own = asked if wanted == own else _inspect(own, data_bytes)
    requested = [OptionRecord(o.name, o.value, o.layer, o.optional) for o in asked.fitted.applied]
    mismatches = variables.asked_against_effective(requested, asked.effective)
    against_own = variables.diff(of_own.effective, asked.effective, ignored=asked.host_variables)
    if as_json:
        print_json(_show_as_data(asked, mismatches, against_own))
        return
    out.print(
        f"[bold]{escape(_side_name(asked))}[/], version {escape(asked.version_reported)}",
        markup=True,
    )
    if wanted == own:
        out.print("no options are requested: the server uses its own defaults")
        return
    _print_asked(asked, mismatches)
    _print_groups(against_own, f"{server}:{_DEFAULT}", f"{server}:{config}")


@command.command()
@click.argument("a", metavar="SERVER_A[:CONFIG]")
@click.argument("b", metavar="SERVER_B[:CONFIG]")
@_data_option
@_json_option
def diff(a: str, b: str, data_bytes: int, as_json: bool) -> None:
    """Compare the effective variables of two servers: only in A, only in B, different.

    Starts and queries both servers. Prints only the items that differ of lists such as
    optimizer_switch; JSON has the complete lists. Leaves out paths, ports and host names, which
    always differ. CONFIG is a shipped name, FILE.toml:NAME, or the path of an option file.
    """
    sides = [_parse_side(side) for side in (a, b)]
    with Listener() as listener, exclusive_host("config diff", listener):
        of_a, of_b = (_inspect(side, data_bytes) for side in sides)
    differences = variables.diff(
        of_a.effective, of_b.effective, ignored={*of_a.host_variables, *of_b.host_variables}
    )
    if as_json:
        headings = {"a": _side_as_data(of_a), "b": _side_as_data(of_b)}
        print_json({**headings, **asdict(differences)})
        return
    _print_groups(differences, _side_name(of_a), _side_name(of_b))


def _parse_side(side: str) -> tuple[Server, FoundConfiguration]:
    """Return the server and configuration of ``SERVER[:CONFIG]``; UserError for a wrong name."""
    server, _, config = side.partition(":")
    found = find_configuration(config or _DEFAULT)
    return install.find(server), found


def _inspect(side: tuple[Server, FoundConfiguration], data_bytes: int) -> InspectedConfig:
    server, config = side
    err.print(f"querying {server.name}:{config.name}")
    for note in config.notes:
        err.print(f"note: {note}")
    return inspect_config(server, config, data_bytes=data_bytes)


def _side_name(asked: InspectedConfig) -> str:
    return f"{asked.server}:{asked.configuration}"


def _print_asked(asked: InspectedConfig, mismatches: Sequence[Mismatch]) -> None:
    effective = {mismatch.name: mismatch.effective for mismatch in mismatches}
    _print_table(
        "requested[/] (with the effective value where it differs)",
        ("option", "requested", "effective", "layer"),
        (
            (each.name, _value(each.value), effective.get(each.name, ""), each.layer)
            for each in asked.fitted.applied
        ),
    )
    _print_table(
        "left out[/]",
        ("option", "value", "layer", "reason"),
        (
            (left.option.name, _value(left.option.value), left.option.layer, left.reason)
            for left in asked.fitted.left_out
        ),
    )


def _print_groups(differences: VariablesDiff, a: str, b: str) -> None:
    for side, only in ((a, differences.only_a), (b, differences.only_b)):
        _print_table(f"only in {escape(side)}[/] ({len(only)})", ("variable", side), only.items())
    different = differences.different.items()
    _print_table(
        f"different[/] ({len(different)})",
        ("variable", a, b),
        ((name, *variables.differing_items(*values)) for name, values in different),
    )
    if not (differences.only_a or differences.only_b or differences.different):
        out.print(f"\n{a} and {b} have the same variables")


def _print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table if it has rows; ``title`` is markup that starts in bold."""
    table = plain_table(*headings)
    for row in rows:
        table.add_row(*row)
    if table.rows:
        out.print(f"\n[bold]{title}", markup=True)
        print_table(table)


def _value(value: str | None) -> str:
    """Return an option's value for a table: ``(flag)`` for none, ``''`` for empty text."""
    return "(flag)" if value is None else value or "''"


def _show_as_data(
    asked: InspectedConfig, mismatches: Sequence[Mismatch], against_own: VariablesDiff
) -> dict[str, Any]:
    return {
        **_side_as_data(asked),
        "asked": list(map(_option_as_data, asked.fitted.applied)),
        "left_out": [
            {**_option_as_data(left.option), "reason": left.reason}
            for left in asked.fitted.left_out
        ],
        "asked_but_not_effective": [
            {"name": each.name, "asked": each.asked, "effective": each.effective}
            for each in mismatches
        ],
        "against_default": asdict(against_own),
        "effective": dict(asked.effective),
    }


def _option_as_data(option: Option) -> dict[str, str | None]:
    return {"name": option.name, "value": option.value, "layer": option.layer}


def _side_as_data(asked: InspectedConfig) -> dict[str, Any]:
    return {
        "server": asked.server,
        "configuration": asked.configuration,
        "version": asked.version_reported,
    }
