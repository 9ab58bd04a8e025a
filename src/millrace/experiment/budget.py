"""Fit a run into its limit of time with shorter trials and fewer tests, and its profile into it.

A round of 2 s of slices tells nearly as much as one of 10 s, because what remains is the layout of
memory, which only another start changes; whole trials of a host whose speed wanders gain little by
being longer. So a limit of time is spent on blocks: the measured time and the warm-up are halved
until enough blocks fit: five, or 25 where all trials are in slices with a single client. Several
clients have longer slices; a short round holds few of them. Where the shortest trials are still
too many for any verdict, the last tests of the file are left out.

One block is profiled, unless the user chose another number. The profiled trials take at most a
tenth of the time of those that measure: the time of their clients is halved until they fit, to two
seconds at least. Where even the shortest ones take more, the run has none. A run that may stop
early has the longest ones that fit into a tenth of its fewest blocks, else the shortest, if these
fit into a tenth of all its blocks.

The estimates do not depend on what was measured before: they are those of a host of which nothing
is known, so that the same command always means the same run.
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

_BLOCKS = FEWEST_BLOCKS + 2  # of which an interval for any number of looks is about half as wide
# Of one client in slices, where a start has as much noise as about a second of measuring. More
# rounds hardly narrow an interval by what they tell about their spread.
_ROUNDS = 25
_MOST_NAMED = 4
_TIME, _WARMUP = "time_s", "warmup_s"
MOST_PROFILED = 0.1  # of the time of trials that measure


def shortened(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return the experiment, and it with ever shorter trials, where a limit of time may need them.

    All are without the tests that do not fit. Trials that end with a number of operations stay as
    long as they are.
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
    """Return the experiment with the longest trials of which enough blocks fit into its limit."""
    *longer, shortest = shortened(experiment)
    if not longer:
        return shortest
    blocks = _ROUNDS if _is_one_client_in_slices(shortest) else _BLOCKS
    return next((each for each in longer if _fits(each, blocks)), shortest)


def notes(before: Experiment, now: Experiment) -> list[str]:
    """Return notes for the user: where trials are shorter than the file says, or tests missing."""
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
            f"{limit} are too short for {which}: left out; a longer --max-time starts a run that "
            "has more tests"
        )
    return found


def with_default_profile(experiment: Experiment) -> Experiment:
    """Return the experiment with a profiled block, if the user leaves that to millrace and it fits.

    Its number of blocks and its limit of time are final.
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


def _variants(experiment: Experiment) -> tuple[Experiment, ...]:
    """Return the experiment, and it with ever shorter trials, if they end with a time."""
    return (experiment, *(_shorter(experiment) if _ends_by_time(experiment) else ()))


def _shorter(experiment: Experiment) -> Iterator[Experiment]:
    warmup_s = _seconds(experiment, _WARMUP)
    for time_s in _halved(_seconds(experiment, _TIME)):
        warmup_s = min(warmup_s, max(warmup_s / 2, LEAST_WARMUP_S))
        changed = {_TIME: time_s, _WARMUP: warmup_s}
        yield replace(experiment, parameters={**experiment.parameters, **changed})


def _halved(time_s: float) -> Iterator[float]:
    """Yield ever shorter times of clients, down to the least."""
    while time_s > LEAST_TIME_S:
        time_s = max(time_s / 2, LEAST_TIME_S)
        yield time_s


def _tests(experiment: Experiment) -> Factor | None:
    """Return the factor of the tests, where some of them may be left out."""
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
    """Return a time that the experiment gives to all its tests, else the workload's default."""
    return float({**experiment.checked_workload.defaults(), **experiment.parameters}[name])


def _ends_by_time(experiment: Experiment) -> bool:
    """Return whether the clients of a treatment are driven for a time."""
    plan = expand(replace(experiment, blocks=1), seed=0)
    return not all(each.operations for each in client_settings(plan))


def _lengths(plan: Plan) -> Iterator[float | None]:
    """Yield the times of driving clients in profiled trials, longest first; None: as measured."""
    yield None
    if plan.experiment.checked_workload.drives:
        yield from _halved(max(each.time_s for each in client_settings(plan)))


def _measuring_s(plan: Plan, blocks: int | None = None) -> float:
    """Return the seconds of trials that measure, or of the first ``blocks`` blocks of them."""
    measuring = (each for each in plan.trials if is_in_measured_block(each.purpose))
    of_blocks = plan.only(t for t in measuring if blocks is None or t.block < blocks)
    measuring_s = unmeasured_s(of_blocks)
    limit_s = plan.experiment.max_time_s
    return measuring_s if limit_s is None else min(measuring_s, limit_s)


def _profiled_s(plan: Plan, experiment: Experiment) -> float:
    """Return the seconds of a plan's profiled trials, with the length that the experiment has."""
    return profiled_s(replace(plan, experiment=experiment), {})
