"""Suspects among what the servers did: plans, unequal work, CPU time, locks, storage, clients."""

from __future__ import annotations

import math
from collections.abc import Iterator

from millrace.analysis.explain.causes.evidence import CPU, Case, Side
from millrace.analysis.explain.causes.model import Finding, count_text, listed, us_text
from millrace.analysis.explain.observations import US_PER_S, Observed
from millrace.analysis.explain.plans import unlike_plans
from millrace.analysis.explain.time_breakdown import PARTS, PartKey

# Counters beside what moved say more than what moved alone, which weighs 1.
_PLAN, _OTHER_PLAN, _WORK, _COUNTED, _FUNCTIONS = 2.6, 1.8, 1.6, 1.3, 1.5

_MORE_ROWS = 1.1  # times as many, for other work to be suspected
_LEAST_ROWS = 0.5  # more in an operation: fewer are those of observers' statements
_COMPRESSION_COUNTERS = (
    "INNODB_CMP.compress_ops", "INNODB_CMP.uncompress_ops",
    "compress_pages_page_compressed", "compress_pages_page_decompressed",
    "Innodb_num_pages_page_compressed", "Innodb_num_pages_page_decompressed",
)  # fmt: skip
_ROWS_READ = ("Innodb_rows_read",)
_HANDLER_READS = (
    "Handler_read_first", "Handler_read_key", "Handler_read_last", "Handler_read_next",
    "Handler_read_prev", "Handler_read_rnd", "Handler_read_rnd_next",
)  # fmt: skip
_LOG_FLUSHES = ("Innodb_os_log_fsyncs",)
_SERVER: tuple[PartKey, ...] = (
    "runnable", "lock", "log_flush", "log_write", "fsync", "data_read", "data_write",
    "network_send", "sleep", "other", *CPU,
)  # fmt: skip

COMPRESSION, SPINNING = "compression", "spinning"


def plans(case: Case) -> Iterator[Finding]:
    """Statements that the two servers carry out in different ways."""
    different = [plan for plan in case.plans if plan.same is False]
    us = case.sum(_SERVER)
    if not different or us <= 0:
        return
    rows = _rows(case)
    more = rows is not None and _many_more(*rows)
    fewer = rows is not None and _many_more(*reversed(rows))
    evidence = [f"{plan.statement}: {each}" for plan in different for each in plan.different]
    read = ""
    if rows is not None:
        a, b = case.in_order(count_text(rows[0]), count_text(rows[1]))
        evidence.append(f"rows read per {case.noun}: {a} in A, {b} in B")
        read = f", and reads {a} rows for a {case.noun} in A and {b} in B" if more else ""
    names = listed([plan.statement for plan in different[:3]])
    told = different[0].different[0] if different[0].different else "see EXPLAIN"
    yield Finding(
        kind="plan",
        about="plan",
        clause=f"the plan of {names} is another one ({told}){read}",
        consequence=listed(case.moves(_SERVER)),
        us=us,
        weight=_PLAN if more else _OTHER_PLAN / 2 if fewer else _OTHER_PLAN,
        evidence=tuple(evidence),
    )


def work(case: Case) -> Iterator[Finding]:
    """Work that was not the same, and accounts for as much of the time as there was more of it."""
    if case.unequal:
        yield Finding(
            kind="work",
            about="unequal work",
            clause=case.unequal.removeprefix("unequal work: "),
            consequence="",
            us=min(_extra(case), 1.0) * case.size_us,
            weight=_WORK,
        )
    rows = _rows(case)
    if rows is None or not _many_more(*rows) or any(plan.same is False for plan in case.plans):
        return
    # A row costs no more than an operation of the better side.
    growth = (rows[1] - rows[0]) / max(rows[0], 1.0)
    us = min(case.sum(_SERVER), growth * case.better_us(_SERVER))
    if us > 0:
        a, b = case.in_order(count_text(rows[0]), count_text(rows[1]))
        yield Finding(
            kind="work",
            about="rows read",
            clause=f"the engine read {a} rows for a {case.noun} in A and {b} in B",
            consequence=listed(case.moves(_SERVER)),
            us=us,
            weight=_WORK,
        )


