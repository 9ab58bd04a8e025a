"""Provide ``millrace plan``: the trials of an experiment, with their time and disk space."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from millrace.app import experiments as use_case
from millrace.campaign.forecast import ForeseenChanges, blocks_in_time, refuse_without_space
from millrace.campaign.run_records import design_of
from millrace.cli.console import LineTable, err, out, print_json, print_table
from millrace.cli.experiment_options import ExperimentChoice, experiment_options
from millrace.cli.options import store_option
from millrace.experiment.estimate import Estimate, shortfall
from millrace.experiment.groups import groups_of
from millrace.experiment.model import Experiment, PlannedTrial, nothing_compared
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.model.trials import is_in_measured_block
from millrace.quantities import counted, duration_in_words, readable_size
from millrace.report.common.formatting import changes_text, is_hardly_visible

_SHOWN = 12  # trials
_LABELS = {"measure": "", "aa": "A/A "}  # other purposes are their own label


@click.command()
@experiment_options
@store_option
@click.option("--trials", is_flag=True, help=f"Print all trials, not only the first {_SHOWN}.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(choice: ExperimentChoice, store: Path, trials: bool, as_json: bool) -> None:
    """Estimate the time and disk space of the experiment in FILE, and print its trials in order.

    With a time limit, prints only the trials that probably fit. Starts no servers. Estimates use
    earlier trials in the store, if there are any. Exit status 4 when the disk is too small for the
    experiment.
    """
    experiment = choice.read()
    planned = use_case.plan(store, experiment)
    plan, estimate = planned.plan, planned.estimate
    if as_json:
        print_json(_as_data(planned))
    else:
        _print_plan(planned, seed_is_ours=experiment.seed is None, all_trials=trials)
    for note in (*planned.notes, shortfall(plan, estimate)):
        if note is not None:
            err.print(f"note: {note}")
    note_if_nothing_compared(experiment)
    refuse_without_space(estimate)


def note_if_nothing_compared(experiment: Experiment) -> None:
    """Print a note if the experiment has nothing to compare, which may be intended."""
    note = nothing_compared(experiment)
    if note is not None:
        err.print(f"note: {note}")


def _print_plan(planned: use_case.PlannedRun, *, seed_is_ours: bool, all_trials: bool) -> None:
    plan = planned.plan
    experiment = plan.experiment
    out.print(f"[bold]{escape(experiment.title)}[/] ({escape(experiment.name)})", markup=True)
    parameters = ", ".join(f"{key} {value}" for key, value in _telling(experiment).items())
    compare, margin = experiment.compare, f"{experiment.margin * 100:.3g} %"
    keep = f" (--seed {plan.seed} keeps this order)" if seed_is_ours else ""
    shown = _that_fit(planned)
    varied = [factor for factor in experiment.factors if len(factor.levels) > 1]
    fixed = [f"{each.name} {each.levels[0]}" for each in experiment.factors if each not in varied]
    for name, text in (
        ("scale", f"{experiment.scale}: {parameters}" if parameters else experiment.scale),
        ("compared", f"{compare.factor}, base {compare.base}, margin {margin}"),
        *((("fixed", ", ".join(fixed)),) if fixed else ()),
        ("trials", f"{counted(len(plan.treatments), 'treatment')} x {_blocks(experiment)}"),
        ("design", _design(experiment, shown)),
        ("seed", f"{plan.seed}{keep}"),
        *_estimate_lines(planned),
    ):
        out.print(f"{name:<10}{text}")
    out.print()
    # The line that counts hidden trials must save some lines.
    listed = shown if all_trials or len(shown) <= _SHOWN + _SHOWN // 2 else shown[:_SHOWN]
    print_table(_trial_table(listed, [factor.name for factor in varied]))
    if more := len(shown) - len(listed):
        out.print(f"and {counted(more, 'more trial')}: --trials prints all")
    if len(shown) < len(plan.trials):
        out.print("then more blocks of the undecided comparisons, as time allows")


def _that_fit(planned: use_case.PlannedRun) -> list[PlannedTrial]:
    """Return the trials without the blocks that probably do not fit into the time limit."""
    fit = max(blocks_in_time(planned.plan, planned.estimate), FEWEST_BLOCKS)
    trials = planned.plan.trials
    return [t for t in trials if t.block < fit or not is_in_measured_block(t.purpose)]


def _trial_table(trials: Sequence[PlannedTrial], varied: Sequence[str]) -> LineTable:
    table = LineTable(box=None, pad_edge=False, header_style="bold")
    for heading in ("trial", "block"):
        table.add_column(heading, justify="right")
    for heading in (*varied, "id"):
        table.add_column(heading, overflow="fold")
    for trial in trials:
        levels = [str(trial.treatment.levels[name]) for name in varied]
        block = f"{_LABELS.get(trial.purpose, f'{trial.purpose} ')}{trial.block + 1}"
        table.add_row(str(trial.position + 1), block, *levels, trial.id)
    return table


def _blocks(experiment: Experiment) -> str:
    blocks = f"{'at most ' if experiment.sequential else ''}{counted(experiment.blocks, 'block')}"
    apart = ((experiment.profile_blocks, "profiled"), (experiment.counted_starts, "counted"))
    more = "".join(f" + {number} that are {what}" for number, what in apart if number)
    return f"({blocks}{more})" if more else blocks


def _design(experiment: Experiment, trials: Sequence[PlannedTrial]) -> str:
    """Return when the run ends, which servers run in slices, and which blocks have A/A trials."""
    ends = "exactly this number of blocks"
    if experiment.sequential:
        ends = "until each comparison is decided"
    if experiment.max_time_s is not None:
        ends += f", for {duration_in_words(experiment.max_time_s)} at most"
    if in_slices := _slices(experiment, trials):
        ends += f"; {in_slices}"
    having = sorted({trial.block + 1 for trial in trials if trial.purpose == "aa"})
    if not having:
        return ends
    where = f"block{'s' if len(having) > 1 else ''} {', '.join(map(str, having))}"
    return f"{ends}; the base once more in {where} (A/A trial)"


def _slices(experiment: Experiment, trials: Sequence[PlannedTrial]) -> str:
    """Return a clause on the groups whose servers take turns in slices; empty for none."""
    compared = experiment.compared_factors
    treatments = {trial.treatment.id: trial.treatment for trial in trials}
    ids = {trial.treatment.id for trial in trials if trial.slot is not None}
    sliced = [treatments[each] for each in ids]
    if not sliced:
        return ""
    n_sliced, n_groups = (len(groups_of(of, compared)) for of in (sliced, treatments.values()))
    whose = "" if n_sliced == n_groups else f" of {n_sliced} of {n_groups} groups"
    return f"the servers{whose} in slices of some milliseconds"


def _telling(experiment: Experiment) -> dict[str, Any]:
    """Return the parameters whose values are not the workload's defaults."""
    parameters = experiment.checked_workload.parameters
    return {
        name: value
        for name, value in experiment.parameters.items()
        if value != parameters[name].default
    }


