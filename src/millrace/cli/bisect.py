"""Provide ``millrace bisect``: find the server in a list at which performance changed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from millrace.app import bisect as use_case
from millrace.app.bisect import BisectionRequest
from millrace.cli.console import echo, print_json
from millrace.cli.event_text import calling
from millrace.cli.options import Percent, duration, margin_option, store_option
from millrace.cli.report import show_bisection
from millrace.errors import nearest_names
from millrace.experiment.settings import MAX_MARGIN_PERCENT
from millrace.levels import Level
from millrace.output_files import PAGE, write_text
from millrace.report import bisection
from millrace.servers import install
from millrace.user_files import read_user_file

_MOST_BYTES = 1 << 20
_NUMBER = re.compile(r"-?\d+")
_SWITCHES: Mapping[str, Level] = {"on": True, "true": True, "off": False, "false": False}


def servers(text: str) -> tuple[str, ...]:
    """Return the server names in ``text``: comma-separated, or a file with one name per line."""
    if Path(text).is_file():
        try:
            lines = read_user_file(Path(text), _MOST_BYTES).decode().splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise click.BadParameter(f"{text} cannot be read: {problem}") from None
        names = [line.partition("#")[0].strip() for line in lines]
    else:
        names = [name.strip() for name in text.split(",")]
        known = [row.name for row in install.list_servers()]
        if "," not in text and text not in known:
            near = nearest_names(text, known)
            meant = f" The nearest names are {', '.join(near)}." if near else ""
            raise click.BadParameter(
                f"{text!r} is neither a file nor a known server.{meant} "
                "`millrace servers list` shows all servers."
            )
    listed = tuple(name for name in names if name)
    if not listed:
        raise click.BadParameter(f"{text!r} contains no server name.")
    return listed


def option_value(text: str) -> tuple[str, Level]:
    """Return the name and the value (a number, a boolean or text) of a server option NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
    return name, int(value) if _NUMBER.fullmatch(value) else _SWITCHES.get(value.lower(), value)


@click.command()
@click.option(
    "--good", required=True, metavar="SERVER", help="A server without the change (usually faster)."
)
@click.option(
    "--bad", required=True, metavar="SERVER", help="A server that has the change (usually slower)."
)
@click.option(
    "--among",
    required=True,
    type=servers,
    metavar="LIST",
    help="The servers from --good to --bad, in order: comma-separated names, or a file with one "
    "name per line.",
)
@click.option(
    "--workload",
    required=True,
    metavar="W",
    help="A built-in workload, one of its tests, or an experiment file in which each factor has "
    "one level.",
)
@click.option("--scale", help="One of the experiment file's scales.")
@click.option(
    "--option",
    "options",
    type=option_value,
    multiple=True,
    metavar="NAME=VALUE",
    help="A server option for all servers; may be repeated.",
)
@click.option(
    "--by",
    type=click.Choice(["instructions"]),
    help="Compare instructions per statement, counted by valgrind, instead of speed.",
)
@margin_option("The smallest change that matters.", Percent(0, MAX_MARGIN_PERCENT, min_open=True))
@click.option(
    "--confidence",
    type=Percent(50, 99.99),
    default=95.0,
    show_default=True,
    metavar="PERCENT",
    help="Stop when the answer is correct with this probability.",
)
@click.option(
    "--max-time",
    type=duration,
    metavar="DURATION",
    help="Start no trial that would exceed this total time, such as 45min or 2h.",
)
@click.option("--new", "fresh", is_flag=True, help="Start a new run, even if one can be resumed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@store_option
def command(
    *,
    options: tuple[tuple[str, Level], ...],
    by: str | None,
    margin: float | None,
    confidence: float,
    max_time: float | None,
    fresh: bool,
    as_json: bool,
    store: Path,
    **named: Any,
) -> None:
    """Find the server in a list at which the performance of a workload changed.

    Each trial measures the server whose result is expected to narrow the search most. Noise leads
    to more trials, not to a wrong answer. The same command resumes an interrupted search.
    """
    request = BisectionRequest(
        **named,
        options=dict(options),
        margin_percent=margin,
        confidence=confidence / 100,
        by_instructions=by is not None,
    )
    with calling() as caller:
        found = use_case.bisect(store, request, caller, limit_s=max_time, fresh=fresh)
    page = write_text(found.page, bisection.as_html(found.found), PAGE, make_directory=True)
    if as_json:
        print_json(bisection.as_json(found.found))
    else:
        show_bisection(found.found)
        echo(f"report: {page}\n")
