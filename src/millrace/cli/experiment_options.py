"""The experiment file and what a request changes of it: the options that commands share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from millrace.experiment.check import MAX_BLOCKS, MAX_MARGIN_PERCENT, MAX_SEED, Surroundings
from millrace.experiment.model import Experiment
from millrace.experiment.read import NO_OVERRIDES, Overrides, read
from millrace.report import published
from millrace.servers import configurations, install


class Percent(click.FloatRange):
    """A number of percent within a range; nan, which every range lets pass, is refused."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number of percent.", param, ctx)
        return number


@dataclass(frozen=True)
class ExperimentChoice:
    """An experiment as the command line names it."""

    path: Path
    scale: str | None = None
    overrides: Overrides = NO_OVERRIDES

    def read(self) -> Experiment:
        """The experiment, checked against the servers and configurations of this host."""
        surroundings = Surroundings(
            servers=[listing.name for listing in install.list_servers()],
            configurations=configurations.load_builtin(),
            check_configurations=configurations.check,
            check_option=configurations.check_varied_option,
            studies=published.study_names(),
        )
        return read(
            self.path, scale=self.scale, surroundings=surroundings, overrides=self.overrides
        )


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE, ``--scale``, ``--blocks``, ``--seed``, ``--margin``; the command gets a choice."""

    @click.argument("file", type=click.Path(path_type=Path))
    @click.option("--scale", help="One of the file's scales, such as demo or laptop.")
    @click.option(
        "--blocks", type=click.IntRange(1, MAX_BLOCKS), help="How often each treatment runs."
    )
    @click.option(
        "--seed", type=click.IntRange(0, MAX_SEED), help="Decides the order of the trials."
    )
    @click.option(
        "--margin",
        type=Percent(0, MAX_MARGIN_PERCENT, min_open=True),
        metavar="PERCENT",
        help="The smallest difference that matters.",
    )
    @functools.wraps(command)
    def with_choice(
        file: Path,
        scale: str | None,
        blocks: int | None,
        seed: int | None,
        margin: float | None,
        **others: Any,
    ) -> Any:
        overrides = Overrides(blocks=blocks, margin_percent=margin, seed=seed)
        return command(choice=ExperimentChoice(file, scale, overrides), **others)

    return with_choice
