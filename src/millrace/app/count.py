"""Count instructions: a run whose trials are starts of its servers in callgrind, and no others.

Instructions are counted one by one, so neither speed nor other work of the host changes them. What
remains is the server's own: where its memory lies, and what its heap has been through. Starts
differ in these, and only their spread is an error.
"""

from dataclasses import replace
from pathlib import Path

from millrace.analysis.counts.compare_counts import RUN_PREFIX, CountedRun, counted_run
from millrace.app.execution import Caller, execute_campaign, measuring, select_run
from millrace.campaign.inputs import PreparedTreatment
from millrace.campaign.policies.experiment import Fixed
from millrace.campaign.preparation import Preparation
from millrace.errors import UserError
from millrace.experiment.model import COUNTED_STARTS, Experiment, Treatment, short_name
from millrace.experiment.plan import expand, seed_of, without_slices
from millrace.host import valgrind
from millrace.levels import CLIENTS
from millrace.model.run_spec import CampaignPart
from millrace.trial import counting
from millrace.trial.spec import TrialSpec


def count(
    path: Path,
    experiment: Experiment,
    caller: Caller,
    *,
    starts: int = COUNTED_STARTS,
    fresh: bool = False,
) -> CountedRun:
    """Count the instructions of an experiment's statements on each of its servers.

    The run is in the store at ``path``: the newest that can be resumed, whose failed starts are
    repeated, or a new one if there is none or with ``fresh``. Clients are one at a time, whatever
    the experiment says. Raise PermanentHostError without valgrind, UserError for an experiment
    without statements to count, and Interrupted when the user stops; calling it again resumes.
    """
    program = valgrind.find()
    counting_alone = _experiment(experiment, starts)
    with measuring(path, f"count {experiment.name}", caller) as (stack, store):
        selection = select_run(
            store, counting_alone, caller, fresh=fresh, tools={"valgrind": program.version}
        )
        prepare = Preparation(stack, store, caller.on_event)
        prepared = prepare(selection.plan, None).treatments
        for treatment in selection.plan.treatments:
            _refuse(experiment, treatment, prepared[treatment.id])
        policy = Fixed(selection, retry_failed=True)
        execute_campaign(store, selection, policy, prepare, caller, limit_s=None)
        return counted_run(store.load_run(selection.run.id, observations_too=True))


def comparisons(experiment: Experiment) -> int:
    """Return the number of comparisons that a count of the experiment has."""
    compare = experiment.compare
    plan = expand(_experiment(experiment, starts=1), seed=seed_of(experiment))
    return sum(each.levels[compare.factor] != compare.base for each in plan.treatments)


def _experiment(experiment: Experiment, starts: int) -> Experiment:
    """Return the experiment that counts ``starts`` of each server and measures nothing else."""
    if experiment.compare.factor == CLIENTS:
        raise UserError(
            f"{experiment.source} compares numbers of clients: a client's statements have the "
            "same instructions whatever other clients do",
            hint="compare servers or options",
        )
    return replace(
        without_slices(experiment),
        name=short_name(f"{RUN_PREFIX}{experiment.name}"),
        # A single client is driven, whatever their number is.
        factors=tuple(each for each in experiment.factors if each.name != CLIENTS),
        blocks=0,
        sequential=False,
        max_time_s=None,
        collectors=(),
        profile_blocks=0,
        counted_starts=starts,
        published=None,
        campaign=CampaignPart(counts="instructions"),
    )


def _refuse(experiment: Experiment, treatment: Treatment, prepared: PreparedTreatment) -> None:
    """Raise UserError for a treatment whose instructions cannot be counted."""
    why = counting.refusal(TrialSpec(treatment.id, prepared.servers, prepared.workload))
    if why is not None:
        raise UserError(
            f"{experiment.source}: {treatment.label}: {why}",
            hint="count servers that millrace starts, with a workload that drives clients on "
            'tables of a lasting engine, with snapshot = "on"',
        )
