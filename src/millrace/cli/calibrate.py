"""Provide ``millrace calibrate``: measure how reliable verdicts are on this host."""

import re
from dataclasses import replace
from pathlib import Path

import click

from millrace.app import calibrate as use_case
from millrace.cli.console import out, print_json
from millrace.cli.event_text import calling
from millrace.cli.experiment_options import ExperimentChoice, calibration_options
from millrace.cli.options import store_option
from millrace.experiment.slowdown import CPU, FSYNC, NONE
from millrace.report import calibration
from millrace.report.common.terminal_table import show_table

MOST_VERDICTS = 10_000

_OPTION = re.compile(r"[A-Za-z][\w-]*=\S*")


def slowdown(text: str) -> str:
    """Return ``text`` if it is a slowdown: none, cpu, fsync or OPTION=VALUE."""
    of_option = _OPTION.fullmatch(text) and text.partition("=")[0] not in (CPU, FSYNC)
    if text not in (NONE, CPU, FSYNC) and not of_option:
        raise click.BadParameter(
            f"{text!r} is not a slowdown: expected none, cpu, fsync or OPTION=VALUE."
        )
    return text


@click.command()
@calibration_options
@store_option
@click.option(
    "--verdicts",
    type=click.IntRange(1, MOST_VERDICTS),
    default=20,
    show_default=True,
    help="Number of A/A verdicts, spread evenly over the groups.",
)
@click.option(
    "--slowdown",
    "injected",
    type=slowdown,
    default=CPU,
    show_default=True,
    metavar="none|cpu|fsync|OPTION=VALUE",
    help="The slowdown to inject; verdicts should detect it.",
)
@click.option("--new", "fresh", is_flag=True, help="Start a new run, even if one can be resumed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    choice: ExperimentChoice,
    *,
    store: Path,
    verdicts: int,
    injected: str,
    fresh: bool,
    as_json: bool,
) -> None:
    """Measure how reliable verdicts on the experiment in FILE are on this host.

    Compares its base with itself, so that every reported difference is false, and then with the
    base slowed down. The same command resumes; a larger --verdicts adds to the stored verdicts.
    Reports quote the result.
    """
    # --max-time limits the whole calibration, not the blocks of one verdict.
    of_verdict = replace(choice, overrides=replace(choice.overrides, max_time_s=None))
    with calling() as caller:
        found = use_case.calibrate(
            store,
            of_verdict.read(),
            caller,
            verdicts=verdicts,
            injected=None if injected == NONE else injected,
            limit_s=choice.overrides.max_time_s,
            fresh=fresh,
        )
    if as_json:
        print_json(calibration.as_json(found))
        return
    out.print(f"calibration of this host for {found.target.name} (run {found.run.id})")
    out.print()
    show_table(calibration.groups_table(found), out)
    out.print()
    for line in calibration.sentences(found):
        out.print(line)
