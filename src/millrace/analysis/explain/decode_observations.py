"""Read an attempt's observations (``millrace.model.observations``) as those of its work.

A section whose amounts are counted between two readings says how late its first one was
(``late_s``); its counted values are scaled to the whole window before anything else reads them.

A server has other sessions too, as those of background clients. So threads that waited for a
client's requests are taken, and then those that worked most, as many as there are clients; where
threads are pooled, all of the pool. Where fewer were found, the result has none.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from millrace.analysis.explain.observations import (
    FOREGROUND,
    ForegroundStates,
    Observed,
    ObservedTrial,
    Place,
    Profile,
    StatementStates,
    Work,
)
from millrace.levels import Level
from millrace.model import measurements, observations
from millrace.model.documents import Accrued, Document
from millrace.model.phases import MeasuredPhases
from millrace.model.roles import MEASURED
from millrace.model.run_spec import WorkloadDefinition
from millrace.model.sampled_threads import CountedState, SampledThread, SchedEvents, ScheduledThread
from millrace.stats.mean import complete_sum
from millrace.store.records import StoredAttempt, StoredRun, TreatmentRecord

_OF_WAITS = ("digests", "stages")  # sections that ``waits`` reads in the same go


def observed_trials(
    stored: StoredRun,
    treatment: TreatmentRecord,
    *,
    purpose: Literal["measure", "profile"] = "measure",
) -> tuple[ObservedTrial, ...]:
    """Return the finished trials of a treatment that did any work, in the order of their blocks."""
    chosen = stored.run.spec.chosen(treatment.levels)
    clients = int(chosen.get("clients") or 1)
    connections = loaders(stored.run.spec.workload, chosen)
    last = stored.last_attempts()
    found = []
    for trial in sorted(stored.trials, key=lambda trial: trial.block):
        attempt = last.get(trial.id)
        if trial.treatment_id != treatment.id or trial.purpose != purpose or attempt is None:
            continue
        if attempt.outcome == "finished":
            each = observed(attempt, stored.run.phases, clients=clients, loaders=connections)
            found += [] if each is None else [ObservedTrial(trial.id, trial.block, attempt, each)]
    return tuple(found)


def loaders(workload: WorkloadDefinition, chosen: Mapping[str, Level]) -> int | None:
    """Return the number of connections, one a table at most, that load a workload's tables.

    ``chosen`` are parameters and levels. A workload without tables of its own loads a data set, by
    one LOAD DATA over one connection. None where the number is unknown.
    """
    tables = _tables(workload, chosen) if workload.tables else 1
    asked = int(chosen.get("load_threads") or 0)
    if workload.tables and int(chosen.get("load_chunk_rows") or 0):
        return asked or None
    if tables == 1:
        return 1
    return min(asked, tables) if asked and tables else asked or None


def _tables(workload: WorkloadDefinition, chosen: Mapping[str, Level]) -> int | None:
    tables = (workload.tables or {}).values()
    known = complete_sum(_count(table.count, chosen) for table in tables)
    return None if known is None else int(known)


def _count(written: int | str | None, chosen: Mapping[str, Level]) -> int | None:
    """Return a number, or the value of the parameter that holds it: ``{tables}``."""
    if written is None:
        return 1
    text = str(written)
    value = chosen.get(text[1:-1]) if text.startswith("{") else text
    return None if value is None else int(value)


def observed(
    attempt: StoredAttempt, phases: MeasuredPhases, *, clients: int, loaders: int | None = 1
) -> Observed | None:
    """Return what was observed of the work of ``clients``, or of ``loaders``; None without work.

    The work of a replica is that of its threads that apply changes, however many there are.
    """
    found = attempt.observations
    at_once = n_appliers(found) if phases.of_replica else loaders
    work = _work(attempt, phases, clients, at_once)
    if work is None:
        return None
    found = scale_to_window(found)
    pooled = _is_pooled(attempt)
    serving = served(found, work, pooled=pooled)
    waits = found.waits or observations.Waits()
    return Observed(
        work=work,
        window_s=found.window_s,
        pooled=pooled,
        process=None if found.threads is None else found.threads.process,
        foreground=serving.foreground,
        background=serving.background,
        states=serving.states,
        statements=statements(found),
        disk=found.disk if _is_whole(found.disk) else None,
        grown=None if found.status is None else found.status.grown,
        counters=None if found.status is None else found.status.counters,
        has_waits=bool(waits.enabled),
        waits=waits.events or (),
        digests=found.digests or (),
        stages=found.stages or (),
        plans=found.plans or {},
        host=found.host or observations.HostActivity(),
        profile=_profile(found.profile),
        missing=(
            *_of_load(work),
            *serving.missing,
            *_of_statements(attempt, found),
            *(found.missing or ()),
        ),
    )


def scale_to_window(found: observations.Observations) -> observations.Observations:
    """Return observations with each section scaled to the whole window.

    A section whose first reading was late missed as much as it counted in a time of equal length.
    """
    window_s = found.window_s
    scaled = {}
    for name, section in found:
        late_s = section.late_s if isinstance(section, observations.Section) else None
        if window_s is None or late_s is None or not 0 < late_s < window_s:
            continue
        factor = window_s / (window_s - late_s)
        for each in (name, *_OF_WAITS) if name == "waits" else (name,):
            scaled[each] = _times(getattr(found, each), factor)
    return found.model_copy(update=scaled)


def _times(value: Any, factor: float, *, accrued: bool = False) -> Any:
    """Return a part of the observations with its accrued amounts multiplied."""
    match value:
        case Document():
            fields = type(value).model_fields
            scaled = {
                name: _times(each, factor, accrued=any(isinstance(m, Accrued) for m in of.metadata))
                for name, of in fields.items()
                if (each := getattr(value, name)) is not None
            }
            return value.model_copy(update=scaled)
        case Mapping():
            return {name: _times(each, factor, accrued=accrued) for name, each in value.items()}
        case tuple():
            return tuple(_times(each, factor, accrued=accrued) for each in value)
        case int() | float() if accrued and not isinstance(value, bool):
            return value * factor
    return value


def _work(
    attempt: StoredAttempt, phases: MeasuredPhases, clients: int, at_once: int | None
) -> Work | None:
    """Return the work of driven ``clients``, else of as many loaders or appliers ``at_once``."""
    measured = attempt.measured
    client_cpu_s = complete_sum(
        measured.get(name)
        for name in (measurements.LOAD_GENERATOR_USER_S, measurements.LOAD_GENERATOR_SYSTEM_S)
    )
    duration_s = sum(measured.get(name, 0.0) for name in phases.durations)
    elapsed_s = measured.get(measurements.ROUND_S, duration_s)
    if min(duration_s, elapsed_s) <= 0:
        return None
    if phases.driven is not None and not phases.of_replica:
        if not measured.get(measurements.TRANSACTIONS):
            return None
        tried = measured[measurements.TRANSACTIONS] + measured.get(measurements.ERRORS, 0.0)
        gap_s = measured.get(measurements.MEAN_GAP_S)
        return Work(
            noun="transaction",
            loop="open" if measured.get(measurements.SCHEDULED) or gap_s is None else "closed",
            clients=clients,
            operations=measured[measurements.TRANSACTIONS],
            duration_s=duration_s,
            elapsed_s=elapsed_s,
            latency_s=_latency_s(attempt),
            gap_s=gap_s,
            client_cpu_s=client_cpu_s,
            failed=measured.get(measurements.ERRORS, 0.0) / tried,
        )
    transactions = measured.get(measurements.REPLICATED_TRANSACTIONS)
    operations = transactions or measured.get(measurements.ROWS)
    if operations is None or operations <= 0:
        return None
    return Work(
        noun="transaction" if transactions else "row",
        loop="load",
        clients=at_once or 1,
        operations=operations,
        duration_s=duration_s,
        elapsed_s=elapsed_s,
        latency_s=None if at_once is None else at_once * duration_s / operations,
        gap_s=0.0,  # the clock runs while rows are made too
        client_cpu_s=client_cpu_s,
        failed=0.0,
    )


def _latency_s(attempt: StoredAttempt) -> float | None:
    records = [h for h in attempt.histograms if h.of == "transaction" and h.kind == "service"]
    count = sum(record.count for record in records)
    return sum(record.sum_s for record in records) / count if count else None


def _is_pooled(attempt: StoredAttempt) -> bool:
    servers = [instance for instance in attempt.instances if instance.role in MEASURED]
    how = servers[0].effective.get("thread_handling", "") if servers else ""
    return "pool" in how


def _is_whole(disk: observations.Disk | None) -> bool:
    """Return whether all figures are known but those of flushes, which old kernels lack."""
    return disk is not None and all(
        value is not None for name, value in disk if name not in ("late_s", "flushes", "flush_s")
    )


def _profile(found: observations.ProfileSamples | None) -> Profile | None:
    if found is None or not found.stacks:
        return None
    return Profile(
        event=found.event,
        call_graph=found.call_graph,
        with_kernel=found.with_kernel,
        samples=sum(found.stacks.values()),
        lost=int(found.lost or 0),
        runs=found.runs or 1,  # nothing was repeated before it was recorded
        stacks=found.stacks,
    )


def _of_load(work: Work) -> Iterator[observations.Missing]:
    if work.loop == "load" and work.latency_s is None:
        yield observations.Missing(
            observer="threads",
            what="how many connections loaded the table, so a row has no time breakdown",
            hint="set load_threads under [parameters] in the experiment",
        )


def _of_statements(
    attempt: StoredAttempt, found: observations.Observations
) -> Iterator[observations.Missing]:
    """Yield the breakdown of statements that older documents lack."""
    names = {record.name for record in attempt.histograms if record.of == "statement"}
    if found.states is not None and found.states.statements is None and len(names) > 1:
        yield observations.Missing(
            observer="states",
            what="which statement a thread works for, so statements have no time breakdown",
            hint="measure again with this millrace",
        )


OTHER_SESSIONS = "other sessions"
_POOL = "pool"
_FLUSH = "log_flush"
_LEAST_OF_BUSIEST = 0.05  # of the CPU time of a replica's busiest applier
_NOT_BLOCKED = ("running", "network")
# Threads that are gone at the end, as one: a session that loads a table ends with its load, clients
# that are driven stay.
_ENDED = "ended"

_State = TypeVar("_State", bound=CountedState)


@dataclass(frozen=True)
class Served:
    """The threads of one attempt: those that served clients, and by their kind all others."""

    foreground: observations.Usage | None
    background: Mapping[str, observations.Usage]
    states: ForegroundStates | None
    missing: tuple[observations.Missing, ...]


def served(document: observations.Observations, work: Work, *, pooled: bool) -> Served:
    """Return who served the clients; ``pooled`` threads are shared by them."""
    sampled = () if document.states is None else document.states.threads or ()
    used = () if document.threads is None else document.threads.threads or ()
    kinds: tuple[str, ...] = (_POOL,) if pooled else FOREGROUND
    serving_kinds = (*kinds, _ENDED) if work.loop == "load" else kinds
    clients = None if pooled else work.clients
    serving, others = _split(used, sampled, serving_kinds, clients)
    serving_samples = _sampled(sampled, serving, kinds, clients)
    wanted = 1 if pooled else work.clients
    ended = any(thread.kind == _ENDED for thread in serving)  # as one, however many
    missing = []
    if used and not ended and len(serving) < wanted:
        missing.append(_too_few("threads", len(serving), work, pooled=pooled))
        serving, serving_samples = [], []
    elif sampled and len(serving_samples) < wanted:
        missing.append(_too_few("states", len(serving_samples), work, pooled=pooled))
        serving_samples = []
    return Served(
        foreground=usage(serving) if serving else None,
        background={kind: usage(of_kind) for kind, of_kind in _by_kind(others).items()},
        states=_states(serving_samples, clients, document.switches),
        missing=tuple(missing),
    )


def n_appliers(document: observations.Observations) -> int:
    """Return how many threads of a replica applied changes, at least 1: they alone serve there.

    One that had next to no work does not count, as it would only seem to have waited.
    """
    sampled = () if document.states is None else document.states.threads or ()
    used = () if document.threads is None else document.threads.threads or ()
    ran = [thread.cpu_s or 0.0 for thread in used if thread.kind in FOREGROUND]
    if not ran:
        return max(sum(thread.kind in FOREGROUND for thread in sampled), 1)
    return sum(cpu_s >= _LEAST_OF_BUSIEST * max(ran) for cpu_s in ran)


def statements(observed: observations.Observations) -> StatementStates | None:
    """Return the samples of threads by their clients' statements; None where these are unknown."""
    states, events = observed.states, observed.switches or SchedEvents()
    if states is None or states.statements is None:
        return None
    serving = [thread for thread in states.threads or () if thread.kind in FOREGROUND]
    factors = wait_factors(serving, events)
    samples, counted = _counted(states.statements.states or (), factors, flushes=True)
    if not counted:
        return None
    counts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for state, name, count in counted:
        if state.statement is not None:
            counts[state.statement][name] += count
    scheduled = {each.statement: (each.on_cpu, each.ready) for each in events.statements or ()}
    return StatementStates(samples, {name: dict(of) for name, of in counts.items()}, scheduled)


