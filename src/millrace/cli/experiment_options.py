"""The experiment file and what a request changes of it: the options that commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from millrace.cli.number_options import Duration, Percent
from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.errors import UserError
from millrace.experiment.model import Experiment
from millrace.experiment.read import NO_OVERRIDES, Overrides, read
from millrace.experiment.validation import MAX_BLOCKS, MAX_MARGIN_PERCENT, MAX_SEED, Surroundings
from millrace.servers import catalogue, configurations, install
from millrace.studies.lookup import study_names

_OF_ALL_TRIALS = tuple(name for name in COLLECTORS if name != PROFILE)


class Observers(click.ParamType[tuple[str, ...]]):
    """Names of observers, in the order in which they look."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if value in ("all", "none"):
            return _OF_ALL_TRIALS if value == "all" else ()
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            if name not in _OF_ALL_TRIALS:
                known = ", ".join(_OF_ALL_TRIALS)
                self.fail(f"there is no observer {name!r}; there are: {known}.", param, ctx)
        return tuple(name for name in _OF_ALL_TRIALS if name in names)


@dataclass(frozen=True)
class ExperimentChoice:
    """An experiment as the command line names it."""

    path: Path
    scale: str | None = None
    overrides: Overrides = NO_OVERRIDES

    def read(self) -> Experiment:
        """The experiment, checked against the servers and configurations of this host."""
        return read(
            self.path, scale=self.scale, surroundings=surroundings(), overrides=self.overrides
        )


def surroundings() -> Surroundings:
    """What an experiment may refer to on this host."""
    listings = install.list_servers()
    return Surroundings(
        servers=[listing.name for listing in listings],
        configurations=configurations.load_builtin(),
        check_configurations=configurations.check,
        check_option=configurations.check_varied_option,
        studies=study_names(),
        observers=_OF_ALL_TRIALS,
        suites=tuple(catalogue.suites()),
        attached=[listing.name for listing in listings if listing.state == "attached"],
    )


_BLOCKS = click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Exactly so many blocks, whatever they show.",
)
_BLOCKS_OF_A_VERDICT = click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="At most so many blocks a verdict, fewer where it is decided; the experiment's own "
    "number unless given.",
)
_MAX_BLOCKS = click.option(
    "--max-blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="At most so many blocks, fewer where each comparison is decided.",
)
_PROFILE_BLOCKS = click.option(
    "--profile-blocks",
    type=click.IntRange(0, MAX_BLOCKS),
    help="Blocks that are profiled, after the others.",
)


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE, ``--scale``, ``--candidate``, ``--side-by-side``, ``--blocks``, ``--max-blocks``,
    ``--max-time``, ``--profile-blocks``, ``--observers``, ``--seed`` and ``--margin``; the command
    gets a choice."""

    @_common_options(_BLOCKS, _MAX_BLOCKS, _PROFILE_BLOCKS)
    @functools.wraps(command)
    def with_choice(
        *, blocks: int | None, max_blocks: int | None, max_time: float | None, **others: Any
    ) -> Any:
        if blocks is not None and (max_blocks is not None or max_time is not None):
            limit = "--max-blocks" if max_blocks is not None else "--max-time"
            raise UserError(
                f"--blocks is an exact number of blocks, which {limit} would change",
                hint="leave out one of the two",
            )
        return _with_choice(
            command, blocks=blocks, max_blocks=max_blocks, max_time=max_time, **others
        )

    return with_choice


def calibration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of an experiment whose verdicts are calibrated; the command gets a choice.

    ``--blocks`` bounds each verdict, and nothing is profiled.
    """

    @_common_options(_BLOCKS_OF_A_VERDICT)
    @functools.wraps(command)
    def with_choice(**options: Any) -> Any:
        return _with_choice(command, max_blocks=None, profile_blocks=None, **options)

    return with_choice


def _common_options(
    *of_blocks: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add what all commands with an experiment have, and options ``of_blocks`` in their place."""
    options = (
        click.argument("file", type=click.Path(path_type=Path)),
        click.option("--scale", help="One of the file's scales, such as demo or laptop."),
        click.option(
            "--candidate",
            metavar="LEVEL",
            help="Compare this level alone with the base, of several.",
        ),
        click.option(
            "--side-by-side/--in-turns",
            default=None,
            help="Base and candidate at the same time, each on half of the CPUs; or one after "
            "another.",
        ),
        *of_blocks,
        click.option(
            "--max-time",
            type=Duration(),
            metavar="DURATION",
            help="The time that all trials of the run may take, such as 45min or 1h30min.",
        ),
        click.option(
            "--observers",
            type=Observers(),
            metavar="NAMES",
            help="Those that look on, separated by commas; `all` or `none`.",
        ),
        click.option(
            "--seed", type=click.IntRange(0, MAX_SEED), help="Decides the order of the trials."
        ),
        click.option(
            "--margin",
            type=Percent(0, MAX_MARGIN_PERCENT, min_open=True),
            metavar="PERCENT",
            help="The smallest difference that matters.",
        ),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda made, option: option(made), reversed(options), command)

    return add


def _with_choice(
    command: Callable[..., Any],
    *,
    file: Path,
    scale: str | None,
    candidate: str | None,
    side_by_side: bool | None,
    blocks: int | None,
    max_blocks: int | None,
    max_time: float | None,
    profile_blocks: int | None,
    observers: tuple[str, ...] | None,
    seed: int | None,
    margin: float | None,
    **others: Any,
) -> Any:
    overrides = Overrides(
        blocks=blocks,
        max_blocks=max_blocks,
        max_time_s=max_time,
        profile_blocks=profile_blocks,
        observers=observers,
        margin_percent=margin,
        seed=seed,
        candidate=candidate,
        side_by_side=side_by_side,
    )
    return command(choice=ExperimentChoice(file, scale, overrides), **others)
