"""Define the options of an experiment that commands share: the file, and what overrides it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from millrace.app.experiments import CHOOSABLE, read_experiment
from millrace.cli.options import Percent, duration, margin_option
from millrace.errors import UserError
from millrace.experiment.model import Experiment
from millrace.experiment.read import NO_OVERRIDES, Overrides
from millrace.experiment.settings import MAX_BLOCKS, MAX_MARGIN_PERCENT
from millrace.experiment.validation import ALL, INSTRUCTIONS, MAX_SEED, chosen_collectors


def collectors(text: str) -> tuple[str, ...]:
    """Return names of collectors, in the order in which they start."""
    if text == "none":
        return ()
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in (*CHOOSABLE, INSTRUCTIONS, ALL):
            known = ", ".join((*CHOOSABLE, INSTRUCTIONS))
            raise click.BadParameter(f"unknown collector {name!r}; there are: {known}.")
    return chosen_collectors(names, CHOOSABLE)


@dataclass(frozen=True)
class ExperimentChoice:
    """An experiment as the command line names it."""

    path: Path
    scale: str | None = None
    overrides: Overrides = NO_OVERRIDES

    def read(self) -> Experiment:
        """Read the experiment and check it against the servers and configurations of this host."""
        return read_experiment(self.path, scale=self.scale, overrides=self.overrides)


_BLOCKS = click.option(
    "--blocks", type=click.IntRange(1, MAX_BLOCKS), help="Measure exactly this many blocks."
)
_BLOCKS_OF_A_VERDICT = click.option(
    "--blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Most blocks of a verdict, fewer where it is decided (default: the experiment's).",
)
_MAX_BLOCKS = click.option(
    "--max-blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Measure at most this many blocks, fewer where each comparison is decided.",
)
_PROFILE_BLOCKS = click.option(
    "--profile-blocks",
    type=click.IntRange(0, MAX_BLOCKS),
    help="Number of profiled blocks, measured after the others.",
)


_SELECTORS = (
    click.argument("file", type=click.Path(path_type=Path)),
    click.option("--scale", help="One of the file's scales, such as demo or laptop."),
    click.option("--candidate", metavar="LEVEL", help="Compare only this level with the base."),
)


def count_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE and what selects its treatments; counts have neither blocks nor a margin."""
    return _with_options(command, _SELECTORS)


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE and the options that override it; the command gets a choice."""
    return _with_choice(command, _BLOCKS, _MAX_BLOCKS, _PROFILE_BLOCKS)


def calibration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of an experiment whose verdicts are calibrated; nothing is profiled."""
    return _with_choice(command, _BLOCKS_OF_A_VERDICT)


def _with_choice(command: Callable[..., Any], *of_blocks: Callable[..., Any]) -> Callable[..., Any]:
    """Add what all commands that measure have, and options ``of_blocks`` in their place."""
    options = (
        *_SELECTORS,
        click.option(
            "--interleaved",
            is_flag=True,
            default=None,
            help="Measure whole trials one after the other, in random order.",
        ),
        click.option(
            "--slices",
            is_flag=True,
            default=None,
            help="Let the servers of a comparison take turns every few milliseconds. That is the "
            "default where it is valid; with this option, all else is refused.",
        ),
        *of_blocks,
        click.option(
            "--max-time",
            "max_time_s",
            type=duration,
            metavar="DURATION",
            help="Start no block that would exceed this total time, such as 45min or 1h30min.",
        ),
        click.option(
            "--collectors",
            type=collectors,
            metavar="NAMES",
            help="Collectors, separated by commas: `all` that sample trials, `none`, or names; "
            "`instructions` counts the instructions of each treatment after all trials.",
        ),
        click.option(
            "--seed", type=click.IntRange(0, MAX_SEED), help="Seed of the order of the trials."
        ),
        margin_option(
            "The smallest difference that matters.",
            Percent(0, MAX_MARGIN_PERCENT, min_open=True),
            "margin_percent",
        ),
    )
    return _with_options(command, options, blocks_are_exact=_BLOCKS in of_blocks)


def _with_options(
    command: Callable[..., Any],
    options: Sequence[Callable[..., Any]],
    *,
    blocks_are_exact: bool = False,
) -> Callable[..., Any]:
    """Add options; the command gets their values as a choice."""

    @functools.wraps(command)
    def with_choice(*, file: Path, scale: str | None, **options: Any) -> Any:
        overrides = Overrides(**{f.name: options.pop(f.name, None) for f in fields(Overrides)})
        is_limited = overrides.max_blocks is not None or overrides.max_time_s is not None
        if blocks_are_exact and overrides.blocks is not None and is_limited:
            limit = "--max-blocks" if overrides.max_blocks is not None else "--max-time"
            raise UserError(
                f"--blocks is an exact number of blocks, which {limit} would change",
                hint="leave out one of them",
            )
        return command(choice=ExperimentChoice(file, scale, overrides), **options)

    return functools.reduce(lambda made, option: option(made), reversed(options), with_choice)
