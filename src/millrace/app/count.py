"""Count instructions: each trial of the run starts a server under callgrind.

Neither the speed of the host nor other load changes the counts. They vary only with the memory
layout and the state of the server's heap, which differ from start to start. The spread between
starts is therefore the measurement error.
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

    Resume the newest run in the store at ``path`` and repeat its failed starts; begin a new run if
    there is none, or with ``fresh``. A single client executes the statements, whatever the
    experiment defines. Raise PermanentHostError without valgrind, UserError for an experiment
    without statements to count, and Interrupted if the user stops; another call resumes.
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
    """Return the number of comparisons in a count of the experiment."""
    compare = experiment.compare
    plan = expand(_experiment(experiment, starts=1), seed=seed_of(experiment))
    return sum(each.levels[compare.factor] != compare.base for each in plan.treatments)


def _experiment(experiment: Experiment, starts: int) -> Experiment:
    """Return the experiment that counts ``starts`` starts of each server and measures no speed."""
    if experiment.compare.factor == CLIENTS:
        raise UserError(
            f"{experiment.source} compares numbers of clients, which do not change the "
            "instructions per statement",
            hint="compare servers or options",
        )
    return replace(
        without_slices(experiment),
        name=short_name(f"{RUN_PREFIX}{experiment.name}"),
        # A count always uses a single client.
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
            hint="count servers that millrace starts, with a workload that runs clients on "
            'tables of a persistent engine, and with snapshot = "on"',
        )
