"""Profile one block of a run, unless the user chose another number.

The profiled trials take at most a tenth of the time of those that measure: the time of their
clients is halved until they fit, to two seconds at least. Where even the shortest ones take more,
the run has none. A run that may stop early has the longest ones that fit into a tenth of its
fewest blocks, else the shortest, if these fit into a tenth of all its blocks.

The times are those of a host of which nothing is known, so that the same command always means the
same run.
"""

from collections.abc import Iterator
from dataclasses import replace

from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import profiled_s, unmeasured_s
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.plan import LEAST_TIME_S, chosen, expand
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.model.trials import is_in_measured_block
from millrace.quantities import duration_in_words

MOST_OF_RUN = 0.1


def with_default_profile(experiment: Experiment) -> Experiment:
    """Return the experiment with a profiled block, if the user leaves that to millrace and it fits.

    Its number of blocks and its limit of time are final.
    """
    if not experiment.profiles_by_default or experiment.checked_workload.fills_disk:
        return experiment
    plan = with_aa_trials(expand(replace(experiment, profile_blocks=1), seed=0))
    whole_s, least_s = _measuring_s(plan), _measuring_s(plan, FEWEST_BLOCKS)
    *longer, shortest = (replace(plan.experiment, profile_s=each) for each in _lengths(plan))
    if _profiled_s(plan, shortest) > MOST_OF_RUN * whole_s:
        return experiment
    usual_s = MOST_OF_RUN * (least_s if experiment.sequential else whole_s)
    return next((each for each in longer if _profiled_s(plan, each) <= usual_s), shortest)


def too_short_for_profile(experiment: Experiment) -> str | None:
    """Return a note for the user where a run is too short for the profiled block; else None.

    ``experiment`` is as ``with_default_profile`` returns it.
    """
    if not experiment.profiles_by_default or experiment.profile_blocks:
        return None
    if experiment.checked_workload.fills_disk:
        return None
    plan = expand(replace(experiment, profile_blocks=1), seed=0)
    *_, shortest = _lengths(plan)
    about_s = _profiled_s(plan, replace(plan.experiment, profile_s=shortest))
    return (
        f"no block is profiled: it would take about {duration_in_words(about_s)}, more than a "
        "tenth of this run's time, so explanations name no functions; --profile-blocks 1 adds one"
    )


def _lengths(plan: Plan) -> Iterator[float | None]:
    """Yield the times of driving clients in profiled trials, longest first; None: as measured."""
    yield None
    workload = plan.experiment.checked_workload
    if not workload.drives:
        return
    settings = [workload.client_settings(chosen(plan.experiment, t)) for t in plan.treatments]
    time_s = max(each.time_s for each in settings)
    while time_s > LEAST_TIME_S:
        time_s = max(time_s / 2, LEAST_TIME_S)
        yield time_s


def _measuring_s(plan: Plan, blocks: int | None = None) -> float:
    """Return the seconds of trials that measure, or of the first ``blocks`` blocks of them."""
    measuring_s = unmeasured_s(
        plan.only(
            trial
            for trial in plan.trials
            if is_in_measured_block(trial.purpose) and (blocks is None or trial.block < blocks)
        )
    )
    limit_s = plan.experiment.max_time_s
    return measuring_s if limit_s is None else min(measuring_s, limit_s)


def _profiled_s(plan: Plan, experiment: Experiment) -> float:
    """Return the seconds of a plan's profiled trials, with the length that the experiment has."""
    return profiled_s(replace(plan, experiment=experiment), {})
