"""Find likely causes beside settings: what threads did and waited for, the work, the host."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from millrace.analysis.explain.causes.evidence import CPU, Evidence, SideEvidence, is_larger
from millrace.analysis.explain.causes.model import COUNTED, Finding, count_text, listed, us_text
from millrace.analysis.explain.efficiency import pool_requests
from millrace.analysis.explain.observations import US_PER_S, Observed, figure_of
from millrace.analysis.explain.plans import unlike_plans
from millrace.analysis.explain.time_breakdown import PARTS, PartKey

_FUNCTIONS = 1.5  # the weight of functions that are known by name
_LOCK = 1.1

COMPRESSION, SPINNING, QUEUE = "compression", "spinning", "queue for CPUs"


def cpu(evidence: Evidence) -> Iterator[Finding]:
    """Yield CPU time by purpose, where there is a profile, and in sum; and the queue for CPUs."""
    more, noun = evidence.more, evidence.noun
    for name, us in evidence.group_growth_us.items():
        if name not in (COMPRESSION, SPINNING):
            clause = f"functions for {evidence.group_title(name)} took {us_text(us)} {more} of CPU"
            clause += f" a {noun}{evidence.and_queue(us)}"
            yield Finding("cpu", name, clause, evidence.with_queue(us))
    grown_us = evidence.growth_of(CPU)
    if grown_us > 0:
        clause = f"the server's threads were on a CPU {us_text(grown_us)} {more} a {noun}"
        clause += f"{_of_cpu(evidence, grown_us)}{evidence.and_queue(grown_us)}"
        us, plans = evidence.with_queue(grown_us), unlike_plans(evidence.plans)
        yield Finding("cpu", "CPU time", clause, us, weight=0.9, evidence=plans)
    queue_us = evidence.growth_of(["runnable"]) - evidence.queue_growth_us
    if queue_us > 0:
        clause = f"threads were ready without a CPU {us_text(queue_us)} {more} a {noun} than their "
        clause += "own CPU time explains"
        yield Finding("cpu", QUEUE, clause, queue_us, weight=0.5)


def _of_cpu(evidence: Evidence, grown_us: float) -> str:
    """Name the code in which the CPU time was spent, as far as there is a profile."""
    is_user = evidence.growth_of(["cpu_user"]) >= evidence.growth_of(["cpu_system"])
    where = f", most of it in {'user code' if is_user else 'the kernel'}"
    if not evidence.groups:
        return f"{where}, and no profile tells in which functions"
    grown = [each for each in evidence.functions if evidence.sign * each.us > 0]
    if grown:
        in_each = [
            f"{us_text(each.us)} in {each.name}{' and what it calls' if each.with_callees else ''}"
            for each in grown
        ]
        return f"{where} ({listed(in_each)})"
    if not evidence.group_growth_us:
        return f"{where}, and no group of functions stands out"
    largest = sorted(evidence.group_growth_us.items(), key=lambda item: -item[1])[:3]
    named = [f"{us_text(us)} for {evidence.group_title(name)}" for name, us in largest]
    rest_us = grown_us - math.fsum(us for _, us in largest)
    rest = [f"{us_text(rest_us)} for all else"] if rest_us > 0 else []
    return f"{where} ({listed([*named, *rest])})"


def locks(evidence: Evidence) -> Iterator[Finding]:
    """Yield locks: of rows, by the server's own counters, or of its own structures."""
    more, noun = evidence.more, evidence.noun
    lock_us = evidence.growth_of(["lock"])
    spinning_us = evidence.group_growth_us.get(SPINNING, 0.0)
    row_lock_s = evidence.neutral_counters("row_lock_s")
    row_lock = None if row_lock_s is None else (1e6 * row_lock_s[0], 1e6 * row_lock_s[1])
    row_us = 0.0 if row_lock is None else row_lock[1] - row_lock[0]
    # A thread that waits for a row whose owner flushes the log is sampled as waiting for the flush.
    waits_us = evidence.growth_of(["lock", "log_flush", "fsync", "sleep", "other"])
    waited_us = min(row_us, waits_us)
    if row_lock is not None and waited_us > 0 and row_us >= 0.2 * max(lock_us, 1e-9):
        a, b = evidence.as_a_and_b(*(us_text(us) for us in row_lock))
        own_name = evidence.worse.own_name
        details = [evidence.per_operation(own_name("row_lock_s"), row_lock, us_text)]
        if (counts := evidence.neutral_counters("row_lock_waits")) is not None:
            details.append(evidence.per_operation(own_name("row_lock_waits"), counts, count_text))
        yield Finding(
            "lock",
            "row locks",
            f"a {noun} waited {a} for row locks in A and {b} in B, by the server's own count",
            max(waited_us, lock_us),
            consequence=listed(evidence.growth_texts(["lock", "log_flush"])),
            weight=COUNTED,
            evidence=tuple(details),
        )
    elif lock_us > 0:
        details = list(_instrumented(evidence, lock_us + spinning_us))
        yield Finding(
            "lock",
            "mutexes",
            f"threads waited {us_text(lock_us)} {more} a {noun} for each other (futex), and "
            "not for rows",
            lock_us + spinning_us,
            consequence=f"largest by the server's instruments: {details[0]}" if details else "",
            weight=_LOCK,
            evidence=tuple(details[1:]),
        )
    if spinning_us > 0 and not lock_us:
        clause = f"loops that wait for a lock took {us_text(spinning_us)} {more} of CPU a {noun}"
        clause += evidence.and_queue(spinning_us)
        yield Finding("lock", "spinning", clause, evidence.with_queue(spinning_us), weight=_LOCK)


