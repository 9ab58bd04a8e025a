"""Likely causes in what the servers' threads did: CPU time, locks, compression."""

import math
from collections.abc import Iterator

from millrace.analysis.explain.causes.evidence import CPU, Evidence
from millrace.analysis.explain.causes.model import COUNTED, Finding, count_text, listed, us_text
from millrace.analysis.explain.plans import unlike_plans

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
            yield Finding(kind="cpu", about=name, clause=clause, us=evidence.with_queue(us))
    grown_us = evidence.growth_of(CPU)
    if grown_us > 0:
        clause = f"the server's threads were on a CPU {us_text(grown_us)} {more} a {noun}"
        clause += f"{_of_cpu(evidence, grown_us)}{evidence.and_queue(grown_us)}"
        us, plans = evidence.with_queue(grown_us), unlike_plans(evidence.plans)
        yield Finding(
            kind="cpu", about="CPU time", clause=clause, us=us, weight=0.9, evidence=plans
        )
    queue_us = evidence.growth_of(["runnable"]) - evidence.queue_growth_us
    if queue_us > 0:
        clause = f"threads were ready without a CPU {us_text(queue_us)} {more} a {noun} than their "
        clause += "own CPU time explains"
        yield Finding(kind="cpu", about=QUEUE, clause=clause, us=queue_us, weight=0.5)


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
            kind="lock",
            about="row locks",
            clause=f"a {noun} waited {a} for row locks in A and {b} in B, by the server's own "
            "count",
            us=max(waited_us, lock_us),
            consequence=listed(evidence.growth_texts(["lock", "log_flush"])),
            weight=COUNTED,
            evidence=tuple(details),
        )
    elif lock_us > 0:
        details = list(_instrumented(evidence, lock_us + spinning_us))
        yield Finding(
            kind="lock",
            about="mutexes",
            clause=f"threads waited {us_text(lock_us)} {more} a {noun} for each other (futex), and "
            "not for rows",
            us=lock_us + spinning_us,
            consequence=f"largest by the server's instruments: {details[0]}" if details else "",
            weight=_LOCK,
            evidence=tuple(details[1:]),
        )
    if spinning_us > 0 and not lock_us:
        clause = f"loops that wait for a lock took {us_text(spinning_us)} {more} of CPU a {noun}"
        clause += evidence.and_queue(spinning_us)
        yield Finding(
            kind="lock",
            about="spinning",
            clause=clause,
            us=evidence.with_queue(spinning_us),
            weight=_LOCK,
        )


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
        kind="compression",
        about="compression",
        clause=f"for a {evidence.noun}, {listed(clauses)}",
        us=evidence.with_queue(cpu_us or evidence.growth_of(CPU)) + io_us,
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
