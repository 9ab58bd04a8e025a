"""Fit a run into its time limit: shorten trials, leave out tests, and limit profiling.

More blocks are worth more than longer trials. In slices, a round of 2 s is nearly as precise as one
of 10 s: the remaining noise is the memory layout, which only another start changes. Longer whole
trials hardly help on a host whose speed varies. The measured time and the warm-up are therefore
halved until enough blocks fit: 25 if all trials are in slices with a single client, else 5.
(Several clients have longer slices, so a short round has few of them.) If even the shortest trials
leave no time for a verdict, the last tests of the file are left out.

One block is profiled, unless the user chose another number. Profiled trials take at most a tenth of
the time of measured trials: their time is halved until they fit, down to two seconds. If even the
shortest do not fit, no block is profiled. A sequential run, which may stop early, has the longest
profiled trials that fit into a tenth of its fewest blocks, else the shortest, if these fit into a
tenth of all its blocks.

The estimates do not use earlier measurements, so that the same command always gives the same run.
"""

from collections.abc import Iterator
from dataclasses import replace

from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import profiled_s, unmeasured_s
from millrace.experiment.levels import TEST
from millrace.experiment.model import Experiment, Factor, Plan
from millrace.experiment.plan import LEAST_TIME_S, LEAST_WARMUP_S, client_settings, expand
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.model.trials import is_in_measured_block
from millrace.quantities import duration_in_words

_BLOCKS = FEWEST_BLOCKS + 2  # halves the width of an interval for any number of analyses
# For one client in slices, where a start adds as much noise as a second of measuring. With more
# rounds, a better estimate of the spread hardly narrows the interval.
_ROUNDS = 25
_MOST_NAMED = 4
_TIME, _WARMUP = "time_s", "warmup_s"
MOST_PROFILED = 0.1  # as a fraction of the time of measured trials


def shortened(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return the experiment and variants with shorter trials, the longest first.

    Without a time limit there are no variants. Tests that do not fit into the limit are left out of
    all. Trials that end after a number of operations are not shortened.
    """
    if experiment.max_time_s is None or not experiment.checked_workload.drives:
        return (experiment,)
    tests = _tests(experiment)
    fewer = [experiment]
    if tests is not None:
        fewer = [_with_tests(experiment, count) for count in range(len(tests.levels), 0, -1)]
    variants = map(_variants, fewer)
    return next((each for each in variants if _fits(each[-1], FEWEST_BLOCKS)), _variants(fewer[-1]))


def fitted(experiment: Experiment) -> Experiment:
    """Return the experiment with the longest trials that leave time for enough blocks."""
    *longer, shortest = shortened(experiment)
    if not longer:
        return shortest
    blocks = _ROUNDS if _is_one_client_in_slices(shortest) else _BLOCKS
    return next((each for each in longer if _fits(each, blocks)), shortest)


def notes(before: Experiment, now: Experiment) -> list[str]:
    """Return notes for the user about shortened trials and left-out tests."""
    if (limit_s := now.max_time_s) is None:
        return []
    limit = duration_in_words(limit_s)
    found = []
    if before.parameters != now.parameters:
        found.append(
            f"trials measure for {_seconds(now, _TIME):g} s instead of "
            f"{_seconds(before, _TIME):g} s (time_s), so that more blocks fit into {limit}"
        )
    if missing := now.left_out_tests:
        which = ", ".join(missing)
        if len(missing) > _MOST_NAMED:
            all_tests = next(len(each.levels) for each in before.factors if each.name == TEST)
            which = f"{len(missing)} of {all_tests} tests, {missing[0]} and all after it"
        found.append(
            f"left out, because {limit} are too short: {which}; a new run with a longer --max-time "
            "has more tests"
        )
    return found


def with_default_profile(experiment: Experiment) -> Experiment:
    """Return the experiment with a profiled block if it fits and the user left this to millrace.

    Call this after the number of blocks and the time limit are final.
    """
    if not experiment.profiles_by_default or experiment.checked_workload.fills_disk:
        return experiment
    plan = with_aa_trials(expand(replace(experiment, profile_blocks=1), seed=0))
    whole_s, least_s = _measuring_s(plan), _measuring_s(plan, FEWEST_BLOCKS)
    *longer, shortest = (replace(plan.experiment, profile_s=each) for each in _lengths(plan))
    if _profiled_s(plan, shortest) > MOST_PROFILED * whole_s:
        return experiment
    usual_s = MOST_PROFILED * (least_s if experiment.sequential else whole_s)
    return next((each for each in longer if _profiled_s(plan, each) <= usual_s), shortest)


def too_short_for_profile(experiment: Experiment) -> str | None:
    """Return a note for the user if a run is too short for a profiled block; else None.

    ``experiment`` is the result of ``with_default_profile``.
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
        "tenth of this run's time; explanations will not name functions (--profile-blocks 1 "
        "profiles a block anyway)"
    )


