"""Likely causes in what the servers' threads did: CPU time, locks, compression."""

from __future__ import annotations

import math
from collections.abc import Iterator

from millrace.analysis.explain.causes.evidence import CPU, Evidence
from millrace.analysis.explain.causes.model import COUNTED, Finding, count_text, listed, us_text
from millrace.analysis.explain.plans import unlike_plans

_FUNCTIONS = 1.5  # the weight of functions that are known by name

COMPRESSION, SPINNING = "compression", "spinning"


def cpu(evidence: Evidence) -> Iterator[Finding]:
    """Yield CPU time by purpose, where there is a profile, and in sum; and the queue for CPUs.

    The sum is included because no group of functions may have most of it; the queue, where it grew
    by more than CPU time explains.
    """
    named = {
        name: us
        for name, us in evidence.moved_groups.items()
        if name not in (COMPRESSION, SPINNING)
    }
    for name, us in named.items():
        yield Finding(
            kind="cpu",
            about=name,
            clause=f"functions for {evidence.title(name)} took {us_text(us)} {evidence.more} of "
            f"CPU a {evidence.noun}{evidence.and_queue(us)}",
            consequence="",
            us=evidence.with_queue(us),
            weight=1.0,
        )
    moved_us = evidence.sum(CPU)
    if moved_us > 0:
        yield Finding(
            kind="cpu",
            about="CPU time",
            clause=f"the server's threads were on a CPU {us_text(moved_us)} {evidence.more} a "
            f"{evidence.noun}{_of_cpu(evidence, moved_us)}{evidence.and_queue(moved_us)}",
            consequence="",
            us=evidence.with_queue(moved_us),
            weight=0.9,
            evidence=unlike_plans(evidence.plans),
        )
    queue_us = evidence.sum(["runnable"]) - evidence.queueing_us
    if queue_us > 0:
        yield Finding(
            kind="cpu",
            about="queue for CPUs",
            clause=f"threads were ready without a CPU {us_text(queue_us)} {evidence.more} a "
            f"{evidence.noun} than their own CPU time explains",
            consequence="",
            us=queue_us,
            weight=0.5,
        )


def _of_cpu(evidence: Evidence, moved_us: float) -> str:
    """Name the code in which the moved CPU time was spent, as far as there is a profile."""
    where = (
        "user code" if evidence.sum(["cpu_user"]) >= evidence.sum(["cpu_system"]) else "the kernel"
    )
    if not evidence.groups:
        return f", most of it in {where}, and no profile tells in which functions"
    if not evidence.moved_groups:
        return f", most of it in {where}, and no group of functions stands out"
    largest = sorted(evidence.moved_groups.items(), key=lambda item: -item[1])[:3]
    named = [f"{us_text(us)} for {evidence.title(name)}" for name, us in largest]
    rest_us = moved_us - math.fsum(us for _, us in largest)
    rest = [f"{us_text(rest_us)} for all else"] if rest_us > 0 else []
    return f", most of it in {where} ({listed([*named, *rest])})"


def locks(evidence: Evidence) -> Iterator[Finding]:
    """Yield locks: of rows, by the server's own counters, or of its own structures."""
    lock_us = evidence.sum(["lock"])
    spinning_us = evidence.moved_groups.get(SPINNING, 0.0)
    row_lock_s = evidence.counts("row_lock_s")
    row_lock = None if row_lock_s is None else (1e6 * row_lock_s[0], 1e6 * row_lock_s[1])
    row_us = 0.0 if row_lock is None else row_lock[1] - row_lock[0]
    # Who waits for a row whose owner flushes the log is seen waiting for the flush.
    waited_us = min(row_us, evidence.sum(["lock", "log_flush", "fsync", "sleep", "other"]))
    if row_lock is not None and waited_us > 0 and row_us >= 0.2 * max(lock_us, 1e-9):
        a, b = evidence.in_order(*(us_text(us) for us in row_lock))
        counts, own_name = evidence.counts("row_lock_waits"), evidence.worse.counter_name
        details = [evidence.per_operation(own_name("row_lock_s"), row_lock, us_text)]
        if counts is not None:
            details.append(evidence.per_operation(own_name("row_lock_waits"), counts, count_text))
        yield Finding(
            kind="lock",
            about="row locks",
            clause=f"a {evidence.noun} waited {a} for row locks in A and {b} in B, by the server's "
            f"own count",
            consequence=listed(evidence.moves(["lock", "log_flush"])),
            us=max(waited_us, lock_us),
            weight=COUNTED,
            evidence=tuple(details),
        )
    elif lock_us > 0:
        details = list(_instrumented(evidence, lock_us + spinning_us))
        yield Finding(
            kind="lock",
            about="mutexes",
            clause=f"threads waited {us_text(lock_us)} {evidence.more} a {evidence.noun} for each "
            f"other (futex), and not for rows",
            consequence=f"largest by the server's instruments: {details[0]}" if details else "",
            us=lock_us + spinning_us,
            weight=1.1,
            evidence=tuple(details[1:]),
        )
    if spinning_us > 0 and not lock_us:
        yield Finding(
            kind="lock",
            about="spinning",
            clause=f"loops that wait for a lock took {us_text(spinning_us)} {evidence.more} of CPU "
            f"a {evidence.noun}{evidence.and_queue(spinning_us)}",
            consequence="",
            us=evidence.with_queue(spinning_us),
            weight=1.1,
        )


def compression(evidence: Evidence) -> Iterator[Finding]:
    """Yield pages that one side compresses, by the functions that took the time or by counters."""
    cpu_us = evidence.moved_groups.get(COMPRESSION, 0.0)
    pages = evidence.counts("pages_compressed")
    grew = pages is not None and pages[1] > 1.5 * pages[0]
    if not cpu_us and not grew:
        return
    details = []
    clauses = []
    if cpu_us:
        clauses.append(
            f"functions that compress took {us_text(cpu_us)} {evidence.more} of CPU"
            f"{evidence.and_queue(cpu_us)}"
        )
    if pages is not None and grew:
        a, b = evidence.in_order(*(count_text(each) for each in pages))
        details.append(
            evidence.per_operation("pages compressed and decompressed", pages, count_text)
        )
        clauses.append(f"{a} pages were compressed or decompressed in A and {b} in B")
    io_us = evidence.sum(["data_read", "data_write", "lock"]) if grew else 0.0
    told_us = evidence.with_queue(cpu_us or evidence.sum(CPU)) + io_us
    yield Finding(
        kind="compression",
        about="compression",
        clause=f"for a {evidence.noun}, {listed(clauses)}",
        consequence=listed(evidence.moves([*CPU, "data_read", "data_write", "lock"])),
        us=told_us,
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
