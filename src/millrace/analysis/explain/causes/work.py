"""Likely causes in the work that was done: plans, rows read, unequal work."""

import math
from collections.abc import Iterator

from millrace.analysis.explain.breakdown_model import PartKey
from millrace.analysis.explain.causes.evidence import CPU, Evidence, SideEvidence
from millrace.analysis.explain.causes.model import Finding, count_text, listed, us_text
from millrace.analysis.explain.efficiency import pool_requests
from millrace.analysis.explain.observations import Observed

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
        kind="plan",
        about="plan",
        clause=f"the plan of {names} is another one ({first}){read}{took}",
        us=us,
        consequence=consequence,
        weight=_PLAN if more else _OTHER_PLAN / 2 if fewer or in_kernel else _OTHER_PLAN,
        evidence=tuple(details),
    )


def work(evidence: Evidence) -> Iterator[Finding]:
    """Yield unequal work, for as much of the time as there was more of it."""
    if evidence.unequal:
        clause = evidence.unequal.removeprefix("unequal work: ")
        us = min(_extra(evidence), 1.0) * evidence.size_us
        yield Finding(kind="work", about="unequal work", clause=clause, us=us, weight=_WORK)
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
        yield Finding(
            kind="work",
            about="rows read",
            clause=clause,
            us=us,
            consequence=consequence,
            weight=_WORK,
        )


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
            kind="work",
            about="pages read",
            clause=f"a {evidence.noun} asked the buffer pool for {a} pages in A and {b} in B{by}",
            us=us,
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