def _variants(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return the experiment and, if trials end by time, variants with shorter trials."""
    return (experiment, *(_shorter(experiment) if _ends_by_time(experiment) else ()))


def _shorter(experiment: Experiment) -> Iterator[Experiment]:
    warmup_s = _seconds(experiment, _WARMUP)
    for time_s in _halved(_seconds(experiment, _TIME)):
        warmup_s = min(warmup_s, max(warmup_s / 2, LEAST_WARMUP_S))
        changed = {_TIME: time_s, _WARMUP: warmup_s}
        yield replace(experiment, parameters={**experiment.parameters, **changed})


def _halved(time_s: float) -> Iterator[float]:
    """Yield half of ``time_s``, a quarter and so on, down to LEAST_TIME_S."""
    while time_s > LEAST_TIME_S:
        time_s = max(time_s / 2, LEAST_TIME_S)
        yield time_s


def _tests(experiment: Experiment) -> Factor | None:
    """Return the factor ``test`` if some tests may be left out; else None."""
    if experiment.compare.factor == TEST or experiment.combinations:
        return None
    return next((each for each in experiment.factors if each.name == TEST), None)


def _with_tests(experiment: Experiment, count: int) -> Experiment:
    factors = (
        replace(each, levels=each.levels[:count]) if each.name == TEST else each
        for each in experiment.factors
    )
    tests = _tests(experiment)
    left_out = () if tests is None else tuple(map(str, tests.levels[count:]))
    return replace(experiment, factors=tuple(factors), left_out_tests=left_out)


def _is_one_client_in_slices(experiment: Experiment) -> bool:
    """Return whether all trials are in slices, and each has one client."""
    plan = expand(replace(experiment, blocks=1), seed=0)
    in_slices = all(trial.slot is not None for trial in plan.trials)
    return in_slices and all(each.clients == 1 for each in client_settings(plan))


def _fits(experiment: Experiment, blocks: int) -> bool:
    assert experiment.max_time_s is not None
    all_blocks = min(max(blocks, _BLOCKS), experiment.blocks)
    short = replace(experiment, blocks=all_blocks, profile_blocks=0, counted_starts=0)
    plan = with_aa_trials(expand(short, seed=0))
    first_s = unmeasured_s(plan.only(t for t in plan.trials if t.block < blocks))
    return first_s <= experiment.max_time_s


def _seconds(experiment: Experiment, name: str) -> float:
    """Return a time parameter of the experiment, else the workload's default."""
    return float({**experiment.checked_workload.defaults(), **experiment.parameters}[name])


def _ends_by_time(experiment: Experiment) -> bool:
    """Return whether any treatment's clients run for a time, not a number of operations."""
    plan = expand(replace(experiment, blocks=1), seed=0)
    return not all(each.operations for each in client_settings(plan))


def _lengths(plan: Plan) -> Iterator[float | None]:
    """Yield times for clients in profiled trials, longest first; None is the measured time."""
    yield None
    if plan.experiment.checked_workload.drives:
        yield from _halved(max(each.time_s for each in client_settings(plan)))


def _measuring_s(plan: Plan, blocks: int | None = None) -> float:
    """Return the time of the measured trials, of the first ``blocks`` blocks or of all, in s."""
    measuring = (each for each in plan.trials if is_in_measured_block(each.purpose))
    of_blocks = plan.only(t for t in measuring if blocks is None or t.block < blocks)
    measuring_s = unmeasured_s(of_blocks)
    limit_s = plan.experiment.max_time_s
    return measuring_s if limit_s is None else min(measuring_s, limit_s)


def _profiled_s(plan: Plan, experiment: Experiment) -> float:
    """Return the time of a plan's profiled trials with the settings of ``experiment``, in s."""
    return profiled_s(replace(plan, experiment=experiment), {})
