"""The option that names series of histories, and those that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from millrace.analysis.history.segments import series_names
from millrace.errors import UserError
from millrace.store.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def series_option(command: F) -> F:
    """Add ``--series TEXT``, as often as one likes; the command gets a tuple."""
    return click.option(
        "--series",
        multiple=True,
        metavar="TEXT",
        help="Only series whose id begins with TEXT, or whose name has it; may be repeated.",
    )(command)


def named_series(store: Store, path: Path, wanted: Sequence[str]) -> Mapping[str, str]:
    """The names of the series that were asked for (all if none was), by their ids.

    Raises UserError where there is none.
    """
    names = series_names(store.histories.series())
    if not names:
        raise UserError(
            f"{path}: holds no histories yet", hint="begin with `millrace history record RUN`"
        )
    found = {
        series: name
        for series, name in names.items()
        if not wanted or any(_is_named(series, name, text) for text in wanted)
    }
    if not found:
        shown = "\n".join(f"  {series}  {name}" for series, name in [*names.items()][:8])
        asked = " or ".join(repr(text) for text in wanted)
        raise UserError(
            f"{path}: no series has an id that begins with {asked}, or a name with it",
            hint=f"the series are, for example:\n{shown}",
        )
    return found


def _is_named(series: str, name: str, text: str) -> bool:
    return series.startswith(text) or text.casefold() in name.casefold()
