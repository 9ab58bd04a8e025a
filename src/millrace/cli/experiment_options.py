"""Define the options that commands on an experiment share: its file and the overrides."""

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
            raise click.BadParameter(f"unknown collector {name!r}; known collectors: {known}.")
    return chosen_collectors(names, CHOOSABLE)


@dataclass(frozen=True)
class ExperimentChoice:
    """An experiment file, the scale and the overrides, from the command line."""

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
    help="Maximum number of blocks per verdict; a clear verdict stops earlier (default: the "
    "experiment's).",
)
_MAX_BLOCKS = click.option(
    "--max-blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="Maximum number of blocks; the run stops earlier when all verdicts are clear.",
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
    """Add FILE and the options that select its treatments; a count has no blocks or margin."""
    return _with_options(command, _SELECTORS)


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE and the options that override it; the command gets them as ``choice``."""
    return _with_choice(command, _BLOCKS, _MAX_BLOCKS, _PROFILE_BLOCKS)


def calibration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a calibrated experiment, which has no profiled blocks."""
    return _with_choice(command, _BLOCKS_OF_A_VERDICT)


def _with_choice(command: Callable[..., Any], *of_blocks: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of all commands that measure, including the options ``of_blocks``."""
    options = (
        *_SELECTORS,
        click.option(
            "--interleaved",
            is_flag=True,
            default=None,
            help="Run each trial from start to end, in random order within a block, instead of in "
            "slices (see --slices).",
        ),
        click.option(
            "--slices",
            is_flag=True,
            default=None,
            help="Let the servers of a comparison take turns every few milliseconds. This is the "
            "default where slices are valid; with this option, the command fails where they are "
            "not.",
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
            help="Comma-separated names of collectors, `all` (those that sample trials) or `none`; "
            "`instructions` counts the instructions of each treatment after all trials.",
        ),
        click.option(
            "--seed", type=click.IntRange(0, MAX_SEED), help="Seed of the trials' random order."
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
    """Add options; the command gets their values as ``choice``."""

    @functools.wraps(command)
    def with_choice(*, file: Path, scale: str | None, **options: Any) -> Any:
        overrides = Overrides(**{f.name: options.pop(f.name, None) for f in fields(Overrides)})
        is_limited = overrides.max_blocks is not None or overrides.max_time_s is not None
        if blocks_are_exact and overrides.blocks is not None and is_limited:
            limit = "--max-blocks" if overrides.max_blocks is not None else "--max-time"
            raise UserError(
                f"--blocks sets an exact number of blocks, so {limit} cannot limit it",
                hint=f"leave out --blocks or {limit}",
            )
        return command(choice=ExperimentChoice(file, scale, overrides), **options)

    return functools.reduce(lambda made, option: option(made), reversed(options), with_choice)
