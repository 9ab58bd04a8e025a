"""Analyze a calibration: false verdicts, noise, the smallest visible change, slowdowns found.

The run measures one server beside itself (A/A), and the server slowed down beside the server as it
is. The rule that stops a run is applied to consecutive blocks of a group; when it has decided, or
its budget of blocks is spent, the next verdict begins with the next block. So each is one that the
product would have given without earlier runs, no block is in two of them, and what is counted is
the rate of the whole procedure, its looks and refusals included.

A report quotes the calibration of its host. It is stale when the host or the load generator is not
what it was when it began, or when it and the run are more than ``MOST_DAYS`` apart: what no fact
shows (neighbours of a virtual machine, a filling disk, an updated package) changes within weeks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from millrace.analysis.compare import comparability
from millrace.analysis.compare.metrics import Metric, read_metrics
from millrace.analysis.compare.model import DIFFERENCES, ApplicableCalibration, Verdict
from millrace.analysis.compare.verdict import decide
from millrace.analysis.steady.steadiness import TrialSteadiness, assess_trial, assess_trials
from millrace.levels import Level, level_text
from millrace.model.measurements import SLOWDOWN_STOPPED_S, SLOWDOWN_WINDOW_S, Direction
from millrace.model.run_spec import FEWEST_BLOCKS, Calibrates
from millrace.stats.power import minimum_detectable_ratio
from millrace.stats.proportions import proportion_limits, sign_test
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.stats.spread import sd_limits, summarise
from millrace.store import records

TABLE = (5, 10, 20, 40)
"""Numbers of blocks for which the smallest detectable change is reported."""


@dataclass(frozen=True)
class Pair:
    """The values of a block in which both trials finished."""

    block: int
    base: float
    other: float


@dataclass(frozen=True)
class SequentialVerdict:
    """A verdict on consecutive blocks, the last look's, or the reason why it was ``refused``."""

    verdict: Verdict
    estimate: RatioEstimate
    blocks: tuple[int, ...]
    refused: str = ""

    @property
    def excludes_1(self) -> bool:
        return self.estimate.excludes_1


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a block's log-ratio over A/A blocks, with its 95 % interval.

    ``trials_cv`` is the coefficient of variation of single trials, a fraction.
    """

    n_blocks: int
    log_sd: float
    low: float
    high: float
    trials_cv: float


@dataclass(frozen=True)
class InjectedSlowdown:
    """The verdicts on an injected slowdown, and the ratio over all of its blocks.

    ``stopped`` is the share of the time for which the server was stopped, None for other ways.
    """

    level: str
    verdicts: tuple[SequentialVerdict, ...]
    under_way: tuple[Pair, ...]
    estimate: RatioEstimate | None
    stopped: float | None
    failed: int = 0

    def found(self, direction: Direction) -> int:
        """Count the verdicts, not refused, whose interval says that the server is slower."""
        return sum(
            each.excludes_1
            and not each.refused
            and (each.estimate.ratio < 1) == (direction == "higher")
            for each in self.verdicts
        )


@dataclass(frozen=True)
class GroupCalibration:
    """One group: its A/A verdicts, the blocks of the open one, and its injected slowdowns.

    ``detectable`` maps numbers of blocks to the smallest relative change (a fraction) seen in them
    with power 0.8; empty where there are too few blocks to tell. ``block_s`` is the time of a block
    of two trials. ``treatments`` are the ids of A and of A under its other name; ``failed`` counts
    trials of theirs.
    """

    fixed_factors: Mapping[str, Level]
    label: str
    treatments: tuple[str, str]
    verdicts: tuple[SequentialVerdict, ...]
    under_way: tuple[Pair, ...]
    noise: Noise | None
    detectable: Mapping[int, float]
    block_s: float | None
    injected: tuple[InjectedSlowdown, ...]
    failed: int

    @property
    def false(self) -> int:
        """Return the number of A/A verdicts that call a difference."""
        return sum(each.verdict in DIFFERENCES for each in self.verdicts)

    @property
    def refused(self) -> int:
        return sum(bool(each.refused) for each in self.verdicts)


@dataclass(frozen=True)
class Calibration:
    """A calibration as its trials have it so far; ``ended_utc`` is the end of its last trial."""

    run: records.RunRecord
    target: Calibrates
    metric: Metric
    groups: tuple[GroupCalibration, ...]
    ended_utc: str

    @property
    def verdicts(self) -> tuple[SequentialVerdict, ...]:
        return tuple(each for group in self.groups for each in group.verdicts)

    @property
    def false(self) -> int:
        return sum(group.false for group in self.groups)

    @property
    def refused(self) -> int:
        return sum(group.refused for group in self.groups)

    @property
    def excluding(self) -> int:
        """Return the number of A/A verdicts whose interval excludes 1, called different or not."""
        return sum(each.excludes_1 for each in self.verdicts)

    def limits(self, events: int) -> tuple[float, float] | None:
        """Return the 95 % interval of the rate of ``events`` among the verdicts, if any."""
        return proportion_limits(events, len(self.verdicts)) if self.verdicts else None

    @property
    def signs(self) -> tuple[int, int, float]:
        """Count the A/A estimates above and below 1, and test their balance."""
        above = sum(each.estimate.ratio > 1 for each in self.verdicts)
        below = sum(each.estimate.ratio < 1 for each in self.verdicts)
        return above, below, sign_test(above, above + below)

    def smallest(self, n_blocks: int) -> tuple[float, float] | None:
        """Return the smallest changes that blocks detect, in the quietest and noisiest group."""
        seen = [group.detectable[n_blocks] for group in self.groups if group.detectable]
        return (min(seen), max(seen)) if seen else None


# Whether the two trials of such blocks are compared.
Judged = Callable[[Sequence[int]], comparability.Comparability]


def calibration(stored: records.StoredRun) -> Calibration:
    """Analyze a calibration run as far as it has come. Raises ValueError for another run."""
    asked = stored.run.spec.calibrates
    if asked is None:
        raise ValueError(f"run {stored.run.id} calibrates nothing")
    metric = read_metrics(stored.run.spec.workload)[0]
    trials = _Trials(stored, metric, asked)
    return Calibration(
        stored.run,
        asked,
        metric,
        tuple(_group(trials, held, of, asked) for held, of in trials.groups()),
        max((a.ended_utc for a in stored.attempts if a.ended_utc), default=stored.run.created_utc),
    )


def sequential_verdicts(
    pairs: Iterable[Pair],
    *,
    direction: Direction,
    margin: float,
    most: int,
    judged: Judged = lambda _: comparability.Comparability("", "", None),
) -> tuple[tuple[SequentialVerdict, ...], tuple[Pair, ...]]:
    """Return the verdicts of consecutive blocks, and the blocks of the undecided one.

    Each verdict is looked at after every block, and has ``most`` blocks at most; a permanently
    refused comparison ends as well. Raise ValueError for a budget in which nothing can be decided.
    """
    if most < FEWEST_BLOCKS:
        raise ValueError(f"a verdict wants {FEWEST_BLOCKS} blocks")
    found: list[SequentialVerdict] = []
    current: list[Pair] = []
    for pair in pairs:
        current.append(pair)
        if len(current) < FEWEST_BLOCKS:
            continue
        estimate, blocks = ratio_of(current), tuple(each.block for each in current)
        verdict, _ = decide(estimate, direction, margin)
        assert verdict is not None  # there are enough blocks
        refused = judged(blocks)
        if refused.reason:
            verdict = "inconclusive"
        if verdict != "inconclusive" or refused.permanently or len(current) == most:
            found.append(SequentialVerdict(verdict, estimate, blocks, refused.reason))
            current = []
    return tuple(found), tuple(current)


def ratio_of(pairs: Sequence[Pair]) -> RatioEstimate:
    """Return the ratio other / base of some blocks, with an interval for any number of looks."""
    return paired_ratio([each.base for each in pairs], [each.other for each in pairs], looks="any")


class _Trials:
    def __init__(self, stored: records.StoredRun, metric: Metric, asked: Calibrates) -> None:
        spec = stored.run.spec
        self.metric = metric
        self.asked = asked
        self.factor = spec.compare.factor
        self.base = spec.compare.base
        self._varied = [
            name for name, levels in spec.levels.items() if name != self.factor and len(levels) > 1
        ]
        self._stored = stored
        self.values: dict[str, dict[int, float]] = {}
        self.durations: dict[str, dict[int, float]] = {}
        self.failed: dict[str, int] = {}
        self.stopped: dict[str, list[float]] = {}
        self._operations = spec.operations
        self._by_operations = {
            each.id: spec.ends_by_operations(each.levels) for each in stored.treatments
        }
        self._work: dict[str, dict[int, comparability.TrialWork]] = {}
        self._steadiness: dict[str, dict[int, TrialSteadiness]] = {}
        last = stored.last_attempts()
        for trial in stored.trials:
            if (attempt := last.get(trial.id)) is not None:
                self._take(trial, attempt)

    def _take(self, trial: records.TrialRecord, attempt: records.StoredAttempt) -> None:
        of = trial.treatment_id
        if attempt.outcome == "failed":
            failed_itself = attempt.failed_step != records.ROUND_FAILED
            self.failed[of] = self.failed.get(of, 0) + failed_itself
            return
        value = self.metric.value(attempt)
        if value is None:
            return
        self.values.setdefault(of, {})[trial.block] = value
        if attempt.steps:
            ended_s = attempt.steps[-1].started_s + attempt.steps[-1].duration_s
            self.durations.setdefault(of, {})[trial.block] = ended_s
        if (work := comparability.trial_work(trial, attempt)) is not None:
            self._work.setdefault(of, {})[trial.block] = work
        self._steadiness.setdefault(of, {})[trial.block] = assess_trial(
            trial, attempt, margin=self.asked.margin, by_operations=self._by_operations[of]
        )
        measured = {each.name: each.value for each in attempt.measurements}
        if measured.get(SLOWDOWN_WINDOW_S):
            share = measured.get(SLOWDOWN_STOPPED_S, 0.0) / measured[SLOWDOWN_WINDOW_S]
            self.stopped.setdefault(of, []).append(share)

    def groups(self) -> Iterator[tuple[dict[str, Level], dict[Level, str]]]:
        """Yield the levels of fixed factors, with the treatments' ids by level of the slowdown."""
        found: dict[tuple[tuple[str, Level], ...], dict[Level, str]] = {}
        for treatment in sorted(self._stored.treatments, key=lambda each: each.position):
            held = {name: of for name, of in treatment.levels.items() if name != self.factor}
            level = treatment.levels[self.factor]
            found.setdefault(tuple(held.items()), {})[level] = treatment.id
        yield from ((dict(held), of) for held, of in found.items())

    def again(self, of: Mapping[Level, str]) -> str:
        """Return the treatment of a group that is the base under another name."""
        resolved = {each.id: each.resolved[self.factor] for each in self._stored.treatments}
        return next(
            treatment
            for level, treatment in of.items()
            if level != self.base and resolved[treatment] == self.base
        )

    def pairs(self, base: str, other: str) -> list[Pair]:
        ours, theirs = self.values.get(base, {}), self.values.get(other, {})
        return [Pair(n, ours[n], theirs[n]) for n in sorted(ours.keys() & theirs.keys())]

    def block_s(self, base: str, other: str) -> float | None:
        """Return the mean time of a block of the trials of both; None without such a block."""
        ours, theirs = self.durations.get(base, {}), self.durations.get(other, {})
        times_s = [ours[block] + theirs[block] for block in ours.keys() & theirs.keys()]
        return fmean(times_s) if times_s else None

    def judged(self, base: str, other: str, names: tuple[str, str]) -> Judged:
        """Return whether a run would compare these two treatments on these blocks alone."""

        def of(blocks: Sequence[int]) -> comparability.Comparability:
            ours, theirs = (
                comparability.TreatmentTrials(
                    name,
                    [work for n in blocks if (work := self._work.get(treatment, {}).get(n))],
                    assess_trials(
                        [self._steadiness[treatment][n] for n in blocks],
                        margin=self.asked.margin,
                        looks="any",
                    ),
                )
                for name, treatment in zip(names, (base, other), strict=True)
            )
            rules = comparability.ComparabilityRules(
                self.asked.margin, self._operations, same_statements=True, looks="any"
            )
            return comparability.assess_comparability(ours, theirs, rules)

        return of

    def label(self, held: Mapping[str, Level]) -> str:
        """Return the levels that tell a group from the others."""
        return " · ".join(level_text(name, held[name]) for name in self._varied)


