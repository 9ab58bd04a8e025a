"""Decide whether tables are in memory, and whether the server read them from there.

Before measuring, ``occupancy`` compares the tables' bytes with what the buffer pool can hold and
holds: a cached run must be warmed until its tables are in, or until reading them whole reads
nothing: tables with holes have pages that nobody reads. After measuring, ``cache_mode`` looks at
the share of page requests that needed a read:

cached    at most 1 request in 10,000. A statement on one row requests 3 pages (a lookup) to 40 (an
          update of an indexed column), so at most one in 250 waits; at 100 µs a read that is
          0.4 µs of the 100 µs or more that such an update takes, below any margin. Or 10 requests
          in all, such as for the first pages of undo: a millisecond.
io_bound  at least 1 request in 200. The upper levels of an index are always in memory, so a lookup
          of 4 pages that misses its leaf each time has 1 in 4, and an update less: with all that
          purge requests, down to 1 in 60, and 1 in 120 where half of the table is in
          memory. 1 in 200 is a read in every 50th lookup or every third to fifteenth update.
between   anything else: a bit of both, whose results depend on the size of the memory.

Read-ahead does not miss: its pages are there before they are requested. The page cache of the
operating system may serve a read where the server does not use direct I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.databases.base import PoolStatus, TableSize
from millrace.errors import TrialFailed
from millrace.quantities import readable_size

Mode = Literal["cached", "io_bound", "between", "any"]

CACHED_MISSES = 1e-4
CACHED_READS = 10
IO_BOUND_MISSES = 5e-3

# Of the tables' bytes: empty pages, and those of an index that nobody reads, need not be in memory.
_RESIDENT_SHARE = 0.9


@dataclass(frozen=True)
class Occupancy:
    """The tables' share of the buffer pool; both flags are None where it is not used."""

    table_bytes: int
    pool_bytes: int
    pool_data_bytes: int
    can_fit: bool | None  # the pool is large enough
    is_resident: bool | None  # it contains as many bytes as the tables take, or all that is read

    def __str__(self) -> str:
        return (
            f"the tables take {readable_size(self.table_bytes)} and the buffer pool has "
            f"{readable_size(self.pool_bytes)}"
        )


@dataclass(frozen=True)
class CacheMode:
    """The origin of the pages that were read."""

    mode: Mode
    reason: str


def occupancy(
    tables: Sequence[TableSize], pool: PoolStatus, *, last_pass_reads: int | None = None
) -> Occupancy:
    """Return the occupancy by all of the tables with their indexes.

    ``last_pass_reads`` are the pages read in the last pass over all of them.
    """
    needed = sum(table.data_bytes + table.index_bytes for table in tables if table.is_pooled)
    # The pool's data also belong to other tables and to undo: little, in a fresh server.
    if not any(table.is_pooled for table in tables):
        return Occupancy(0, pool.total_bytes, pool.data_bytes, None, None)
    return Occupancy(
        table_bytes=needed,
        pool_bytes=pool.total_bytes,
        pool_data_bytes=pool.data_bytes,
        can_fit=needed <= pool.total_bytes,
        is_resident=pool.data_bytes >= needed * _RESIDENT_SHARE
        or (last_pass_reads is not None and last_pass_reads <= CACHED_READS),
    )


def cache_mode(tables: Sequence[TableSize], before: PoolStatus, after: PoolStatus) -> CacheMode:
    """Return how the server read the tables between two states of its buffer pool."""
    reads = after.reads - before.reads
    requests = after.read_requests - before.read_requests
    engines = sorted({table.engine for table in tables if not table.is_pooled})
    if engines:
        where = " and ".join(engines)
        return CacheMode("any", f"tables of {where} do not go through the buffer pool")
    if requests <= 0:
        return CacheMode("any", "no page was requested")
    misses = reads / requests
    share = f"{reads:,} of {requests:,} requested pages were read"
    if misses <= CACHED_MISSES or reads <= CACHED_READS:
        return CacheMode("cached", f"{share}: from memory")
    if misses >= IO_BOUND_MISSES:
        return CacheMode("io_bound", f"{share}: bound by I/O")
    limits = f"more than 1 in {1 / CACHED_MISSES:,.0f}, less than 1 in {1 / IO_BOUND_MISSES:,.0f}"
    return CacheMode("between", f"{share}: {limits}: a bit of both")


def require_fit(requested: Mode, found: Occupancy, pool_option: str, *, passes: int) -> None:
    """Raise TrialFailed where the tables, read ``passes`` times, do not fit as ``requested``."""
    if requested == "cached" and found.can_fit is False:
        raise _refused(requested, f"the run must be cached, but {found}", pool_option)
    if requested == "cached" and found.is_resident is False:
        resident = readable_size(found.pool_data_bytes)
        raise _refused(
            requested,
            f"the run must be cached, but after {passes} passes only {resident} are in memory: "
            f"{found}",
            pool_option,
        )
    if requested == "io_bound" and found.can_fit is True:
        raise _refused(requested, f"the run must be I/O-bound, but {found}", pool_option)


def require_mode(requested: Mode, found: CacheMode, pool_option: str) -> None:
    """Raise TrialFailed where the server did not read the tables as ``requested``."""
    if requested not in ("any", found.mode) and found.mode != "any":
        title = {"cached": "cached", "io_bound": "I/O-bound"}[requested]
        raise _refused(requested, f"the run had to be {title}, but {found.reason}", pool_option)


def _refused(requested: Mode, message: str, pool_option: str) -> TrialFailed:
    size, rows = ("higher", "fewer") if requested == "cached" else ("lower", "more")
    return TrialFailed(message, hint=f"set {pool_option} {size}, or load {rows} rows")
