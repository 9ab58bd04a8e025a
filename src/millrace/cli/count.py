"""Provide ``millrace count``: the instructions that servers execute for a statement."""

import click

from millrace.app import count as use_case
from millrace.cli.console import out, print_json
from millrace.cli.event_text import calling
from millrace.cli.experiment_options import ExperimentChoice, count_options
from millrace.cli.plan import note_if_nothing_compared
from millrace.errors import TrialFailed
from millrace.report.counts import json as report_json
from millrace.report.counts import terminal

_MOST_STARTS = 100


@click.command()
@count_options
@click.option(
    "--starts",
    type=click.IntRange(1, _MOST_STARTS),
    default=use_case.STARTS,
    show_default=True,
    help="Number of starts of each server.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(choice: ExperimentChoice, starts: int, as_json: bool) -> None:
    """Count the instructions per statement of the experiment in FILE.

    Runs each server in valgrind, drives one client on it, and compares the counts, function by
    function. A busy host does not matter. Exit status 3 when a server has no count, 4 when this
    host has no valgrind.
    """
    experiment = choice.read()
    note_if_nothing_compared(experiment)
    with calling() as caller:
        found = use_case.count(experiment, caller, starts=starts)
    if as_json:
        about = {
            "experiment": experiment.name,
            "scale": experiment.scale,
            "command": found.command,
            "valgrind": found.valgrind,
            "starts": found.starts,
        }
        print_json(report_json.as_json(found.groups, **about))
    else:
        title = experiment.title or experiment.name
        terminal.show(title, found.groups, experiment.compare.factor, out)
    refused = [
        f"{count.label}: {count.refusal}"
        for group in found.groups
        for count in group.counts
        if count.refusal is not None
    ]
    if refused:
        raise TrialFailed("\n".join(dict.fromkeys(refused)))