def _estimate_lines(planned: use_case.PlannedRun) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line: time, disk space, visible changes."""
    estimate, experiment = planned.estimate, planned.plan.experiment
    basis = "a guess: no such trial was measured on this host yet"
    if estimate.measured_share:
        share = f"{100 * estimate.measured_share:.0f} %"
        basis = f"{share} of the trials from similar trials on this host"
    yield "time", f"{_time(estimate, experiment)}, {basis}"
    yield "disk", _disk(estimate)
    if profiled := _profiled(planned):
        yield "profile", profiled
    if estimate.download_bytes:
        yield "download", f"about {readable_size(estimate.download_bytes)} of servers first"
    if planned.visible is not None:
        yield "visible", _visible(planned.visible)


def _profiled(planned: use_case.PlannedRun) -> str:
    """Return the text on profiled trials and their time, which is not limited; empty for none."""
    estimate, experiment = planned.estimate, planned.plan.experiment
    if not experiment.profile_blocks:
        return ""
    blocks = counted(experiment.profile_blocks, "profiled block")
    text = f"about {duration_in_words(estimate.profile_s)} of that for {blocks}"
    if experiment.max_time_s is not None:
        text = f"about {duration_in_words(estimate.profile_s)} for {blocks}, after the limit"
    if experiment.profile_s is None:
        return text
    return f"{text}, with {experiment.profile_s:g} s of load each"


def _disk(estimate: Estimate) -> str:
    if not estimate.peak_disk_bytes:
        return "not known: millrace does not see the disks of attached servers"
    disk, free = readable_size(estimate.peak_disk_bytes), readable_size(estimate.host_free_bytes)
    return f"about {disk} for {estimate.peak_treatment}; {free} are free"


def _visible(found: ForeseenChanges) -> str:
    """Return text such as ``changes of 0.8 % or more in 10 blocks, by the noise of run ...``."""
    of_what = "" if found.is_of_plan else ", which had other treatments of this workload"
    if is_hardly_visible(found.smallest):
        blocks = "1 block is" if found.blocks == 1 else f"{found.blocks} blocks are"
        return (
            f"only changes by a factor of 2 or more: {blocks} too few for the noise "
            f"of run {found.run}{of_what}"
        )
    return (
        f"{changes_text(found.smallest, found.largest)} in {counted(found.blocks, 'block')}, by "
        f"the noise of run {found.run}{of_what}"
    )


def _time(estimate: Estimate, experiment: Experiment) -> str:
    """Return text such as ``about 5 min`` or ``from 3 min (3 blocks) to 10 min (10 blocks)``.

    If the time limit is too short for any verdict: ``60 s (the limit), 2 min for 3 blocks``.
    """
    if not experiment.sequential:
        return f"about {duration_in_words(estimate.time_s)}"
    least = duration_in_words(estimate.least_time_s)
    most = f"{duration_in_words(estimate.time_s)} ({counted(experiment.blocks, 'block')})"
    limit_s = experiment.max_time_s
    if limit_s is not None and limit_s < estimate.time_s:
        most = f"{duration_in_words(limit_s)} (the limit)"
        if limit_s < estimate.least_time_s:
            return f"{most}, {least} for {FEWEST_BLOCKS} blocks"
    return f"from {least} ({FEWEST_BLOCKS} blocks) to {most}"


def _as_data(planned: use_case.PlannedRun) -> dict[str, Any]:
    plan, estimate, visible = planned.plan, planned.estimate, planned.visible
    experiment = plan.experiment
    return {
        "experiment": experiment.name,
        "scale": experiment.scale,
        "digest": plan.digest,
        "seed": plan.seed,
        "blocks": experiment.blocks,
        "design": design_of(experiment).to_json(),
        "profile_blocks": experiment.profile_blocks,
        "counted_starts": experiment.counted_starts,
        "collectors": list(experiment.collectors),
        "margin": experiment.margin,
        "parameters": dict(experiment.parameters),
        "compare": asdict(experiment.compare),
        "trials": [
            {
                "id": trial.id,
                "position": trial.position,
                "block": trial.block,
                "purpose": trial.purpose,
                "slot": trial.slot,
                "treatment": trial.treatment.id,
                "levels": dict(trial.treatment.levels),
                "resolved": dict(trial.treatment.resolved),
            }
            for trial in _that_fit(planned)
        ],
        "estimate": {**asdict(estimate), "fits": estimate.fits},
        "visible": None if visible is None else asdict(visible),
    }
