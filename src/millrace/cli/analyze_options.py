"""The options that the commands of ``millrace analyze`` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from millrace.analysis.compare.verdict import margin_text
from millrace.cli.fail_on import fail_on_option
from millrace.cli.number_options import Finite, Percent


def judging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE, ``--json``, ``--margin``, ``--alpha``, ``--direction`` and ``--fail-on``; the
    margin comes as a fraction."""

    @click.argument("file", type=click.Path(path_type=Path))
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.option(
        "--margin",
        type=Percent(0, 100, min_open=True, max_open=True),
        default=2.0,
        show_default=True,
        metavar="PERCENT",
        help="The smallest difference that matters.",
    )
    @click.option(
        "--alpha",
        type=Finite(1e-6, 0.5),
        default=0.05,
        show_default=True,
        metavar="P",
        help="The share of intervals that may exclude no difference by chance.",
    )
    @click.option(
        "--direction",
        type=click.Choice(["higher", "lower"]),
        help="Which values are better (default: the file's columns direction or unit).",
    )
    @fail_on_option
    @functools.wraps(command)
    def with_fraction(*, margin: float, **others: Any) -> Any:
        return command(margin=margin / 100, **others)

    return with_fraction


def judged_text(what: str, better: str, margin: float) -> str:
    """Return the first line: what was judged, which values are better, and the margin."""
    return f"{what}; {better}, margin {margin_text(margin)}"