def usage(threads: Sequence[observations.ThreadUsage]) -> observations.Usage:
    """Return the sum over ``threads``; None where one of them lacks a figure."""
    return observations.Usage(
        **{
            name: complete_sum(getattr(thread, name) for thread in threads)
            for name in observations.Usage.model_fields
        }
    )


def _too_few(observer: str, found: int, work: Work, *, pooled: bool) -> observations.Missing:
    if pooled:
        what = "no thread of the pool that serves the clients could be identified"
    else:
        what = f"of the threads that serve the {work.clients} clients, only {found} were found"
    return observations.Missing(
        observer=observer, what=f"{what}: their parts of the time breakdown are unknown"
    )


def _split(
    used: Sequence[observations.ThreadUsage],
    sampled: Sequence[SampledThread],
    kinds: Sequence[str],
    clients: int | None,
) -> tuple[list[observations.ThreadUsage], list[observations.ThreadUsage]]:
    """Return the threads of ``kinds`` that served ``clients`` (None: any), and all others."""
    busy = {
        thread.tid: sum(state.count for state in thread.states if state.state_class != "network")
        for thread in sampled
    }
    of_clients = {thread.tid for thread in sampled if thread.serves_client}
    by_work = sorted(
        (thread for thread in used if thread.kind in kinds),
        key=lambda thread: (
            thread.tid in of_clients, thread.cpu_s or 0.0, busy.get(thread.tid, 0)
        ),
        reverse=True,
    )  # fmt: skip
    serving = by_work[:clients]
    tids = {thread.tid for thread in serving}
    return serving, [thread for thread in used if thread.tid not in tids]