def compression(evidence: Evidence) -> Iterator[Finding]:
    """Yield pages that one side compresses, by the functions that took the time or by counters."""
    cpu_us = evidence.group_growth_us.get(COMPRESSION, 0.0)
    pages = evidence.neutral_counters("pages_compressed")
    grew = pages is not None and pages[1] > 1.5 * pages[0]
    if not cpu_us and not grew:
        return
    details, clauses = [], []
    if cpu_us:
        clauses.append(
            f"functions that compress took {us_text(cpu_us)} {evidence.more} of CPU"
            f"{evidence.and_queue(cpu_us)}"
        )
    if pages is not None and grew:
        a, b = evidence.as_a_and_b(*(count_text(each) for each in pages))
        what = "pages compressed and decompressed"
        details.append(evidence.per_operation(what, pages, count_text))
        clauses.append(f"{a} pages were compressed or decompressed in A and {b} in B")
    io_us = evidence.growth_of(["data_read", "data_write", "lock"]) if grew else 0.0
    yield Finding(
        "compression",
        "compression",
        f"for a {evidence.noun}, {listed(clauses)}",
        evidence.with_queue(cpu_us or evidence.growth_of(CPU)) + io_us,
        consequence=listed(evidence.growth_texts([*CPU, "data_read", "data_write", "lock"])),
        weight=_FUNCTIONS,
        evidence=tuple(details),
    )


def _instrumented(evidence: Evidence, most_us: float) -> Iterator[str]:
    """Yield the instrumented waits of an operation that grew most, but by at most ``most_us``.

    Instrumented time also runs while the thread has no CPU, and encloses other waits, which the
    limit excludes. Nothing where either side did not time its waits.
    """
    by_name: dict[str, list[float]] = {}
    timed = [
        [trial.observed for trial in side.trials if trial.observed.has_waits]
        for side in (evidence.better, evidence.worse)
    ]
    if not all(timed):
        return
    for measured, sign in zip(timed, (-1, 1), strict=True):
        for observed in measured:
            for event in observed.waits:
                if event.name.startswith("wait/synch/"):
                    us = sign * observed.us(event.wait_s) / len(measured)
                    by_name.setdefault(event.name, []).append(us)
    sums = {name: math.fsum(values) for name, values in by_name.items()}
    grown = {name: us for name, us in sums.items() if us <= most_us}
    for name in sorted(grown, key=lambda name: -grown[name])[:3]:
        if grown[name] > 0:
            yield f"{name}, {us_text(grown[name])} {evidence.more}"


