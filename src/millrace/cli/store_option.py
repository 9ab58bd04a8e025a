"""Define the options that name the results store and its series."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from millrace import paths

F = TypeVar("F", bound=Callable[..., Any])


def store_option(command: F) -> F:
    """Add ``--store PATH``; the command gets it as ``store``."""
    return click.option(
        "--store",
        type=click.Path(path_type=Path),
        default=paths.default_store,
        show_default="results.sqlite in millrace's state directory",
        help="The results store (also MILLRACE_STORE).",
    )(command)


def series_option(command: F) -> F:
    """Add ``--series TEXT``, which may be repeated; the command gets a tuple."""
    return click.option(
        "--series",
        multiple=True,
        metavar="TEXT",
        help="Only series whose id starts with TEXT or whose name contains it; may be repeated.",
    )(command)
