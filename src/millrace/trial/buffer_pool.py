"""Are the tables in memory, and did the server read them from there?

Two questions, at two times. Before measuring, ``holding`` compares the tables' bytes with what the
buffer pool can hold and holds: a cached run must be warmed until its tables are in. After
measuring, ``judge`` looks at how often a page that was asked for had to be fetched
(Innodb_buffer_pool_reads a read request):

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

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.databases.mysql.client import ASK_LIMIT_S, count_of, oddities_as_errors
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances.lifecycle import Instance

Verdict = Literal["cached", "io_bound", "between", "any"]

CACHED_MISSES = 1e-4
IO_BOUND_MISSES = 5e-3

# Of the tables' bytes: pages that are empty, or of an index that is never read, need not be in.
_HELD_SHARE = 0.9

_POOLED = "innodb"
_COUNTERS = (
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_pages_data",
    "Innodb_buffer_pool_pages_total",
    "Innodb_page_size",
)


@dataclass(frozen=True)
class TableSize:
    """A table as the server accounts for it: data (the clustered index) and other indexes."""

    name: str
    engine: str
    data_bytes: int
    index_bytes: int


@dataclass(frozen=True)
class PoolStatus:
    """The buffer pool at a moment. The first two count since the server's start."""

    reads: int
    read_requests: int
    data_bytes: int
    total_bytes: int


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


def table_sizes(instance: Instance | AttachedInstance, database: str) -> tuple[TableSize, ...]:
    """The sizes of a database's tables by information_schema.

    Those of InnoDB are from its statistics: right to a few percent when the tables were analysed,
    or restored and opened, after they were loaded. Raises what pymysql raises.
    """
    with (
        oddities_as_errors(),
        contextlib.closing(instance.connect(limit_s=ASK_LIMIT_S)) as session,
        session.cursor() as cursor,
    ):
        # MySQL 8 answers from a copy that may be a day old, unless told not to.
        cursor.execute("SHOW VARIABLES LIKE 'information_schema_stats_expiry'")
        if cursor.fetchone() is not None:
            cursor.execute("SET SESSION information_schema_stats_expiry = 0")
        cursor.execute(
            "SELECT table_name, engine, data_length, index_length FROM information_schema.tables "
            "WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name",
            (database,),
        )
        return tuple(
            TableSize(str(name), str(engine), count_of(data or 0), count_of(index or 0))
            for name, engine, data, index in cursor.fetchall()
        )


def pool_status(instance: Instance | AttachedInstance) -> PoolStatus:
    """The buffer pool now. Raises TrialFailed when the server does not answer."""
    listed = ", ".join(f"'{name}'" for name in _COUNTERS)
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})"
    rows = instance.rows(sql, n_columns=2)
    found = {(name or ""): instance.count(sql, value or "0") for name, value in rows}
    return pool_status_in(found)


def pool_status_in(status: Mapping[str, int]) -> PoolStatus:
    """The buffer pool by a server's status variables; without InnoDB everything is 0."""
    reads, requests, data, total, page_size = (status.get(name, 0) for name in _COUNTERS)
    return PoolStatus(reads, requests, data * page_size, total * page_size)


def holding(tables: Sequence[TableSize], pool: PoolStatus) -> Holding:
    """Whether the buffer pool can hold, and holds, all of the tables with their indexes.

    The pool's data are also of other tables and of undo, which a fresh server has little of.
    """
    wanted = sum(table.data_bytes + table.index_bytes for table in tables if _is_pooled(table))
    if not any(map(_is_pooled, tables)):
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
    engines = sorted({table.engine for table in tables if not _is_pooled(table)})
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


def _is_pooled(table: TableSize) -> bool:
    return table.engine.lower() == _POOLED