def _group(
    trials: _Trials, held: dict[str, Level], of: dict[Level, str], asked: Calibrates
) -> GroupCalibration:
    base, again = of[trials.base], trials.again(of)
    verdicts, under_way = _verdicts(trials, base, again, "again")
    noise = noise_of(trials.pairs(base, again))
    return GroupCalibration(
        fixed_factors=held,
        label=trials.label(held),
        treatments=(base, again),
        verdicts=verdicts,
        under_way=under_way,
        noise=noise,
        detectable={} if noise is None else detectable(noise.log_sd, (*TABLE, asked.blocks)),
        block_s=trials.block_s(base, again),
        injected=tuple(
            _injected(trials, str(level), base, treatment)
            for level, treatment in of.items()
            if treatment not in (base, again)
        ),
        failed=sum(trials.failed.get(treatment, 0) for treatment in (base, again)),
    )


def _verdicts(
    trials: _Trials, base: str, other: str, level: str
) -> tuple[tuple[SequentialVerdict, ...], tuple[Pair, ...]]:
    """Return those on a treatment that differs from the base in its ``level`` of the slowdown."""
    name = level_text(trials.asked.factor, trials.asked.base)
    return sequential_verdicts(
        trials.pairs(base, other),
        direction=trials.metric.direction,
        margin=trials.asked.margin,
        most=trials.asked.blocks,
        judged=trials.judged(base, other, (name, f"{name} {level}")),
    )