def storage(evidence: Evidence) -> Iterator[Finding]:
    """Yield reads of data, flushes of the log, and other writing."""
    yield from _reads(evidence)
    yield from _flushes(evidence)
    others: tuple[tuple[PartKey, str], ...] = (
        ("log_write", "writes of the log"),
        ("fsync", "flushes of files"),
        ("data_write", "writes of data"),
    )
    for key, about in others:
        us = evidence.growth_of([key])
        if us:
            of_each = f"{us_text(us)} {evidence.more} a {evidence.noun}"
            clause = f"threads of clients were {PARTS[key]} {of_each}"
            yield Finding("storage", about, clause, us)


def _reads(evidence: Evidence) -> Iterator[Finding]:
    us = evidence.growth_of(["data_read"])
    if not us:
        return
    misses = evidence.neutral_counters("buffer_pool_misses")
    grew = misses is not None and misses[1] > misses[0]
    clause = f"threads read data {us_text(us)} {evidence.more} a {evidence.noun}"
    details = []
    if misses is not None and grew:
        a, b = evidence.as_a_and_b(*(count_text(each) for each in misses))
        own_name = evidence.worse.own_name("buffer_pool_misses")
        details.append(evidence.per_operation(own_name, misses, count_text))
        each_us = us / (misses[1] - misses[0])
        clause = (
            f"a {evidence.noun} missed the buffer pool {a} times in A and {b} in B, "
            f"at {us_text(each_us)} for each miss more"
        )
    read_us = evidence.worse.mean(_device_read_us)
    if read_us is not None:
        details.append(f"a read of the device took {us_text(read_us)} on average")
    consequence = listed(evidence.growth_texts(["data_read"])) if grew else ""
    weight = COUNTED if grew else 1.0
    yield Finding(
        "storage",
        "reads of data",
        clause,
        us,
        consequence=consequence,
        weight=weight,
        evidence=tuple(details),
    )


def _flushes(evidence: Evidence) -> Iterator[Finding]:
    us = evidence.growth_of(["log_flush"])
    if not us:
        return
    flushes = evidence.neutral_counters("log_fsyncs")
    of_device = evidence.better_and_worse(lambda side: side.mean(_device_flushes))
    details = []
    of_each = f"{us_text(us)} {evidence.more} a {evidence.noun}"
    clause = f"threads waited {of_each} for a log to be flushed"
    grew = any(both is not None and both[1] > both[0] for both in (flushes, of_device))
    if flushes is not None:
        details.append(evidence.per_operation("flushes of the redo log", flushes, count_text))
    predicted = _predicted(evidence.worse)
    if predicted is not None:
        clause = f"{clause}; {predicted}"
    weight = COUNTED if grew else 1.0
    yield Finding(
        "storage", "flushes of the log", clause, us, weight=weight, evidence=tuple(details)
    )


def _predicted(side: SideEvidence) -> str | None:
    """Compare the time that the device's flushes predict for a trial with its own."""
    flushed = [
        (disk.flushes, disk.flush_s, trial.observed.window_s)
        for trial in side.trials
        if (disk := trial.observed.disk) is not None
        and disk.flushes
        and disk.flush_s
        and trial.observed.window_s
    ]
    if not flushed:
        return None
    flushes, flush_s, window_s = (
        math.fsum(values) / len(flushed) for values in zip(*flushed, strict=True)
    )
    each_us = us_text(US_PER_S * flush_s / flushes)
    of_device = f"{count_text(flushes)} flushes of the device at {each_us} each"
    in_all, trial = f"{count_text(flush_s)} s", f"{count_text(window_s)} s"
    if flush_s > window_s:
        return f"{of_device} took {in_all}, in sum over overlapping flushes, of a trial of {trial}"
    rate = f"{count_text(flushes / flush_s)}/s"
    return f"{of_device} ({rate}) predict {in_all} of the {trial} it took"


