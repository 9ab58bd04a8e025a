"""What was observed of a server in one attempt, as typed values, with the work that was done.

An attempt's observations are one document of version 1 (see ``millrace.observe``). Any part of it
may be missing, because a kernel, a right, a tool or a server lacks it: it is None here, and what
needs it does without. Values are sums between the beginning and the end of the measured part, in
seconds and bytes; ``Observed.per_operation`` makes them those of one operation.

The foreground are the threads that serve clients. A server has sessions beside them, such as those
that ask it for its counters, and a thread may wait in its cache for a connection to come. So the
threads that worked most are taken, as many as there are clients; where threads are pooled, all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from millrace.store.records import StoredAttempt, StoredRun, TreatmentRecord, TrialRecord

Noun = Literal["transaction", "row"]
Loop = Literal["closed", "open", "load"]

VERSION = 1
US_PER_S = 1e6

# Kinds of threads that serve clients: one for a connection, or one of a pool.
FOREGROUND = ("connection", "pool")
OTHER_SESSIONS = "other sessions"
_FLUSH = "log_flush"
_NOT_BLOCKED = ("running", "network")
# Threads that are gone at the end, as one: a session that loads a table ends with its load, clients
# that are driven stay.
_ENDED = "ended"


@dataclass(frozen=True)
class Work:
    """What the clients of an attempt did, by their own clock.

    ``operations`` are transactions that succeeded, or rows that were loaded, in ``duration_s``.
    ``latency_s`` is the mean of an operation; ``gap_s`` a client's mean time from an answer to its
    next request (None in an open loop, where nobody measured it). ``client_cpu_s`` is CPU time of
    the load generator. ``failed`` of the operations tried ended in an error, which are not among
    ``operations``.
    """

    noun: Noun
    loop: Loop
    clients: int
    operations: float
    duration_s: float
    latency_s: float | None
    gap_s: float | None
    client_cpu_s: float | None
    failed: float


@dataclass(frozen=True)
class Usage:
    """What threads used, in sum. ``runnable_s`` is how long they were ready to run without a CPU.

    Names and units are the document's, but for those that the analysis has no use for.
    """

    cpu_s: float | None
    user_s: float | None
    system_s: float | None
    runnable_s: float | None
    voluntary_switches: float | None
    involuntary_switches: float | None
    read_bytes: float | None
    write_bytes: float | None


@dataclass(frozen=True)
class Place:
    """Where a thread was blocked: the document's class, the system call and what it is about, and
    the functions of the kernel on its stack, the outermost first, joined by semicolons."""

    state_class: str
    call: str | None
    target: str | None
    stack: str | None


@dataclass(frozen=True)
class States:
    """In what state the ``threads`` of the foreground were, each time they were looked at.

    ``counts`` are by the document's classes, ``samples`` their sum. Waits for a lock while another
    thread of the server wrote its log through to the disk (``during_sync``) count as ``log_flush``.
    ``places`` are the same but for those running and waiting for clients.
    """

    threads: int
    samples: int
    counts: Mapping[str, int]
    places: Mapping[Place, int]


@dataclass(frozen=True)
class Disk:
    """The device under the data directory, for everyone on the host."""

    device: str
    reads: float
    writes: float
    read_bytes: float
    write_bytes: float
    flushes: float | None
    read_s: float
    write_s: float
    flush_s: float | None
    busy_s: float


@dataclass(frozen=True)
class Profile:
    """CPU samples of the server: ``stacks`` are ``KIND;module`symbol;...``, the root first."""

    event: str
    frequency_hz: float
    call_graph: str
    samples: int
    lost: int
    seconds: float
    stacks: Mapping[str, int]


@dataclass(frozen=True)
class Missing:
    """Something that an observer could not see, and what to do about it."""

    observer: str
    what: str
    remedy: str


@dataclass(frozen=True)
class Observed:
    """One attempt: what its clients did, and what was seen of the server meanwhile.

    ``background`` are the threads that serve no client, by their kind. ``pooled`` says that threads
    are shared by the clients, so that one that waits may have nothing to do. ``status`` and
    ``metrics`` are deltas of counters that moved, ``gauges`` values at the end. ``waits``,
    ``digests``, ``stages``, ``plans`` and ``host`` are as the document has them; ``has_waits`` says
    whether the server measured its waits.
    """

    work: Work
    window_s: float | None
    pooled: bool
    process: Usage | None
    foreground: Usage | None
    background: Mapping[str, Usage]
    states: States | None
    disk: Disk | None
    status: Mapping[str, float] | None
    gauges: Mapping[str, Any]
    metrics: Mapping[str, float]
    has_waits: bool
    waits: Sequence[Mapping[str, Any]]
    digests: Sequence[Mapping[str, Any]]
    stages: Sequence[Mapping[str, Any]]
    plans: Mapping[str, Mapping[str, Any]]
    host: Mapping[str, Any]
    profile: Profile | None
    missing: tuple[Missing, ...]

    @property
    def operations(self) -> float:
        """Operations in the window that was observed: clients and observers begin and end at the
        same marks, but not in the same instant."""
        if self.window_s is None:
            return self.work.operations
        return self.work.operations * self.window_s / self.work.duration_s

    @property
    def cycle_us(self) -> float:
        """How long one operation of one client took, with the time until its next one: µs."""
        return US_PER_S * self.work.clients * self.work.duration_s / self.work.operations

    def per_operation(self, amount: float) -> float:
        """An amount of the window, of one operation, in the amount's unit."""
        return amount / self.operations

    def sampled_us(self, count: int) -> float:
        """How long threads were in a state of an operation's time, by its samples: µs."""
        assert self.states is not None
        threads_us = US_PER_S * self.states.threads * self.work.duration_s / self.work.operations
        return threads_us * count / self.states.samples

    def us(self, seconds: float) -> float:
        """Seconds of the window, as µs of one operation."""
        return US_PER_S * seconds / self.operations


@dataclass(frozen=True)
class ObservedTrial:
    """A finished trial with what was observed in it; ``block`` counts from 0."""

    trial_id: str
    block: int
    attempt: StoredAttempt
    observed: Observed


def observed_trials(
    stored: StoredRun,
    treatment: TreatmentRecord,
    *,
    purpose: Literal["measure", "profile"] = "measure",
) -> tuple[ObservedTrial, ...]:
    """The finished trials of a treatment that did any work, in the order of their blocks."""
    clients = _clients(stored, treatment)
    last = stored.last_attempts()
    found = []
    for trial in sorted(stored.trials, key=lambda trial: trial.block):
        if trial.treatment_id == treatment.id and trial.purpose == purpose:
            told = _trial(trial, last.get(trial.id), clients)
            found += [told] if told is not None else []
    return tuple(found)


def _trial(trial: TrialRecord, attempt: StoredAttempt | None, clients: int) -> ObservedTrial | None:
    if attempt is None or attempt.outcome != "finished":
        return None
    told = observed(attempt, clients=clients)
    return None if told is None else ObservedTrial(trial.id, trial.block, attempt, told)


def _clients(stored: StoredRun, treatment: TreatmentRecord) -> int:
    parameters = stored.run.spec.get("parameters") or {}
    return int(treatment.levels.get("clients") or parameters.get("clients") or 1)


def observed(attempt: StoredAttempt, *, clients: int) -> Observed | None:
    """What an attempt's observations say; None where it measured no work."""
    work = _work(attempt, clients)
    if work is None:
        return None
    document = attempt.observations
    unread: tuple[Missing, ...] = ()
    if document and document.get("version") != VERSION:
        unread = (
            Missing(
                "all",
                f"its observations are of version {document.get('version')}, "
                f"which this millrace cannot read",
                "explain this run with the millrace that measured it, or a newer one",
            ),
        )
        document = {}
    pooled = _is_pooled(attempt)
    threads = _section(document, "threads")
    serving = (*FOREGROUND, _ENDED) if work.loop == "load" else FOREGROUND
    most = None if pooled else work.clients
    chosen, others = _split(threads, _section(document, "states"), serving, most)
    status = _section(document, "status")
    waits = _section(document, "waits")
    return Observed(
        work=work,
        window_s=_number(document, "window_s"),
        pooled=pooled,
        process=_usage([threads["process"]]) if threads.get("process") else None,
        foreground=_usage(chosen) if chosen else None,
        background={kind: _usage(of_kind) for kind, of_kind in _by_kind(others).items()},
        states=_states(_section(document, "states"), chosen, most),
        disk=_disk(_section(document, "disk")),
        status=_numbers(status.get("deltas") or {}) if status else None,
        gauges=status.get("gauges") or {},
        metrics=_numbers(status.get("metrics") or {}),
        has_waits=bool(waits.get("enabled")),
        waits=waits.get("events") or (),
        digests=document.get("digests") or (),
        stages=document.get("stages") or (),
        plans=_section(document, "plans"),
        host=_section(document, "host"),
        profile=_profile(_section(document, "profile")),
        missing=(*unread, *_missing(document)),
    )


def _work(attempt: StoredAttempt, clients: int) -> Work | None:
    measured = {m.name: m.value for m in attempt.measurements if m.role == "server"}
    cpu = [measured.get(f"load_generator_{kind}_s") for kind in ("user", "system")]
    client_cpu_s = None if None in cpu else sum(filter(None, cpu))
    if measured.get("transactions") and measured.get("measure_duration_s"):
        tried = measured["transactions"] + measured.get("errors", 0.0)
        gap_s = measured.get("mean_gap_s")
        return Work(
            noun="transaction",
            loop="open" if measured.get("scheduled") or gap_s is None else "closed",
            clients=clients,
            operations=measured["transactions"],
            duration_s=measured["measure_duration_s"],
            latency_s=_latency_s(attempt),
            gap_s=gap_s,
            client_cpu_s=client_cpu_s,
            failed=measured.get("errors", 0.0) / tried,
        )
    if "transactions" in measured or not measured.get("rows"):
        return None
    duration_s = measured.get("load_duration_s", 0.0) + measured.get("finish_duration_s", 0.0)
    if not duration_s:
        return None
    return Work(
        noun="row",
        loop="load",
        clients=1,
        operations=measured["rows"],
        duration_s=duration_s,
        latency_s=duration_s / measured["rows"],
        gap_s=0.0,  # the clock runs while rows are made too
        client_cpu_s=client_cpu_s,
        failed=0.0,
    )


def _latency_s(attempt: StoredAttempt) -> float | None:
    """The exact mean service time of a transaction."""
    records = [h for h in attempt.histograms if h.of == "transaction" and h.kind == "service"]
    count = sum(record.count for record in records)
    return sum(record.sum_s for record in records) / count if count else None


def _is_pooled(attempt: StoredAttempt) -> bool:
    servers = [instance for instance in attempt.instances if instance.role == "server"]
    how = servers[0].effective.get("thread_handling", "") if servers else ""
    return "pool" in how


def _split(
    threads: Mapping[str, Any],
    states: Mapping[str, Any],
    kinds: Sequence[str],
    clients: int | None,
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The threads of ``kinds`` that served ``clients`` (None: all that serve any), and all
    others."""
    known = list(threads.get("threads") or ())
    busy = {
        thread["tid"]: sum(
            state["count"] for state in thread["states"] if state["class"] != "network"
        )
        for thread in states.get("threads") or ()
    }
    serving = sorted(
        (thread for thread in known if thread["kind"] in kinds),
        key=lambda thread: (thread.get("cpu_s") or 0.0, busy.get(thread["tid"], 0)),
        reverse=True,
    )
    chosen = serving if clients is None else serving[:clients]
    tids = {thread["tid"] for thread in chosen}
    return chosen, [thread for thread in known if thread["tid"] not in tids]


def _by_kind(threads: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for thread in threads:
        kind = OTHER_SESSIONS if thread["kind"] in FOREGROUND else str(thread["kind"])
        found.setdefault(kind, []).append(thread)
    return found


def _usage(threads: Sequence[Mapping[str, Any]]) -> Usage:
    """The sum over ``threads``; None where one of them lacks a figure."""

    def total(name: str) -> float | None:
        values = [_number(thread, name) for thread in threads]
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    return Usage(**{each.name: total(each.name) for each in fields(Usage)})


def _states(
    section: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], clients: int | None
) -> States | None:
    tids = {thread["tid"] for thread in chosen if thread["kind"] != _ENDED}
    sampled = list(section.get("threads") or ())
    if tids:
        sampled = [thread for thread in sampled if thread["tid"] in tids]
    else:  # nobody counted what threads used, or they are gone: those that were seen running most
        serving = [thread for thread in sampled if thread["kind"] in FOREGROUND]
        serving.sort(key=_unoccupied)
        sampled = serving if clients is None else serving[:clients]
    counts: Counter[str] = Counter()
    places: Counter[Place] = Counter()
    for thread in sampled:
        for state in thread["states"]:
            # A thread of a pool may have nothing to do, whoever flushes meanwhile.
            is_flush = state["class"] == "lock" and clients is not None
            flushing = state["during_sync"] if is_flush else 0
            for name, count in ((state["class"], state["count"] - flushing), (_FLUSH, flushing)):
                counts[name] += count
                if count and name not in _NOT_BLOCKED:
                    stack = state.get("stack") or state["wchan"]
                    places[Place(name, state["syscall"], state["target"], stack)] += count
    samples = counts.total()
    if not samples:
        return None
    return States(len(sampled) if clients is None else clients, samples, dict(counts), dict(places))


def _unoccupied(thread: Mapping[str, Any]) -> int:
    return -sum(int(s["count"]) for s in thread["states"] if s["class"] == "running")


def _disk(section: Mapping[str, Any]) -> Disk | None:
    if not section:
        return None
    values = {
        each.name: _number(section, each.name) for each in fields(Disk) if each.name != "device"
    }
    if any(value is None for name, value in values.items() if not name.startswith("flush")):
        return None
    return Disk(device=str(section.get("device")), **values)  # type: ignore[arg-type]


def _profile(section: Mapping[str, Any]) -> Profile | None:
    if not section.get("stacks"):
        return None
    stacks = {str(stack): int(count) for stack, count in section["stacks"].items()}
    return Profile(
        event=str(section.get("event", "")),
        frequency_hz=float(section.get("frequency_hz") or 0),
        call_graph=str(section.get("call_graph", "none")),
        samples=sum(stacks.values()),
        lost=int(section.get("lost") or 0),
        seconds=float(section.get("seconds") or 0),
        stacks=stacks,
    )


def _missing(document: Mapping[str, Any]) -> Iterator[Missing]:
    for each in document.get("missing") or ():
        yield Missing(
            str(each.get("observer", "")), str(each.get("what", "")), str(each.get("remedy") or "")
        )


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name)
    return section if isinstance(section, Mapping) else {}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    known = {name: _number(values, name) for name in values}
    return {name: value for name, value in known.items() if value is not None}


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value is None or isinstance(value, bool | str) else float(value)