def cpu(case: Case) -> Iterator[Finding]:
    """CPU time by what it was used for, where a profile tells, and in sum, since no group of
    functions may have most of it; and the queue for CPUs that is longer than CPU time makes it."""
    named = {
        name: us for name, us in case.moved_groups.items() if name not in (COMPRESSION, SPINNING)
    }
    for name, us in named.items():
        yield Finding(
            kind="cpu",
            about=name,
            clause=f"functions for {case.title(name)} took {us_text(us)} {case.more} of CPU a "
            f"{case.noun}{case.and_queue(us)}",
            consequence="",
            us=case.with_queue(us),
            weight=1.0,
        )
    moved_us = case.sum(CPU)
    if moved_us > 0:
        yield Finding(
            kind="cpu",
            about="CPU time",
            clause=f"the server's threads were on a CPU {us_text(moved_us)} {case.more} a "
            f"{case.noun}{_of_cpu(case, moved_us)}{case.and_queue(moved_us)}",
            consequence="",
            us=case.with_queue(moved_us),
            weight=0.9,
            evidence=unlike_plans(case.plans),
        )
    queue_us = case.sum(["runnable"]) - case.queueing_us
    if queue_us > 0:
        yield Finding(
            kind="cpu",
            about="queue for CPUs",
            clause=f"threads were ready without a CPU {us_text(queue_us)} {case.more} a "
            f"{case.noun} than their own CPU time explains",
            consequence="",
            us=queue_us,
            weight=0.5,
        )


def _of_cpu(case: Case, moved_us: float) -> str:
    """Where the CPU time was spent that moved, as far as a profile tells."""
    where = "user code" if case.sum(["cpu_user"]) >= case.sum(["cpu_system"]) else "the kernel"
    if not case.groups:
        return f", most of it in {where}, and no profile tells in which functions"
    if not case.moved_groups:
        return f", most of it in {where}, and no group of functions stands out"
    largest = sorted(case.moved_groups.items(), key=lambda item: -item[1])[:3]
    named = [f"{us_text(us)} for {case.title(name)}" for name, us in largest]
    rest_us = moved_us - math.fsum(us for _, us in largest)
    rest = [f"{us_text(rest_us)} for all else"] if rest_us > 0 else []
    return f", most of it in {where} ({listed([*named, *rest])})"


def locks(case: Case) -> Iterator[Finding]:
    """Locks: of rows, by the server's own counters, or of its own structures."""
    lock_us = case.sum(["lock"])
    spinning_us = case.moved_groups.get(SPINNING, 0.0)
    row_lock = case.both(_row_lock_us)
    row_us = 0.0 if row_lock is None else row_lock[1] - row_lock[0]
    # Who waits for a row whose owner flushes the log is seen waiting for the flush.
    waited_us = min(row_us, case.sum(["lock", "log_flush", "fsync", "sleep", "other"]))
    if row_lock is not None and waited_us > 0 and row_us >= 0.2 * max(lock_us, 1e-9):
        a, b = case.in_order(*(us_text(us) for us in row_lock))
        counts = case.both(lambda side: side.counted("Innodb_row_lock_waits"))
        evidence = [f"Innodb_row_lock_time per {case.noun}: {a} in A, {b} in B"]
        if counts is not None:
            a_count, b_count = case.in_order(*(count_text(count) for count in counts))
            evidence.append(
                f"Innodb_row_lock_waits per {case.noun}: {a_count} in A, {b_count} in B"
            )
        yield Finding(
            kind="lock",
            about="row locks",
            clause=f"a {case.noun} waited {a} for row locks in A and {b} in B, by the server's own "
            f"count",
            consequence=listed(case.moves(["lock", "log_flush"])),
            us=max(waited_us, lock_us),
            weight=_COUNTED,
            evidence=tuple(evidence),
        )
    elif lock_us > 0:
        evidence = list(_instrumented(case, lock_us + spinning_us))
        yield Finding(
            kind="lock",
            about="mutexes",
            clause=f"threads waited {us_text(lock_us)} {case.more} a {case.noun} for each other "
            f"(futex), and not for rows",
            consequence=f"largest by the server's instruments: {evidence[0]}" if evidence else "",
            us=lock_us + spinning_us,
            weight=1.1,
            evidence=tuple(evidence[1:]),
        )
    if spinning_us > 0 and not lock_us:
        yield Finding(
            kind="lock",
            about="spinning",
            clause=f"loops that wait for a lock took {us_text(spinning_us)} {case.more} of CPU a "
            f"{case.noun}{case.and_queue(spinning_us)}",
            consequence="",
            us=case.with_queue(spinning_us),
            weight=1.1,
        )


