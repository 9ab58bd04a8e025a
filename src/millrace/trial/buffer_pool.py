"""Are the tables in memory, and did the server read them from there?

Two questions, at two times. Before measuring, ``holding`` compares the tables' bytes with what the
buffer pool can hold and holds: a cached run must be warmed until its tables are in. After
measuring, ``judge`` looks at how often a page that was asked for had to be fetched
(reads a read request):

cached    at most 1 request in 10,000. A statement on one row asks for 3 pages (a lookup) to 40 (an
          update of an indexed column), so at most one in 250 waits; at 100 µs a fetch that is
          0.4 µs of the 100 µs or more that such an update takes, below any margin.
io_bound  at least 1 request in 200. The upper levels of an index are always in memory, so a lookup
          of 4 pages that misses its leaf each time has 1 in 4, and an update less: with all that
          purge asks for, down to 1 in 60 (MySQL 5.6), and 1 in 120 where half of the table is in
          memory. 1 in 200 is a fetch in every 50th lookup or every third to fifteenth update.
between   anything else: a bit of both, whose results depend on the size of the memory.

Read-ahead does not count as a miss: its pages are there before they are asked for. A fetch may be
served by the page cache of the operating system where the server does not use direct I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.databases.base import PoolStatus, TableSize

Verdict = Literal["cached", "io_bound", "between", "any"]

CACHED_MISSES = 1e-4
IO_BOUND_MISSES = 5e-3

# Of the tables' bytes: pages that are empty, or of an index that is never read, need not be in.
_HELD_SHARE = 0.9


@dataclass(frozen=True)
class Holding:
    """Whether the buffer pool holds tables; None where they do not go through it.

    ``can`` tells whether it is large enough; ``does`` whether as much as they take is in it.
    """

    table_bytes: int
    pool_bytes: int
    pool_data_bytes: int
    can: bool | None
    does: bool | None


@dataclass(frozen=True)
class Residency:
    """How a measurement read its tables. ``misses`` is fetches per read request, None where there
    were none; ``why`` is a sentence with the figures."""

    verdict: Verdict
    reads: int
    read_requests: int
    misses: float | None
    why: str


def holding(tables: Sequence[TableSize], pool: PoolStatus) -> Holding:
    """Whether the buffer pool can hold, and holds, all of the tables with their indexes.

    The pool's data are also of other tables and of undo, which a fresh server has little of.
    """
    wanted = sum(table.data_bytes + table.index_bytes for table in tables if table.is_pooled)
    if not any(table.is_pooled for table in tables):
        return Holding(0, pool.total_bytes, pool.data_bytes, None, None)
    return Holding(
        table_bytes=wanted,
        pool_bytes=pool.total_bytes,
        pool_data_bytes=pool.data_bytes,
        can=wanted <= pool.total_bytes,
        does=pool.data_bytes >= wanted * _HELD_SHARE,
    )


def judge(tables: Sequence[TableSize], before: PoolStatus, after: PoolStatus) -> Residency:
    """How the tables were read between two moments of the same server."""
    reads = after.reads - before.reads
    requests = after.read_requests - before.read_requests
    engines = sorted({table.engine for table in tables if not table.is_pooled})
    if engines:
        where = " and ".join(engines)
        return Residency(
            "any", reads, requests, None, f"tables of {where} do not go through the buffer pool"
        )
    if requests <= 0:
        return Residency("any", reads, requests, None, "no page was asked for")
    misses = reads / requests
    what = f"{reads:,} of {requests:,} pages asked for were fetched"
    if misses <= CACHED_MISSES:
        return Residency("cached", reads, requests, misses, f"{what}: from memory")
    if misses >= IO_BOUND_MISSES:
        return Residency("io_bound", reads, requests, misses, f"{what}: bound by I/O")
    between = f"{what}: more than 1 in {1 / CACHED_MISSES:,.0f}, less than 1 in "
    return Residency(
        "between", reads, requests, misses, f"{between}{1 / IO_BOUND_MISSES:,.0f}: a bit of both"
    )