def _by_kind(
    threads: Iterable[observations.ThreadUsage],
) -> dict[str, list[observations.ThreadUsage]]:
    found: dict[str, list[observations.ThreadUsage]] = {}
    for thread in threads:
        kind = OTHER_SESSIONS if thread.kind in FOREGROUND else thread.kind
        found.setdefault(kind, []).append(thread)
    return found


def _sampled(
    sampled: Sequence[SampledThread],
    serving: Sequence[observations.ThreadUsage],
    kinds: Sequence[str],
    clients: int | None,
) -> list[SampledThread]:
    if serving and all(thread.kind != _ENDED for thread in serving):
        tids = {thread.tid for thread in serving}
        return [thread for thread in sampled if thread.tid in tids]
    # Nobody counted what threads used, or they are gone: those that were sampled running most.
    of_kinds = [thread for thread in sampled if thread.kind in kinds]
    by_work = sorted(of_kinds, key=_running, reverse=True)
    return sorted(by_work, key=lambda thread: not thread.serves_client)[:clients]


def _running(thread: SampledThread) -> int:
    return sum(int(each.count) for each in thread.states if each.state_class == "running")


def _states(
    threads: Sequence[SampledThread], clients: int | None, events: SchedEvents | None
) -> ForegroundStates | None:
    """Return the samples of the threads, each weighted by the time it stands for."""
    states = [state for thread in threads for state in thread.states]
    # A thread of a pool may have nothing to do, whoever flushes meanwhile.
    factors = wait_factors(threads, events or SchedEvents())
    samples, counted = _counted(states, factors, flushes=clients is not None)
    if not counted:
        return None
    counts: defaultdict[str, float] = defaultdict(float)
    places: defaultdict[Place, float] = defaultdict(float)
    for state, name, count in counted:
        counts[name] += count
        if count and name not in _NOT_BLOCKED:
            stack = state.stack or state.wchan
            places[Place(name, state.syscall, state.target, stack)] += count
    n_threads = len(threads) if clients is None else clients
    return ForegroundStates(n_threads, samples, dict(counts), dict(places))