def client(evidence: Evidence) -> Iterator[Finding]:
    """Yield the clients themselves and the way to them."""
    us = evidence.growth_of(["client_wire", "network_send"])
    if not us:
        return
    details = []
    cpu_us = evidence.better_and_worse(
        lambda side: side.mean(lambda observed: observed.work.client_cpu_us)
    )
    if cpu_us is not None:
        details.append(evidence.per_operation("CPU time of the load generator", cpu_us, us_text))
    sent = evidence.neutral_counters("bytes_sent")
    if sent is not None:
        details.append(evidence.per_operation("bytes sent to clients", sent, count_text))
    clause = f"clients waited {us_text(us)} {evidence.more} a {evidence.noun} while the server had "
    clause += "nothing to do for them: in the client itself, or on the way to it"
    yield Finding("client", "client and wire", clause, us, evidence=tuple(details))


def _device_flushes(observed: Observed) -> float | None:
    flushes = None if observed.disk is None else observed.disk.flushes
    return None if flushes is None else observed.per_operation(flushes)


def _device_read_us(observed: Observed) -> float | None:
    disk = observed.disk
    if disk is None or not disk.reads or disk.read_s is None:
        return None
    return US_PER_S * disk.read_s / disk.reads


_PLAN, _OTHER_PLAN, _WORK, _PAGES = 2.6, 1.8, 1.6, 1.0  # weights
_MORE_ROWS = 1.1  # times as many, for other work to be suspected
_LEAST_ROWS = 0.5  # more in an operation
_MORE_PAGES, _LEAST_PAGES = 2.0, 16.0  # times, and more: versions count a few pages differently
_SERVER: tuple[PartKey, ...] = (
    "runnable", "lock", "log_flush", "log_write", "fsync", "data_read", "data_write",
    "network_send", "sleep", "other", *CPU,
)  # fmt: skip


def plans(evidence: Evidence) -> Iterator[Finding]:
    """Yield statements that the two servers carry out in different ways."""
    worse = "B" if evidence.sign > 0 else "A"
    different = [plan for plan in evidence.plans if plan.differs_for(worse)]
    if not different:
        return
    us, consequence = _grown(evidence)
    # Other statements may have grown, while these take as long as before.
    own_us = evidence.growth_of_statements([plan.statement for plan in different])
    took = ""
    if own_us is not None:
        us, consequence = min(us, own_us), ""
        took = f", and takes {us_text(own_us)} {evidence.more} of a {evidence.noun}"
    if us <= 0:
        return
    rows = _rows(evidence)
    more = rows is not None and _many_more(*rows)
    fewer = rows is not None and _many_more(*reversed(rows))
    # Another order of reading as many rows is other user code.
    in_kernel = evidence.growth_of(["cpu_system"]) > evidence.growth_of(["cpu_user"])
    details = [f"{plan.statement}: {each}" for plan in different for each in plan.different]
    read = ""
    if rows is not None:
        a, b = evidence.as_a_and_b(count_text(rows[0]), count_text(rows[1]))
        details.append(evidence.per_operation("rows read", rows, count_text))
        read = f", and reads {a} rows for a {evidence.noun} in A and {b} in B" if more else ""
    names = listed([plan.statement for plan in different[:3]])
    first = different[0].different[0] if different[0].different else "see EXPLAIN"
    yield Finding(
        "plan",
        "plan",
        f"the plan of {names} is another one ({first}){read}{took}",
        us,
        consequence=consequence,
        weight=_PLAN if more else _OTHER_PLAN / 2 if fewer or in_kernel else _OTHER_PLAN,
        evidence=tuple(details),
    )


def work(evidence: Evidence) -> Iterator[Finding]:
    """Yield unequal work, for as much of the time as there was more of it."""
    if evidence.unequal:
        clause = evidence.unequal.removeprefix("unequal work: ")
        us = min(_extra(evidence), 1.0) * evidence.size_us
        yield Finding("work", "unequal work", clause, us, weight=_WORK)
    if any(plan.same is False for plan in evidence.plans):
        return
    rows = _rows(evidence)
    if rows is None or not _many_more(*rows):
        yield from _pages(evidence)
        return
    us = _cost(evidence, *rows)
    if us > 0:
        a, b = evidence.as_a_and_b(count_text(rows[0]), count_text(rows[1]))
        clause = f"the engine read {a} rows for a {evidence.noun} in A and {b} in B"
        consequence = listed(evidence.growth_texts(_SERVER))
        yield Finding("work", "rows read", clause, us, consequence=consequence, weight=_WORK)