def _injected(trials: _Trials, level: str, base: str, slowed: str) -> InjectedSlowdown:
    pairs = trials.pairs(base, slowed)
    verdicts, under_way = _verdicts(trials, base, slowed, level)
    stopped = trials.stopped.get(slowed)
    return InjectedSlowdown(
        level=level,
        verdicts=verdicts,
        under_way=under_way,
        estimate=ratio_of(pairs) if pairs else None,
        stopped=fmean(stopped) if stopped else None,
        failed=trials.failed.get(slowed, 0),
    )


def noise_of(pairs: Sequence[Pair]) -> Noise | None:
    """Return the noise of A/A blocks; None where there are too few for an interval."""
    if len(pairs) < FEWEST_BLOCKS:
        return None
    estimate = ratio_of(pairs)
    trials = summarise([value for each in pairs for value in (each.base, each.other)])
    assert estimate.log_sd is not None
    assert trials.cv is not None
    low, high = sd_limits(estimate.log_sd, len(pairs))
    return Noise(len(pairs), estimate.log_sd, low, high, trials.cv)


def detectable(log_sd: float, numbers: Iterable[int]) -> dict[int, float]:
    """Return the smallest relative change that each number of blocks shows with power 0.8."""
    return {n: minimum_detectable_ratio(log_sd, n, looks="any") - 1 for n in sorted(set(numbers))}


