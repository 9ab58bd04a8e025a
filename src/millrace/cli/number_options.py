"""Numbers of the command line that are within a range and finite, and durations."""

from __future__ import annotations

import math
from typing import Any

import click

from millrace import durations


class Finite(click.FloatRange):
    """A number within a range; nan, which every range lets pass, is refused."""

    noun = "a number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not {self.noun}.", param, ctx)
        return number


class Percent(Finite):
    """A number of percent within a range."""

    name = "percent"
    noun = "a number of percent"


class Duration(click.ParamType[float]):
    """A duration such as ``45min``, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return durations.parse(str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
