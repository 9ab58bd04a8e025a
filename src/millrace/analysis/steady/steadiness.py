"""Assess whether trials showed a steady state, and whether they are fit to be compared.

The whole measured part enters a verdict, since cutting would cut one of two trials more than the
other. A trial is not steady where its warm-up reaches into the measured part by more than the
margin matters, where it moves on the whole (``stats.trend``), where its server put work off
(``steady_checks``), or where its plans are not those of most trials of its treatment. What
one trial does by chance, several do not do alike (``assess_trials``).

A trial of few seconds is too short to tell, whatever its checks say; that alone never refuses a
verdict. Loads of a fixed amount have no steady state. Maintenance disturbs clients on purpose, so
that only the seconds before it must be steady. Nor is one asked for where each trial ends by
operations: both sides do the same work then, and pass through the same states.

A server may keep its throughput up by putting work off, which a longer trial would have to pay for.
Each check of that is a pure function of what a trial recorded at the marks where its measured part
began and ended (``trial.server_state``), and is ``unknown`` where the server's version does not
report it. Growth counts in terms of what the server can hold: dirty pages and the age of the
checkpoint grow in every load that writes. They fail where they grew by more than noise, and as much
growth again would take them to where the server stops putting work off and flushes at any price
(``SteadyLimits.dirty_share``, and three quarters of the redo log): throughput until then is
borrowed. A log that was written from end to end in the measured part is steady whatever its age.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from millrace.model import measurements
from millrace.model.instance_facts import HostTimeFact, ServerStateFact
from millrace.model.observations import PlanStep
from millrace.model.steady_limits import SteadyLimits
from millrace.stats.ratio import Looks
from millrace.stats.steady import warm_up
from millrace.stats.trend import Trend, classify_trend, detect_shared_drift
from millrace.store.records import (
    DrivenInterval,
    DrivenPhase,
    StoredAttempt,
    StoredRun,
    TrialRecord,
)

Result = Literal["passed", "failed", "unknown"]


NOISE = 0.05  # of what a server can hold: less does not count as growth
LOG_LIMIT = 0.75  # of the redo log: beyond, versions flush at any price
_FILLED = 0.05  # of the pages in the buffer pool, fetched into free ones
_MISSES = 1e-4  # of the pages asked for: fewer cost nothing that can be measured
_UNPURGED = 0.1  # of the transactions
_RECALCULATED_AT = 0.1  # of a table's rows changed, statistics are calculated anew
_RESOLUTION_S = 1.0  # of a table's last update


@dataclass(frozen=True)
class SteadyCheck:
    """The result of one check of a trial.

    ``clause`` states a failure without figures, so that those of several trials can be counted
    together; ``figures`` says them, or why it is unknown; ``hint`` is a hint for a failure.
    """

    name: str
    result: Result
    clause: str
    figures: str
    hint: str


@dataclass(frozen=True)
class Recorded:
    """The figures that a trial recorded by name, at the ``begin`` and ``end`` marks."""

    begin: Mapping[str, float]
    end: Mapping[str, float]
    state: ServerStateFact
    limits: SteadyLimits
    transactions: float
    rows_changed: float

    def both(self, name: str) -> tuple[float, float] | None:
        if name in self.begin and name in self.end:
            return self.begin[name], self.end[name]
        return None


def steady_checks(
    state: ServerStateFact, limits: SteadyLimits, *, transactions: float, rows_changed: float
) -> tuple[SteadyCheck, ...]:
    """Apply every check to a trial's record of ``trial.server_state`` and its clients' work."""
    trial = Recorded(
        _numbers(state.begin), _numbers(state.end), state, limits, transactions, rows_changed
    )
    found = []
    for name, clause, check in _CHECKS:
        answer = check(trial)
        if answer is None:
            found.append(SteadyCheck(name, "unknown", clause, "the server did not tell", ""))
        else:
            found.append(_check(name, clause, *answer))
    return tuple(found)


class _Answer(NamedTuple):
    fails: bool
    figures: str
    hint: str


def _buffer_pool(trial: Recorded) -> _Answer | None:
    """Check that no pages were still fetched into free ones of the buffer pool."""
    free, data = trial.both("pool_free_pages"), trial.both("pool_data_pages")
    fetched, asked = trial.both("pages_fetched"), trial.both("pages_asked_for")
    if free is None or data is None or fetched is None or asked is None:
        return None
    n_fetched, n_asked = fetched[1] - fetched[0], asked[1] - asked[0]
    filled = min(free[0] - free[1], n_fetched)
    fails = filled > _FILLED * data[1] and n_fetched > _MISSES * n_asked
    return _Answer(
        fails,
        f"{max(filled, 0):,.0f} of its {data[1]:,.0f} pages with data were fetched into free pages "
        f"in the measured part",
        "read the tables into memory first (a longer warmup_s, or a workload that warms its "
        "tables)",
    )


def _dirty_pages(trial: Recorded) -> _Answer | None:
    """Check that changed pages were written back as fast as they were made."""
    dirty, pool = trial.both("dirty_pages"), trial.end.get("pool_pages")
    if dirty is None or not pool:
        return None
    limit = trial.limits.dirty_share
    shares = (dirty[0] / pool, dirty[1] / pool)
    return _Answer(
        _heads_for(limit, *shares),
        f"{_percent(shares[0])} of the buffer pool was dirty at the begin, {_percent(shares[1])} "
        f"at the end; the limit is {limit * 100:g} %",
        _write_more(trial.limits),
    )


def _checkpoint_age(trial: Recorded) -> _Answer | None:
    """Check that the redo log was freed as fast as it was written."""
    position, checkpoint = trial.both("log_position"), trial.both("checkpoint")
    capacity = trial.state.log_capacity_bytes
    if capacity is None:
        capacity = trial.limits.log_bytes
    if position is None or checkpoint is None or not capacity:
        return None
    begin, end = (
        (at - freed_to) / capacity for at, freed_to in zip(position, checkpoint, strict=True)
    )
    came_round = position[1] - position[0] >= capacity
    fails = not came_round and _heads_for(LOG_LIMIT, begin, end)
    return _Answer(
        fails,
        f"{_percent(begin)} of the redo log was in use at the begin, {_percent(end)} at the end; "
        f"{_percent((position[1] - position[0]) / capacity)} of it was written",
        f"{_write_more(trial.limits)}; a smaller redo log{in_brackets(trial.limits.smaller_log)} "
        "gets there sooner",
    )


def _write_more(limits: SteadyLimits) -> str:
    return (
        "warm up for longer, until the server writes back as much as is changed, or let it write "
        f"sooner{in_brackets(limits.write_sooner)} in all configurations"
    )


def in_brackets(options: str) -> str:
    """Return options in brackets, to follow their purpose; nothing where none is known."""
    return f" ({options})" if options else ""


def _purge_lag(trial: Recorded) -> _Answer | None:
    """Check that old versions of rows were purged as fast as they were made."""
    history = trial.both("history")
    if history is None:
        return None
    grew = history[1] - history[0]
    fails = grew > trial.limits.purge_cycle and grew > _UNPURGED * trial.transactions
    return _Answer(
        fails,
        f"the history list had {history[0]:,.0f} entries at the begin, {history[1]:,.0f} at the "
        f"end, after {trial.transactions:,.0f} transactions",
        f"give purge more threads{in_brackets(trial.limits.purge_faster)} in all configurations, "
        "or ask for less a second (rate)",
    )


def _settled_statistics(trial: Recorded) -> _Answer | None:
    """Check that statistics were not recalculated, unless the load's own changes ask for it."""
    tables, measured_s = trial.state.statistics, trial.state.since_begin_s
    if not tables or measured_s is None:
        return None
    anew = [
        table
        for table, known in tables.items()
        if known.age_s < measured_s - _RESOLUTION_S
        and trial.rows_changed < _RECALCULATED_AT * known.rows
    ]
    which = f"of {', '.join(anew)}" if anew else "of none, but where a tenth of the rows changed"
    return _Answer(
        bool(anew),
        f"statistics were calculated anew in the measured part {which}",
        "warm up for longer, or keep statistics as they are"
        f"{in_brackets(trial.limits.keep_statistics)} in all configurations",
    )


