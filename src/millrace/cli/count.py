"""Provide ``millrace count``: count the instructions that servers execute for a statement."""

from collections.abc import Sequence
from pathlib import Path

import click

from millrace.analysis.counts.model import CountGroup
from millrace.app import count as use_case
from millrace.cli.console import err, out, print_json
from millrace.cli.event_text import calling
from millrace.cli.experiment_options import ExperimentChoice, count_options
from millrace.cli.options import OUTPUT_FILE, store_option
from millrace.cli.plan import note_if_nothing_compared
from millrace.errors import TrialFailed, UserError
from millrace.experiment.model import COUNTED_STARTS, Experiment
from millrace.output_files import FLAME_GRAPH, refuse_place, write_text
from millrace.report import counts
from millrace.report.common.flame_graph import as_svg

_MOST_STARTS = 100
_GRAPH = "--flame-graph"


@click.command()
@count_options
@click.option(
    "--starts",
    type=click.IntRange(1, _MOST_STARTS),
    default=COUNTED_STARTS,
    show_default=True,
    help="Number of starts of each server.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--flame-graph",
    "graph",
    type=OUTPUT_FILE,
    help="Write differential flame graphs (SVG) of instructions to FILE.",
)
@store_option
@click.option("--new", "fresh", is_flag=True, help="Count anew, even if a run can be resumed.")
def command(
    *,
    choice: ExperimentChoice,
    starts: int,
    as_json: bool,
    graph: Path | None,
    store: Path,
    fresh: bool,
) -> None:
    """Count the instructions per statement of the experiment in FILE, or resume where it stopped.

    Runs each server under valgrind with one client, and compares the counts function by function.
    Other load on the host does not change the counts. The run is stored: `millrace report` shows it
    again. Exit status 3 when a server has no count, 4 when this host has no valgrind.
    """
    experiment = choice.read()
    note_if_nothing_compared(experiment)
    if graph is not None:
        _refuse_graph(experiment, graph)
    with calling() as caller:
        found = use_case.count(store, experiment, caller, starts=starts, fresh=fresh)
    if as_json:
        print_json(counts.as_json(found))
    else:
        counts.show(found, out)
    if graph is not None:
        _write_graph(found.groups, graph)
    refused = [
        f"{count.label}: {count.refusal}"
        for group in found.groups
        for count in group.counts
        if count.refusal is not None
    ]
    if refused:
        raise TrialFailed("\n".join(dict.fromkeys(refused)))


def _refuse_graph(experiment: Experiment, path: Path) -> None:
    """Raise UserError if the file cannot be written, or the experiment has several comparisons."""
    refuse_place(path, FLAME_GRAPH, _GRAPH)
    number = use_case.comparisons(experiment)
    if number != 1:
        raise UserError(
            f"{experiment.source} has {number} comparisons, and a flame graph shows one",
            hint="choose one with --candidate, and a single level of each other factor in the file",
        )


def _write_graph(groups: Sequence[CountGroup], path: Path) -> None:
    ((comparison,),) = (group.comparisons for group in groups)
    if comparison.ratio is not None:  # else the reason is an error of its own
        written = write_text(
            path, as_svg(counts.count_graph(comparison)), FLAME_GRAPH, option=_GRAPH
        )
        err.print(f"wrote {written}")