MOST_DAYS = 14


def preferred(
    run: records.RunRecord, calibrations: Sequence[records.RunRecord]
) -> list[records.RunRecord]:
    """Return the calibrations in the order in which a report of ``run`` would quote them.

    Those of its experiment and base come first, then the newest. Calibrations of one design
    (interleaved, in slices) say nothing of another one.
    """
    alike = [each for each in calibrations if each.design.slices == run.design.slices]
    return sorted(alike, key=lambda each: not _is_of(run, each.spec.calibrates))


def _is_of(run: records.RunRecord, asked: Calibrates | None) -> bool:
    compared = run.spec.compare
    return asked is not None and (asked.digest, asked.factor, asked.base) == (
        run.digest,
        compared.factor,
        compared.base,
    )


def applicable_calibration(
    run: records.RunRecord, found: Calibration, now: datetime
) -> ApplicableCalibration:
    """Return a calibration as the report of ``run`` quotes it, ``now``."""
    limits = found.limits(found.false)
    ended = datetime.fromisoformat(found.ended_utc)
    created = datetime.fromisoformat(run.created_utc)
    return ApplicableCalibration(
        run=found.run.id,
        experiment=found.target.name,
        is_of_experiment=_is_of(run, found.target),
        ended_utc=found.ended_utc,
        age_s=max((now - ended).total_seconds(), 0.0),
        verdicts=len(found.verdicts),
        false=found.false,
        refused=found.refused,
        low=None if limits is None else limits[0],
        high=None if limits is None else limits[1],
        smallest=found.smallest(found.target.blocks),
        blocks=found.target.blocks,
        stale=stale(found, run.host, run.versions, created),
    )


def stale(
    found: Calibration, host: records.HostRecord, versions: Mapping[str, str], begun: datetime
) -> tuple[str, ...]:
    """Return the reasons why a calibration says little of a run ``begun`` then on ``host``."""
    apart = abs(begun - datetime.fromisoformat(found.ended_utc))
    old = (f"it and this run are {apart.days} days apart",)
    return (
        *found.run.environment_changes(host, versions),
        *(old if apart > timedelta(days=MOST_DAYS) else ()),
    )