def _counted(
    states: Sequence[_State], factors: Mapping[str, float], *, flushes: bool
) -> tuple[int, list[tuple[_State, str, float]]]:
    """Return the number of samples, and how many of them each state stands for, by class.

    Where ``flushes``, a wait for a lock while the log is flushed counts as waiting for that.
    """
    samples = sum(int(state.count) for state in states)
    seconds = math.fsum(state.weight for state in states)
    found: list[tuple[_State, str, float]] = []
    for state in states if samples and seconds else ():
        count = samples * state.weight * factors.get(state.state_class, 1.0) / seconds
        is_flush = state.state_class == "lock" and flushes
        flushing = count * state.during_sync / state.count if is_flush else 0.0
        found += [(state, state.state_class, count - flushing), (state, _FLUSH, flushing)]
    return samples, found


_RUNNING = "running"
# What a thread waited for, by how it slept and who woke it.
_WOKEN_BY_SERVER, _TIMED_OUT = ("S", "own"), ("S", "kernel")
_CLASSES: Mapping[tuple[str, str], str] = {_WOKEN_BY_SERVER: "lock", ("S", "other"): "network"}

_FEWEST = 30  # waits
_FEWEST_WINDOWS = 3  # in which they ended
_SHORT = 0.05  # of a window
_UNKNOWN = 0.1  # of the waits' time may the time be of which nothing is known