def _grown(evidence: Evidence) -> tuple[float, str]:
    """Return the growth of the server's parts, with the queue that its CPU time explains."""
    parts = [key for key in _SERVER if key != "runnable"]
    cpu_us = evidence.growth_of(CPU)
    text = f"{listed(evidence.growth_texts(parts))}{evidence.and_queue(cpu_us)}"
    return evidence.growth_of(parts) + evidence.queue_of(cpu_us), text


def _pages(evidence: Evidence) -> Iterator[Finding]:
    """Yield pages asked of the buffer pool, where a plan alone does not show that these differ."""
    pages = evidence.better_and_worse(_pages_of)
    if pages is None or pages[1] < max(_MORE_PAGES * pages[0], pages[0] + _LEAST_PAGES):
        return
    us = _cost(evidence, *pages)
    if us > 0:
        a, b = evidence.as_a_and_b(*map(count_text, pages))
        by = " by the same plan" if evidence.plans else ""
        yield Finding(
            "work",
            "pages read",
            f"a {evidence.noun} asked the buffer pool for {a} pages in A and {b} in B{by}",
            us,
            consequence=listed(evidence.growth_texts(_SERVER)),
            weight=_PAGES,
        )


def _pages_of(side: SideEvidence) -> float | None:
    known = [pages for trial in side.trials if (pages := pool_requests(trial)) is not None]
    return math.fsum(known) / len(known) if known else None


def _cost(evidence: Evidence, few: float, many: float) -> float:
    """Return what more rows or pages may cost: one costs no more than the better side's work."""
    growth = (many - few) / max(few, 1.0)
    return min(evidence.growth_of(_SERVER), growth * evidence.better_us(_SERVER))


def _rows(evidence: Evidence) -> tuple[float, float] | None:
    """Return rows read for an operation on both sides: the engine's count, else the server's."""
    rows = evidence.neutral_counters("rows_read")
    return rows if rows is not None and all(rows) else evidence.neutral_counters("handler_reads")


def _many_more(few: float, many: float) -> bool:
    return many > _MORE_ROWS * few and many - few >= _LEAST_ROWS


def _extra(evidence: Evidence) -> float:
    """Return the relative extra work of the worse side, over its relative extra time."""
    fractions = []
    for ask in (lambda observed: observed.work.failed, _handler_reads):
        better, worse = evidence.better.mean(ask), evidence.worse.mean(ask)
        if better is not None and worse is not None:
            fractions.append(max(worse - better, 0.0) / max(better, 1.0))
    return max(fractions, default=0.0) * evidence.better_latency_us / evidence.size_us


def _handler_reads(observed: Observed) -> float | None:
    rows = observed.counted("handler_reads")
    return None if rows is None else observed.per_operation(rows)


# A disturbance of only one side says nothing of the servers, so it ranks first.
_WEIGHT = 4.0

_OTHER_CPUS = 0.1
_STOLEN = 0.01  # of the CPU time of the host
_SLOWER_CLOCK = 0.05
_STALLED = 0.01  # of the time, for memory
_SWAPPED_BYTES = 16e6

# What a thread does more of where it has to share CPUs.
_OF_CPUS: tuple[PartKey, ...] = ("runnable", "client_wire", "network_send", *CPU)


@dataclass(frozen=True)
class _Disturbance:
    """Something that can be read of each trial: more of it than ``by`` disturbs."""

    about: str
    ask: Callable[[Observed], float | None]
    by: float
    parts: tuple[PartKey, ...]
    clause: str
    text: Callable[[float], str]


def environment(evidence: Evidence) -> Iterator[Finding]:
    """Yield the disturbances and limits that affected only the worse side, or affected it more."""
    for each in _DISTURBANCES:
        better, worse = evidence.better.by_block(each.ask), evidence.worse.by_block(each.ask)
        if is_larger(better, worse, by=each.by):
            less, more = (sum(side.values()) / len(side) for side in (better, worse))
            a, b = evidence.as_a_and_b(each.text(less), each.text(more))
            clause = each.clause.format(a=a, b=b, who=_others(evidence.worse))
            only_worse = min((more - less) / more, 1.0) if more > 0 else 1.0
            yield from _found(evidence, each.about, clause, each.parts, only_worse)
    yield from _limits(evidence)


