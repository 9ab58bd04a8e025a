"""Analyze a bisection: levels, the likeliest place of the change, and the next measurement.

Each block of such a run is one trial of one server; in their order they are the input of
``stats.bisection``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from millrace.analysis.compare.metrics import Metric, read_metrics
from millrace.analysis.counts.compare_counts import compare_stored
from millrace.analysis.counts.model import CountComparison
from millrace.analysis.steady.policy import unsteady_sides
from millrace.analysis.steady.steadiness import TrialSteadiness, by_treatment
from millrace.model.measurements import INSTRUCTIONS, Direction
from millrace.model.run_spec import Bisects
from millrace.stats.bisection import FIRST_RUNS, next_step, posterior
from millrace.stats.bisection_model import (
    Found,
    Measured,
    Next,
    NoChange,
    Posterior,
    Search,
    Skipped,
)
from millrace.stats.mean import welch_p
from millrace.stats.sequential import FIRST_LOOK
from millrace.store.records import RunRecord, StoredAttempt, StoredRun

INSTALL = "install"
"""The step of a trial whose server could not be installed: another attempt would fail too."""

_TRIES = 2
_SIMULATIONS = 5
_MOST_SIMULATED = 100
_REVERSED_P = 1e-3
_INSTRUCTIONS = Metric(
    name=INSTRUCTIONS,
    title="instruction count",
    unit="instructions per statement",
    direction="lower",
    numerator=(INSTRUCTIONS,),
)

Seen = tuple[Measured | Skipped, ...]


@dataclass(frozen=True)
class Member:
    """A server of the list, with its values in the order of their measurement.

    ``skipped`` says why it is passed over, empty where it is not; ``probability`` is that of being
    the first of the new level.
    """

    name: str
    values: tuple[float, ...]
    skipped: str
    probability: float | None

    @property
    def level(self) -> float | None:
        return math.exp(fmean(map(math.log, self.values))) if self.values else None


@dataclass(frozen=True)
class OpenTrial:
    """A trial to execute (again): its block and its member."""

    block: int
    member: int


@dataclass(frozen=True)
class Bisection:
    """A search as its trials have it so far.

    ``step`` is what comes next or what was found; ``open`` is a trial that comes before;
    ``lost_end`` says why an end could not be measured, ``unsteady`` why levels are not compared
    because of unsteady trials; both are empty without a reason. ``counts`` compares the servers on
    either side of a change that was found by instructions.
    """

    run: RunRecord
    spec: Bisects
    metric: Metric
    seen: Seen
    members: tuple[Member, ...]
    step: Next | Found | NoChange
    none: float | None
    open: OpenTrial | None
    lost_end: str
    unsteady: str = ""
    counts: CountComparison | None = None

    @property
    def trials(self) -> int:
        return sum(isinstance(each, Measured) for each in self.seen)

    @property
    def ratio(self) -> tuple[float, float, float] | None:
        """Return the ratio new level / old level that was found, with its interval."""
        if isinstance(self.step, Next):
            return None
        return self.step.ratio, self.step.low, self.step.high


def search_of(asked: Bisects) -> Search:
    """Return the search that a run was made for."""
    return Search(len(asked.members), asked.confidence, asked.margin)


def bisection(stored: StoredRun) -> Bisection:
    """Analyze a bisection run as far as it has come. Raises ValueError for another run."""
    asked = stored.run.spec.bisects
    if asked is None:
        raise ValueError(f"run {stored.run.id} searches no change")
    metric = read_metrics(stored.run.spec.workload)[0] if asked.by is None else _INSTRUCTIONS
    places = {name: place for place, name in enumerate(asked.members)}
    member_of = {each.id: places[str(each.levels["server"])] for each in stored.treatments}
    attempts = _by_trial(stored)
    seen: list[Measured | Skipped] = []
    reasons: dict[int, str] = {}
    waiting: OpenTrial | None = None
    for trial in sorted(stored.trials, key=lambda each: each.block):
        member, tried = member_of[trial.treatment_id], attempts.get(trial.id, [])
        finished = [each for each in tried if each.outcome == "finished"]
        value = metric.value(finished[-1]) if finished else None
        if value is not None:
            seen.append(Measured(member, math.log(value)))
        elif _is_given_up(tried):
            seen.append(Skipped(member))
            reasons[member] = _reason(tried)
        else:
            waiting = OpenTrial(trial.block, member)
    ends = [place for place in search_of(asked).ends if place in reasons]
    lost = f"{asked.members[ends[0]]}: {reasons[ends[0]]}" if ends else ""
    kept = tuple(each for each in seen if isinstance(each, Measured) or each.index not in ends)
    where = posterior(search_of(asked), kept)
    step = next_step(search_of(asked), kept)
    n_measured = sum(isinstance(each, Measured) for each in kept)
    is_settled = not isinstance(step, Next) or n_measured >= 2 * FIRST_LOOK
    return Bisection(
        run=stored.run,
        spec=asked,
        metric=metric,
        seen=kept,
        members=_members(asked, kept, reasons, where),
        step=step,
        none=None if where is None else where.none,
        open=waiting,
        lost_end=lost,
        unsteady=_unsteady(stored, asked, _first_new(step, where)) if is_settled else "",
        counts=_counts(stored, member_of, step) if isinstance(step, Found) else None,
    )


def _counts(stored: StoredRun, member_of: Mapping[str, int], step: Found) -> CountComparison | None:
    """Compare the instructions on either side of a change, where these were counted."""
    treatments = {member_of[each.id]: each for each in stored.treatments}
    return compare_stored(stored, "server", treatments[step.first - 1], treatments[step.last])


def _first_new(step: Next | Found | NoChange, where: Posterior | None) -> int | None:
    """Return the first member of the new level, or the likeliest so far, if any."""
    if isinstance(step, Found):
        return step.first
    if isinstance(step, NoChange) or where is None:
        return None
    place = max(range(len(where.first)), key=lambda each: where.first[each])
    return place if where.first[place] > where.none else None


def _unsteady(stored: StoredRun, asked: Bisects, first: int | None) -> str:
    """Explain why the members before ``first`` are not compared with the others, if so."""
    known = by_treatment(stored)
    sides: tuple[list[TrialSteadiness], list[TrialSteadiness]] = ([], [])
    for each in stored.treatments:
        place = asked.members.index(str(each.levels["server"]))
        sides[first is not None and place >= first].extend(known.get(each.id, ()))
    names = ("the servers", "")
    if first is not None:
        names = (f"the servers before {asked.members[first]}", "those from it on")
    return unsteady_sides(*sides, names=names)


def _by_trial(stored: StoredRun) -> dict[str, list[StoredAttempt]]:
    found: dict[str, list[StoredAttempt]] = {}
    for attempt in stored.attempts:
        if attempt.outcome in ("finished", "failed"):
            found.setdefault(attempt.trial_id, []).append(attempt)
    return found


def _is_given_up(tried: Sequence[StoredAttempt]) -> bool:
    """Return whether a trial is not tried again; a failed one gets a second attempt."""
    ended = any(each.outcome == "finished" or each.failed_step == INSTALL for each in tried)
    return ended or len(tried) >= _TRIES


def _reason(tried: Sequence[StoredAttempt]) -> str:
    last = tried[-1]
    if last.outcome == "finished":
        return "it has no value of the metric"
    first_line = (last.reason or "no reason was recorded").splitlines()[0]
    return f"failed at {last.failed_step}: {first_line}"


def _members(
    asked: Bisects, seen: Seen, reasons: Mapping[int, str], where: Posterior | None
) -> tuple[Member, ...]:
    values: dict[int, list[float]] = {}
    for each in seen:
        if isinstance(each, Measured):
            values.setdefault(each.index, []).append(math.exp(each.value))
    first = (None,) * len(asked.members) if where is None else where.first
    return tuple(
        Member(name, tuple(values.get(place, ())), reasons.get(place, ""), first[place])
        for place, name in enumerate(asked.members)
    )


def is_reversed(found: Bisection) -> bool:
    """Return whether the bad end is better than the good one, beyond the margin and beyond doubt.

    The finding decides; without one, Welch's test (Biometrika 34, 1947) decides once both ends have
    their first runs, with a risk of 1 in 1000 because it is applied repeatedly.
    """
    if found.ratio is not None:
        ratio, low, high = found.ratio
        beyond = abs(math.log(ratio)) > math.log1p(found.spec.margin)
        return beyond and not low <= 1 <= high and is_better(ratio, found.metric.direction)
    good, bad = found.members[0].values, found.members[-1].values
    if min(len(good), len(bad)) < FIRST_RUNS:
        return False
    new, old = [*map(math.log, bad)], [*map(math.log, good)]
    change = fmean(new) - fmean(old)
    is_large = abs(change) > math.log1p(found.spec.margin)
    is_gain = is_better(math.exp(change), found.metric.direction)
    return is_large and is_gain and welch_p(new, old) < _REVERSED_P


def is_better(ratio: float, direction: Direction) -> bool:
    """Return whether a ratio new / old is an improvement."""
    return (ratio > 1) == (direction == "higher")


def trials_to_go(found: Bisection) -> int | None:
    """Estimate how many trials, 100 at most, the search will take, by a few simulated searches.

    None before the ends have their first runs, 0 when it has ended.
    """
    if not isinstance(found.step, Next):
        return 0
    if found.step.posterior is None:
        return None
    search, where = search_of(found.spec), found.step.posterior
    source = np.random.default_rng(len(found.seen))
    runs = [_simulated(search, found.seen, where, source) for _ in range(_SIMULATIONS)]
    return round(median(runs))


def _simulated(search: Search, seen: Seen, where: Posterior, source: np.random.Generator) -> int:
    """Simulate the trials of one search, with a change drawn from the posterior."""
    chances = np.asarray([*where.first, where.none])
    first = int(source.choice(len(chances), p=chances / chances.sum()))
    measured = [each for each in seen if isinstance(each, Measured)]
    old = [each.value for each in measured if each.index < first]
    new = [each.value for each in measured if each.index >= first]
    if first == search.n_members:  # there is none
        old, new = [each.value for each in measured], []
    levels = [fmean(side) if side else 0.0 for side in (old, new)]
    around = [value - levels[0] for value in old] + [value - levels[1] for value in new]
    sd = float(np.std(around)) * math.sqrt(len(around) / max(len(around) - 2, 1))
    so_far = list(seen)
    for number in range(_MOST_SIMULATED):
        step = next_step(search, so_far)
        if not isinstance(step, Next):
            return number
        level = levels[0] if step.index < first else levels[1]
        so_far.append(Measured(step.index, level + sd * float(source.standard_normal())))
    return _MOST_SIMULATED


def change_found(found: Bisection) -> Found | None:
    """Return the change, where there is one and nothing speaks against it."""
    return found.step if isinstance(found.step, Found) and not found.unsteady else None