def storage(case: Case) -> Iterator[Finding]:
    """Reads of data, flushes of the log, and other writing."""
    yield from _reads(case)
    yield from _flushes(case)
    others: tuple[tuple[PartKey, str], ...] = (
        ("log_write", "writes of the log"),
        ("fsync", "flushes of files"),
        ("data_write", "writes of data"),
    )
    for key, about in others:
        us = case.sum([key])
        if us:
            yield Finding(
                kind="storage",
                about=about,
                clause=f"threads of clients were {PARTS[key]} {us_text(us)} {case.more} "
                f"a {case.noun}",
                consequence="",
                us=us,
                weight=1.0,
            )


def _reads(case: Case) -> Iterator[Finding]:
    us = case.sum(["data_read"])
    if not us:
        return
    misses = case.both(lambda side: side.counted("Innodb_buffer_pool_reads"))
    grew = misses is not None and misses[1] > misses[0]
    clause = f"threads read data {us_text(us)} {case.more} a {case.noun}"
    evidence = []
    if misses is not None and grew:
        a, b = case.in_order(*(count_text(each) for each in misses))
        evidence.append(f"Innodb_buffer_pool_reads per {case.noun}: {a} in A, {b} in B")
        each_us = us / (misses[1] - misses[0])
        clause = (
            f"a {case.noun} missed the buffer pool {a} times in A and {b} in B, "
            f"at {us_text(each_us)} for each miss more"
        )
    read_us = case.worse.mean(_device_read_us)
    if read_us is not None:
        evidence.append(f"a read of the device took {us_text(read_us)} on average")
    yield Finding(
        kind="storage",
        about="reads of data",
        clause=clause,
        consequence=listed(case.moves(["data_read"])) if grew else "",
        us=us,
        weight=_COUNTED if grew else 1.0,
        evidence=tuple(evidence),
    )


def _flushes(case: Case) -> Iterator[Finding]:
    us = case.sum(["log_flush"])
    if not us:
        return
    flushes = case.both(lambda side: side.counted(*_LOG_FLUSHES))
    of_device = case.both(lambda side: side.mean(_device_flushes))
    evidence = []
    clause = f"threads waited {us_text(us)} {case.more} a {case.noun} for a log to be flushed"
    grew = any(both is not None and both[1] > both[0] for both in (flushes, of_device))
    if flushes is not None:
        a, b = case.in_order(*(count_text(each) for each in flushes))
        evidence.append(f"flushes of the redo log per {case.noun}: {a} in A, {b} in B")
    told = _predicted(case.worse)
    if told is not None:
        clause = f"{clause}; {told}"
    yield Finding(
        kind="storage",
        about="flushes of the log",
        clause=clause,
        consequence="",
        us=us,
        weight=_COUNTED if grew else 1.0,
        evidence=tuple(evidence),
    )


def _predicted(side: Side) -> str | None:
    """What the flushes of the device alone predict for a trial, set against what it took."""
    flushed = [
        (observed.disk.flushes, observed.disk.flush_s, observed.window_s)
        for trial in side.trials
        if (observed := trial.observed).disk is not None
        and observed.disk.flushes
        and observed.disk.flush_s
        and observed.window_s
    ]
    if not flushed:
        return None
    flushes = math.fsum(each[0] or 0 for each in flushed) / len(flushed)
    flush_s = math.fsum(each[1] or 0 for each in flushed) / len(flushed)
    window_s = math.fsum(each[2] or 0 for each in flushed) / len(flushed)
    each_us = us_text(US_PER_S * flush_s / flushes)
    told = f"{count_text(flushes)} flushes of the device at {each_us} each"
    if flush_s > window_s:
        return (
            f"{told} took {count_text(flush_s)} s, in sum over overlapping flushes, of a trial of "
            f"{count_text(window_s)} s"
        )
    return (
        f"{told} ({count_text(flushes / flush_s)}/s) predict {count_text(flush_s)} s of the "
        f"{count_text(window_s)} s it took"
    )


def client(case: Case) -> Iterator[Finding]:
    """The clients themselves and the way to them."""
    us = case.sum(["client_wire", "network_send"])
    if not us:
        return
    evidence = []
    cpu_us = case.both(lambda side: side.mean(lambda observed: observed.work.client_cpu_us))
    if cpu_us is not None:
        a, b = case.in_order(*(us_text(each) for each in cpu_us))
        evidence.append(f"CPU time of the load generator per {case.noun}: {a} in A, {b} in B")
    sent = case.both(lambda side: side.counted("Bytes_sent"))
    if sent is not None:
        a, b = case.in_order(*(count_text(each) for each in sent))
        evidence.append(f"bytes sent to clients per {case.noun}: {a} in A, {b} in B")
    yield Finding(
        kind="client",
        about="client and wire",
        clause=f"clients waited {us_text(us)} {case.more} a {case.noun} while the server had "
        f"nothing to do for them: in the client itself, or on the way to it",
        consequence="",
        us=us,
        weight=1.0,
        evidence=tuple(evidence),
    )


