"""Shorten the trials of a run so that its limit of time holds the blocks of a verdict.

A round of 2 s of slices tells nearly as much as one of 10 s, because what remains is the layout of
memory, which only another start changes; whole trials of a host whose speed wanders gain little by
being longer. So a limit of time is spent on blocks: the measured time and the warm-up are halved
until enough blocks fit. The estimates do not depend on what was measured before, so that the same
command always means the same run.
"""

from collections.abc import Iterator
from dataclasses import replace

from millrace.experiment.estimate import unmeasured_s
from millrace.experiment.model import FEWEST_BLOCKS, Experiment
from millrace.experiment.plan import chosen, expand
from millrace.quantities import duration_in_words

_BLOCKS = FEWEST_BLOCKS + 2  # of which an interval for any number of looks is about half as wide
_LEAST_TIME_S, _LEAST_WARMUP_S = 2.0, 0.5
_TIME, _WARMUP = "time_s", "warmup_s"


def shortened(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return the experiment, and it with ever shorter trials, where a limit of time may need them.

    Trials that end with a number of operations stay as they are.
    """
    is_limited = experiment.max_time_s is not None and experiment.checked_workload.drives
    if not is_limited or not _ends_by_time(experiment):
        return (experiment,)
    return (experiment, *_shorter(experiment))


def fitted(experiment: Experiment) -> Experiment:
    """Return the experiment with the longest trials of which enough blocks fit into its limit."""
    *longer, shortest = shortened(experiment)
    return next((each for each in longer if _fits(each)), shortest)


def shortening_note(before: Experiment, now: Experiment) -> str | None:
    """Return a note for the user where trials are shorter than the file says."""
    limit_s = now.max_time_s
    if limit_s is None or before.parameters == now.parameters:
        return None
    return (
        f"trials measure for {_seconds(now, _TIME):g} s instead of {_seconds(before, _TIME):g} s "
        f"(time_s), so that more blocks fit into {duration_in_words(limit_s)}"
    )


def _shorter(experiment: Experiment) -> Iterator[Experiment]:
    time_s, warmup_s = _seconds(experiment, _TIME), _seconds(experiment, _WARMUP)
    while time_s > _LEAST_TIME_S:
        time_s = max(time_s / 2, _LEAST_TIME_S)
        warmup_s = min(warmup_s, max(warmup_s / 2, _LEAST_WARMUP_S))
        changed = {_TIME: time_s, _WARMUP: warmup_s}
        yield replace(experiment, parameters={**experiment.parameters, **changed})


def _fits(experiment: Experiment) -> bool:
    assert experiment.max_time_s is not None
    blocks = min(_BLOCKS, experiment.blocks)
    plan = expand(replace(experiment, blocks=blocks, profile_blocks=0, counted_starts=0), seed=0)
    return unmeasured_s(plan) <= experiment.max_time_s


def _seconds(experiment: Experiment, name: str) -> float:
    default = experiment.checked_workload.parameters[name].default
    return float(experiment.parameters.get(name, default))


def _ends_by_time(experiment: Experiment) -> bool:
    """Return whether the clients of a treatment are driven for a time."""
    treatments = expand(replace(experiment, blocks=1), seed=0).treatments
    workload = experiment.checked_workload
    return not all(workload.values(chosen(experiment, t))["operations"] for t in treatments)