def _found(
    evidence: Evidence, about: str, clause: str, parts: tuple[PartKey, ...], only_worse: float = 1.0
) -> Iterator[Finding]:
    us = evidence.growth_of(parts)
    if us > 0:
        weight = _WEIGHT * only_worse**2
        yield Finding(
            "environment",
            about,
            clause,
            us,
            consequence=listed(evidence.growth_texts(parts)),
            weight=weight,
        )


def _per_s(amount: float | None, observed: Observed) -> float | None:
    """Return an amount of the window, of each of its seconds."""
    return None if amount is None or not observed.window_s else amount / observed.window_s


def _stalled(observed: Observed) -> float | None:
    pressure = observed.host.pressure
    return None if pressure is None else _per_s(pressure.memory_full_s, observed)


def _slowness(observed: Observed) -> float | None:
    """Return minus the logarithm of the clock in MHz: a difference of 0.05 is 5 % less."""
    clock = observed.host.frequency_mhz
    return -math.log(clock.mean) if clock is not None and clock.mean else None


def _stolen(observed: Observed) -> float | None:
    cpu, cpus = observed.host.cpu, observed.host.cpus
    stolen = None if cpu is None else _per_s(cpu.steal_s, observed)
    return None if stolen is None or not cpus else stolen / cpus


def _others(side: SideEvidence) -> str:
    used: defaultdict[str, float] = defaultdict(float)
    for trial in side.trials:
        for other in trial.observed.host.others or ():
            used[str(other.name)] += other.cpu_s or 0.0
    most = sorted(used, key=lambda name: -used[name])[:2]
    names = listed([name for name in most if used[name] > 0])
    return f" (most of it {names})" if names else ""


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


_DISTURBANCES = (
    _Disturbance(
        "other processes", lambda observed: _per_s(observed.host.other_cpu_s, observed),
        _OTHER_CPUS, _OF_CPUS,
        "processes that belong neither to the server nor to millrace used {a} CPUs while A was "
        "measured and {b} while B was{who}", count_text,
    ),
    _Disturbance(
        "stolen CPU time", _stolen, _STOLEN, _OF_CPUS,
        "the hypervisor took {a} of the host's CPU time from A's trials and {b} from B's", _percent,
    ),
    _Disturbance(
        "clock of the CPUs", _slowness, _SLOWER_CLOCK, _OF_CPUS,
        "the CPUs ran at {a} MHz while A was measured and at {b} MHz while B was",
        lambda slowness: f"{math.exp(-slowness):,.0f}",
    ),
    _Disturbance(
        "memory pressure", _stalled, _STALLED, ("data_read", "data_write", "lock", *_OF_CPUS),
        "processes of the host stood still for want of memory {a} of the time in A and {b} in B",
        _percent,
    ),
    _Disturbance(
        "swapping", lambda observed: figure_of(observed.host.memory, "swap_used_bytes"),
        _SWAPPED_BYTES, ("data_read", *_OF_CPUS),
        "the host had {a} MB swapped out in A's trials and {b} MB in B's",
        lambda swapped_bytes: count_text(swapped_bytes / 1e6),
    ),
)  # fmt: skip


def _limits(evidence: Evidence) -> Iterator[Finding]:
    """Yield fewer CPUs for the server, by affinity or by quota."""
    both = evidence.better_and_worse(lambda side: side.mean(_allowed_cpus))
    if both is None or both[1] >= both[0]:
        return
    a, b = evidence.as_a_and_b(*map(count_text, both))
    clause = f"the server may use {a} CPUs in A and {b} in B (affinity or quota)"
    yield from _found(evidence, "CPU limit", clause, ("runnable", "lock", *CPU))


def _allowed_cpus(observed: Observed) -> float | None:
    """Return the CPU time per second that the server may use; None where that was not recorded."""
    limits = observed.host.server_limits
    known = () if limits is None else (limits.cpus, limits.quota_cpus)
    return min(filter(None, known), default=None)
