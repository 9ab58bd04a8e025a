"""Define the options that several commands take, and the types of their values."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from millrace import paths
from millrace.quantities import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

PASSWORD_VARIABLE = "MILLRACE_PASSWORD"  # noqa: S105 - its name
"""The environment variable with the password of a server to add.

At start, the command line removes it from the environment and keeps its value as the root
context's ``obj``.
"""


OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False)
"""A file that a command writes."""


class OrderedGroup(click.Group):
    """A group whose help lists the commands in the order of their definitions."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def store_option(command: F) -> F:
    """Add ``--store PATH``; the command gets it as ``store``."""
    return click.option(
        "--store",
        type=click.Path(path_type=Path),
        default=paths.default_store,
        show_default="results.sqlite in millrace's state directory",
        help="The results store (also MILLRACE_STORE).",
    )(command)


def margin_option(meaning: str, limits: click.FloatRange, *names: str) -> Callable[[F], F]:
    """Return the decorator that adds ``--margin PERCENT``, the smallest difference that matters."""
    return click.option("--margin", *names, type=limits, metavar="PERCENT", help=meaning)


def series_option(command: F) -> F:
    """Add ``--series TEXT``, which may be repeated; the command gets a tuple."""
    return click.option(
        "--series",
        multiple=True,
        metavar="TEXT",
        help="Only series whose id starts with TEXT or whose name contains it; may be repeated.",
    )(command)


def sensitivity_option(found: str) -> Callable[[F], F]:
    """Return the decorator that adds ``--sensitivity``; ``found`` is the noun for a result."""
    return click.option(
        "--sensitivity",
        type=click.Choice(["review", "alert"]),
        default="review",
        show_default=True,
        help=f"`review` finds {found} for a weekly review, `alert` only those worth paging "
        "somebody.",
    )


class Finite(click.FloatRange):
    """A finite number within a range; click's ranges accept nan, this one does not."""

    noun = "a number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not {self.noun}.", param, ctx)
        return number


class Percent(Finite):
    """A percentage within a range."""

    name = "percent"
    noun = "a percentage"


def duration(text: str) -> float:
    """Return a duration such as ``45min`` in seconds."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