def compression(case: Case) -> Iterator[Finding]:
    """Pages that one side compresses, by the functions that took the time or by counters."""
    cpu_us = case.moved_groups.get(COMPRESSION, 0.0)
    pages = case.both(lambda side: side.counted(*_COMPRESSION_COUNTERS))
    grew = pages is not None and pages[1] > 1.5 * pages[0]
    if not cpu_us and not grew:
        return
    evidence = []
    clauses = []
    if cpu_us:
        clauses.append(
            f"functions that compress took {us_text(cpu_us)} {case.more} of CPU"
            f"{case.and_queue(cpu_us)}"
        )
    if pages is not None and grew:
        a, b = case.in_order(*(count_text(each) for each in pages))
        evidence.append(f"pages compressed and decompressed per {case.noun}: {a} in A, {b} in B")
        clauses.append(f"{a} pages were compressed or decompressed in A and {b} in B")
    io_us = case.sum(["data_read", "data_write", "lock"]) if grew else 0.0
    told_us = case.with_queue(cpu_us or case.sum(CPU)) + io_us
    yield Finding(
        kind="compression",
        about="compression",
        clause=f"for a {case.noun}, {listed(clauses)}",
        consequence=listed(case.moves([*CPU, "data_read", "data_write", "lock"])),
        us=told_us,
        weight=_FUNCTIONS,
        evidence=tuple(evidence),
    )


def _rows(case: Case) -> tuple[float, float] | None:
    """Rows that the engine read for an operation, on the better and on the worse side; by the
    handlers' count where InnoDB read none on either."""
    rows = case.both(lambda side: side.counted(*_ROWS_READ))
    if rows is None or not all(rows):
        rows = case.both(lambda side: side.counted(*_HANDLER_READS))
    return rows


def _many_more(few: float, many: float) -> bool:
    """Whether so many rows of an operation are more by what may matter."""
    return many > _MORE_ROWS * few and many - few >= _LEAST_ROWS


def _extra(case: Case) -> float:
    """How much more the worse side did or failed to do, as a fraction of what the other did, of how
    much longer it took, as a fraction of what the other took."""
    fractions = []
    for ask in (_failed, _rows_of_clients):
        better, worse = case.better.mean(ask), case.worse.mean(ask)
        if better is not None and worse is not None:
            fractions.append(max(worse - better, 0.0) / max(better, 1.0))
    return max(fractions, default=0.0) * case.better_latency_us / case.size_us


def _failed(observed: Observed) -> float | None:
    return observed.work.failed


def _rows_of_clients(observed: Observed) -> float | None:
    if observed.status is None:
        return None
    return observed.per_operation(
        math.fsum(observed.status.get(name, 0.0) for name in _HANDLER_READS)
    )


def _row_lock_us(side: Side) -> float | None:
    waited_ms = side.counted("Innodb_row_lock_time")
    return None if waited_ms is None else 1e3 * waited_ms


def _device_flushes(observed: Observed) -> float | None:
    flushes = None if observed.disk is None else observed.disk.flushes
    return None if flushes is None else observed.per_operation(flushes)


def _device_read_us(observed: Observed) -> float | None:
    disk = observed.disk
    return US_PER_S * disk.read_s / disk.reads if disk is not None and disk.reads else None


def _instrumented(case: Case, most_us: float) -> Iterator[str]:
    """The instrumented waits that grew most, of an operation, but for those that grew by more than
    ``most_us``: what is timed also runs while the thread has no CPU, and encloses other waits.
    Nothing where either side did not time its waits."""
    by_name: dict[str, list[float]] = {}
    timed = [
        [trial.observed for trial in side.trials if trial.observed.has_waits]
        for side in (case.better, case.worse)
    ]
    if not all(timed):
        return
    for measured, sign in zip(timed, (-1, 1), strict=True):
        for observed in measured:
            for event in observed.waits:
                name = str(event["name"])
                if name.startswith("wait/synch/"):
                    us = sign * observed.us(event["wait_s"]) / len(measured)
                    by_name.setdefault(name, []).append(us)
    sums = {name: math.fsum(values) for name, values in by_name.items()}
    grown = {name: us for name, us in sums.items() if us <= most_us}
    for name in sorted(grown, key=lambda name: -grown[name])[:3]:
        if grown[name] > 0:
            yield f"{name}, {us_text(grown[name])} {case.more}"
