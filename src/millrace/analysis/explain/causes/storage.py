"""Likely causes in storage, and in the clients and the way to them."""

import math
from collections.abc import Iterator

from millrace.analysis.explain.breakdown_model import PARTS, PartKey
from millrace.analysis.explain.causes.evidence import Evidence, SideEvidence
from millrace.analysis.explain.causes.model import COUNTED, Finding, count_text, listed, us_text
from millrace.analysis.explain.observations import US_PER_S, Observed


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
            yield Finding(kind="storage", about=about, clause=clause, us=us)


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
        kind="storage",
        about="reads of data",
        clause=clause,
        us=us,
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
        kind="storage",
        about="flushes of the log",
        clause=clause,
        us=us,
        weight=weight,
        evidence=tuple(details),
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
    yield Finding(
        kind="client", about="client and wire", clause=clause, us=us, evidence=tuple(details)
    )


def _device_flushes(observed: Observed) -> float | None:
    flushes = None if observed.disk is None else observed.disk.flushes
    return None if flushes is None else observed.per_operation(flushes)


def _device_read_us(observed: Observed) -> float | None:
    disk = observed.disk
    if disk is None or not disk.reads or disk.read_s is None:
        return None
    return US_PER_S * disk.read_s / disk.reads