def wait_factors(threads: Sequence[SampledThread], events: SchedEvents) -> Mapping[str, float]:
    """Return factors for the sampled seconds of ``threads``, by class of states, if known.

    Samples of threads find short waits too often or too seldom where CPUs are few (see
    ``collect.sched_waits``). Events of the scheduler show how long threads slept until another
    thread of the server woke them (waiting for a lock), or somebody outside of it (waiting for a
    client), and how long they were not blocked at all. The samples are scaled to the time that they
    show where such waits are many, and short compared with the windows in which events were
    recorded, and where little time in the windows is unknown.

    A wait for a lock may have a limit, and the kernel ends it when that is over, as it ends all
    sleep with a limit: such time is divided among locks and mere sleep as it was sampled.
    """
    shares = _shares(threads, events)
    all_s = _seconds(threads)
    sampled = {name: _seconds(threads, name) for name in shares}
    found = {name: share * all_s / sampled[name] for name, share in shares.items() if sampled[name]}
    return found if found.keys() - {_RUNNING} else {}


def _shares(threads: Sequence[SampledThread], events: SchedEvents) -> Mapping[str, float]:
    """Return the shares of time that threads waited, by class, and that they ran."""
    tids = {thread.tid for thread in threads}
    traced = [thread for thread in events.threads or () if thread.tid in tids]
    if not traced or sum(thread.windows for thread in traced) < _FEWEST_WINDOWS:
        return {}
    assert events.seconds is not None  # where there are threads
    assert events.windows is not None
    unknown_s = math.fsum(thread.unknown_s for thread in traced)
    known_s = events.seconds * len(traced) - unknown_s
    short_s = _SHORT * events.seconds / events.windows
    locks_s, sleep_s = _seconds(threads, "lock"), _seconds(threads, "sleep")
    count, seconds = _waits(traced, locks_s / (locks_s + sleep_s) if locks_s else 0.0)
    found = {
        name: seconds[kind] / known_s
        for kind, name in _CLASSES.items()
        if count[kind] >= _FEWEST
        and seconds[kind] <= short_s * count[kind]
        and unknown_s <= _UNKNOWN * seconds[kind]
    }
    blocked_s = math.fsum(thread.blocked_s for thread in traced)
    return {**found, _RUNNING: (known_s - blocked_s) / known_s} if found else {}


def _waits(
    traced: Sequence[ScheduledThread], lock_share: float
) -> tuple[Mapping[tuple[str, str], float], Mapping[tuple[str, str], float]]:
    """Return number and seconds of waits by how a thread slept and who woke it.

    A wait for a lock with a time limit looks like mere sleep where the timer ended it:
    ``lock_share`` of those count as locks.
    """
    count: defaultdict[tuple[str, str], float] = defaultdict(float)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for thread in traced:
        for wait in thread.waits:
            kind = wait.state, wait.woken_by
            count[kind] += wait.count
            seconds[kind] += wait.seconds
    count[_WOKEN_BY_SERVER] += lock_share * count[_TIMED_OUT]
    seconds[_WOKEN_BY_SERVER] += lock_share * seconds[_TIMED_OUT]
    return count, seconds


def _seconds(threads: Sequence[SampledThread], name: str | None = None) -> float:
    """Sum the sampled time of threads in the states of a class, or in all, in s."""
    return math.fsum(
        state.weight
        for thread in threads
        for state in thread.states
        if name is None or state.state_class == name
    )