_CHECKS: tuple[tuple[str, str, Callable[[Recorded], _Answer | None]], ...] = (
    ("buffer pool", "the buffer pool still filled", _buffer_pool),
    ("dirty pages", "dirty pages still grew", _dirty_pages),
    ("checkpoint age", "the age of the checkpoint still grew", _checkpoint_age),
    ("purge lag", "the history of old row versions still grew", _purge_lag),
    ("statistics", "statistics of tables were calculated anew", _settled_statistics),
)


def _check(name: str, clause: str, fails: bool, figures: str, hint: str) -> SteadyCheck:
    return SteadyCheck(name, "failed" if fails else "passed", clause, figures, hint)


def _heads_for(limit: float, begin: float, end: float) -> bool:
    """Return whether a share grows, and as much again would take it to its limit."""
    growth = end - begin
    return growth > NOISE and end + growth >= limit


def _numbers(figures: object) -> dict[str, float]:
    known = figures.items() if isinstance(figures, Mapping) else ()
    return {
        name: float(value)
        for name, value in known
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


SUSPENSION, STEAL = "suspension", "steal time"
HOST_CHECKS = frozenset((SUSPENSION, STEAL))

MOST_SUSPENDED_S = 0.1
MOST_STEP_S = 0.5  # of the wall clock; corrections of the time are slower or smaller
MOST_STOLEN = 0.05  # of the time of the trial's CPUs
_SHORTEST_STEAL_S = 8.0  # steal comes in bursts: less shows no share


def host_checks(fact: HostTimeFact | None) -> tuple[SteadyCheck, ...]:
    """Return the checks on the host's time of a trial; none where it is empty."""
    if fact is None:
        return ()
    return _suspension(fact), _steal(fact)


def _suspension(fact: HostTimeFact) -> SteadyCheck:
    slept_s, step_s = fact.suspended_s, fact.clock_step_s
    fails = slept_s > MOST_SUSPENDED_S or step_s > MOST_STEP_S
    return _check(
        SUSPENSION,
        "the machine was suspended, or its clock was set forward",
        fails,
        f"the machine slept for {slept_s:.1f} s in the measured part, and its wall clock went "
        f"{step_s:+.1f} s beside that",
        "measure again while nothing suspends, moves or backs up this machine, nor sets its clock",
    )


def _steal(fact: HostTimeFact) -> SteadyCheck:
    share, measured_s = fact.steal_share, fact.measured_s
    result: Result = "unknown"
    figures = "the kernel does not count it, or the measured part is too short"
    if share is not None and measured_s >= _SHORTEST_STEAL_S:
        result = "failed" if share > MOST_STOLEN else "passed"
        figures = f"the hypervisor ran others in {share * 100:.1f} % of the CPUs' time"
    return SteadyCheck(
        STEAL,
        result,
        "the hypervisor took the CPUs away",
        figures,
        "measure on a host whose CPUs are not shared, or when its neighbours are idle",
    )


ALPHA = 0.02  # a steady trial is called unsteady
ALIKE_ALPHA = 0.01  # steady trials of a treatment drift alike
PLANS = "plans"  # the gate that compares the trials of a treatment

# Of a second: the rest of a part that does not end with one is too short for a rate.
_SHORTEST_S = 0.5

State = Literal["steady", "unsteady", "too short to tell", "not recorded", "does not apply"]


@dataclass(frozen=True)
class TrialSteadiness:
    """The assessment of one trial's steady state; ``block`` counts from 0.

    ``figure`` is what was looked at second by second: throughput, or in an open loop the median
    response time; ``none`` where no clients were driven. ``warmup_s`` and ``measured_s`` are the
    lengths of the trial's parts, ``seconds`` the number of points in the measured one. ``found_s``
    is where its warm-up ended, from its begin on, ``enough_s`` the warm-up that would have been
    enough where it was not. ``slowest`` is the throughput of the slowest second in transactions/s,
    unless a schedule gives it. None: not recorded, or does not apply.
    """

    trial_id: str
    block: int
    state: State
    figure: str
    trend: Trend
    checks: tuple[SteadyCheck, ...]
    seconds: int
    warmup_s: float | None
    measured_s: float | None
    found_s: float | None
    enough_s: float | None
    transactions: float
    plans: Mapping[str, tuple[PlanStep, ...]] = field(default_factory=dict)
    limits: SteadyLimits = field(default_factory=SteadyLimits)
    slowest: float | None = None

    @property
    def is_judged(self) -> bool:
        """Return whether the trial was long enough to be judged steady or unsteady."""
        return self.state in ("steady", "unsteady")

    @property
    def is_asked(self) -> bool:
        """Return whether it was to be steady, and its seconds are known."""
        return self.state not in ("not recorded", "does not apply")

    @property
    def failed(self) -> tuple[SteadyCheck, ...]:
        return tuple(gate for gate in self.checks if gate.result == "failed")


def steadiness(
    finished: Sequence[tuple[TrialRecord, StoredAttempt]],
    *,
    margin: float,
    by_operations: bool,
    looks: Looks = "once",
) -> tuple[TrialSteadiness, ...]:
    """Assess a treatment's finished trials, which end ``by_operations`` or by time."""
    found = [
        assess_trial(trial, attempt, margin=margin, by_operations=by_operations)
        for trial, attempt in finished
    ]
    return assess_trials(found, margin=margin, looks=looks)


def assess_trial(
    trial: TrialRecord, attempt: StoredAttempt, *, margin: float, by_operations: bool
) -> TrialSteadiness:
    """Assess one finished trial; the arguments are those of ``steadiness``."""
    found = _judged(_bare(trial, attempt, by_operations=by_operations), attempt, margin)
    found = replace(found, checks=(*found.checks, *host_checks(attempt.facts.host_time)))
    return _with_state(found) if _is_disturbed(found) else found


def assess_trials(
    trials: Sequence[TrialSteadiness], *, margin: float, looks: Looks = "once"
) -> tuple[TrialSteadiness, ...]:
    """Add the findings that need several trials of a treatment: shared drifts and unusual plans."""
    courses = detect_shared_drift(
        [trial.trend for trial in trials], margin=margin, alpha=ALIKE_ALPHA, looks=looks
    )
    gates_of_plans = _same_plans(trials)
    return tuple(
        _with_state(replace(trial, trend=course, checks=(*trial.checks, gate)))
        if trial.is_asked
        else trial
        for trial, course, gate in zip(trials, courses, gates_of_plans, strict=True)
    )


def by_treatment(stored: StoredRun) -> dict[str, tuple[TrialSteadiness, ...]]:
    """Return the steadiness of a run's finished, measured trials by the treatment's id."""
    last = stored.last_attempts()
    finished: dict[str, list[tuple[TrialRecord, StoredAttempt]]] = {}
    for trial in stored.trials:
        attempt = last.get(trial.id)
        if attempt is not None and attempt.outcome == "finished" and trial.purpose == "measure":
            finished.setdefault(trial.treatment_id, []).append((trial, attempt))
    spec, levels = stored.run.spec, {each.id: each.levels for each in stored.treatments}
    return {
        treatment: steadiness(
            trials,
            margin=stored.run.margin,
            by_operations=spec.ends_by_operations(levels[treatment]),
        )
        for treatment, trials in finished.items()
    }


def _bare(trial: TrialRecord, attempt: StoredAttempt, *, by_operations: bool) -> TrialSteadiness:
    measured = attempt.measured
    phase = _driven_phase(attempt)
    drives = measurements.TRANSACTIONS in measured
    is_open = _is_open(attempt)
    figure = "the median response time" if is_open else "throughput"
    points = _points(attempt, "measure")
    return TrialSteadiness(
        trial_id=trial.id,
        block=trial.block,
        state="not recorded" if drives and not by_operations else "does not apply",
        figure=figure if drives else "none",
        trend=Trend("too short to tell"),
        checks=(),
        seconds=len(points),
        warmup_s=phase.warmup_s,
        measured_s=_steady_s(phase),
        found_s=None,
        enough_s=None,
        transactions=measured.get(measurements.TRANSACTIONS, 0.0),
        plans={
            name: tuple(plan.steps)
            for name, plan in (attempt.observations.plans or {}).items()
            if plan.steps
        },
        limits=attempt.limits,
        slowest=None if is_open else min(points, default=None),
    )


def _judged(bare: TrialSteadiness, attempt: StoredAttempt, margin: float) -> TrialSteadiness:
    """Add trend and checks to an assessment, where these apply and were recorded."""
    warmup_s, measured_s = bare.warmup_s, bare.measured_s
    before, within = (_points(attempt, part) for part in ("warmup", "measure"))
    if bare.state == "does not apply" or not within or warmup_s is None or measured_s is None:
        return bare
    trend = classify_trend(within, margin=margin, alpha=ALPHA)
    if bare.transactions < len(within):
        trend = Trend(
            "too short to tell"
        )  # seconds without a transaction are not a change of speed
    found_s = min(warm_up([*before, *within]) / len(before), 1.0) * warmup_s if before else 0.0
    if trend.kind == "warm-up" and trend.at is not None:
        found_s = warmup_s + trend.at * measured_s / len(within)
    passed = _gates(attempt, warmup_s, measured_s)
    return _with_state(replace(bare, trend=trend, checks=passed, found_s=found_s))


def _with_state(trial: TrialSteadiness) -> TrialSteadiness:
    """Return an assessment with the state that follows from its trend and checks."""
    if _is_disturbed(trial):
        return replace(trial, state="unsteady")
    if trial.trend.kind == "too short to tell":
        return replace(trial, state="too short to tell")
    if trial.trend.kind == "steady" and not trial.failed:
        return replace(trial, state="steady")
    enough_s = trial.found_s
    if trial.trend.kind != "warm-up" or trial.failed:
        enough_s = (trial.warmup_s or 0.0) + (trial.measured_s or 0.0)
    return replace(trial, state="unsteady", enough_s=enough_s)


def _is_disturbed(trial: TrialSteadiness) -> bool:
    """Return True where the host itself took time from a trial, which no other gate excuses."""
    return any(gate.name in HOST_CHECKS for gate in trial.failed)


def _gates(attempt: StoredAttempt, warmup_s: float, measured_s: float) -> tuple[SteadyCheck, ...]:
    measured = attempt.measured
    with_warm_up = 1 + warmup_s / measured_s if measured_s else 1.0
    return steady_checks(
        attempt.facts.state or ServerStateFact(),
        attempt.limits,
        transactions=measured[measurements.TRANSACTIONS],
        rows_changed=measured.get(measurements.ROWS_AFFECTED, 0.0) * with_warm_up,
    )


def _is_open(attempt: StoredAttempt) -> bool:
    """Return whether clients were sent by a schedule, which gives the throughput."""
    return attempt.measured.get(measurements.SCHEDULED, 0.0) > 0


def _driven_phase(attempt: StoredAttempt) -> DrivenPhase:
    """Return the times of the phase that drove clients; nothing where none were recorded."""
    phases = (each for each in attempt.series if isinstance(each, DrivenPhase))
    return next(phases, DrivenPhase())


def _steady_s(phase: DrivenPhase) -> float | None:
    """Return the time that must be steady: the measured part, or that of it before maintenance."""
    maintenance = phase.maintenance
    return phase.duration_s if maintenance is None else maintenance.parts[0].duration_s


def _points(attempt: StoredAttempt, part: str) -> list[float]:
    maintenance = _driven_phase(attempt).maintenance
    until_s = math.inf if maintenance is None else maintenance.from_s
    seconds = [
        each
        for each in attempt.series
        if isinstance(each, DrivenInterval)
        and each.part == part
        and each.duration_s >= _SHORTEST_S
        and each.t_s <= until_s
    ]
    if _is_open(attempt):
        return [each.p50_us / 1e6 for each in seconds if each.p50_us is not None]
    return [each.transactions / each.duration_s for each in seconds]


def _same_plans(trials: Sequence[TrialSteadiness]) -> list[SteadyCheck]:
    """Check for each trial of a treatment whether its plans are those of most trials."""
    ways: dict[str, Counter[Any]] = {}
    for trial in trials:
        for name, way in trial.plans.items():
            ways.setdefault(name, Counter())[way] += 1
    usual = {name: counts.most_common(1)[0][0] for name, counts in ways.items()}
    return [_plans_gate(trial, usual) for trial in trials]


def _plans_gate(trial: TrialSteadiness, usual: Mapping[str, tuple[PlanStep, ...]]) -> SteadyCheck:
    plans = trial.plans
    others = [name for name, way in plans.items() if way != usual[name]]
    figures = "statements were carried out as in most trials"
    if not plans:
        figures = "the plans were not observed"
    elif others:
        figures = f"another plan of {', '.join(others)} than in most trials"
    return SteadyCheck(
        PLANS,
        "unknown" if not plans else "failed" if others else "passed",
        "statements had another plan than in most trials",
        figures,
        f"keep the statistics of the tables as they are{in_brackets(trial.limits.keep_plans)} in "
        "all configurations, or name the index in the statement",
    )
