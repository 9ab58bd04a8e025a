"""Check from a server's own figures whether its measured part was in a steady state.

A server may keep its throughput up by putting work off, which a longer trial would have to pay for.
Each check is a pure function of what a trial recorded at the marks where its measured part began
and ended (``trial.server_state``), and is ``unknown`` where the server's version does not tell.

Growth counts in terms of what the server can hold: dirty pages and the age of the checkpoint grow
in every load that writes. They fail where they grew by more than noise, and as much growth again
would take them to where the server stops putting work off and flushes at any price
(``SteadyLimits.dirty_share``, and three quarters of the redo log): throughput until then is
borrowed. A log that was written from end to end in the measured part is steady whatever its age.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from millrace.model.instance_facts import HostTimeFact, ServerStateFact
from millrace.model.steady_limits import SteadyLimits

Result = Literal["passed", "failed", "unknown"]


NOISE = 0.05  # of what a server can hold: less is no growth
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
    state: ServerStateFact,
    limits: SteadyLimits,
    *,
    transactions: float,
    rows_changed: float,
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
_SHORTEST_S = 8.0  # steal comes in bursts: less shows no share


def host_checks(fact: HostTimeFact | None) -> tuple[SteadyCheck, ...]:
    """Return the checks on the record of ``trial.host_time``; none where it is empty."""
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
    if share is not None and measured_s >= _SHORTEST_S:
        result = "failed" if share > MOST_STOLEN else "passed"
        figures = f"the hypervisor ran others in {share * 100:.1f} % of the CPUs' time"
    return SteadyCheck(
        STEAL,
        result,
        "the hypervisor took the CPUs away",
        figures,
        "measure on a host whose CPUs are not shared, or when its neighbours are idle",
    )
