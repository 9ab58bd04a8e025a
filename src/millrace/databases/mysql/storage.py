"""Read the work that InnoDB has put off, and the content of its buffer pool.

Pending work is in the text of SHOW ENGINE INNODB STATUS (0.2 to 0.4 ms where nobody else asks),
which all versions have. A server is settled when two samples at least a second apart show that:

* at most a few pages are dirty
* purge has reached the newest transaction or reports that it is idle
* the log's position has not moved
* the change buffer is empty, or has kept its size for longer than any version's cycle of background
  work (MariaDB from 10.5 merges only pages that are read)

The length of the history list alone does not show it: newer versions shorten it once in 128
batches, so an idle server keeps some. Nor does the newest transaction where the list is all but
empty: numbers jump at a restart, and 5.5 stays behind. Purge that matters writes the log and moves
its position.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from millrace.databases.base import PendingSample, PoolStatus, StorageState
from millrace.databases.client import QUERY_LIMIT_S, DatabaseClient, Session, count_of
from millrace.databases.mysql.administration import global_variables
from millrace.databases.mysql.client import oddities_as_errors, own_session
from millrace.databases.mysql.status_variables import read_status
from millrace.errors import DatabaseError, MillraceError, TrialFailed
from millrace.model.instance_facts import ServerStateFact, TableStatistics
from millrace.model.steady_limits import SteadyLimits
from millrace.workloads.tables import Volume

_Row = tuple[Any, ...]
_Found = TypeVar("_Found")

# The adaptive hash index has a page after reads of a sixteenth of its rows.
_READS_OF_A_PAGE = 14
_PAGE_BYTES = 16 << 10

_STILL_S = 1.0
_FEW_PAGES = 16  # a server's own statistics dirty a few now and then
_FEW_LOGS = 16  # undo logs of its own transactions
_EMPTY_CHANGE_BUFFER_PAGES = 1  # its root page
_CYCLE_S = 12.0  # above the slowest cycle of background work: 10 s in MySQL 5.5

# Of a row: header, transaction and roll pointers; of pages: filled to 15/16.
_ROW_OVERHEAD_BYTES = 30
_PAGE_FILL = 15 / 16
# A secondary index entry with its primary key, in pages filled by random inserts or sorted builds.
_INDEX_ENTRY_BYTES = 25

# The pending work by which the steady state is checked.
_OF_STATE = ("dirty_pages", "history", "log_position", "checkpoint")

# The pool's status variables by millrace's names. Pages that are read ahead are fetched too.
_POOL = {
    "pool_pages": ("Innodb_buffer_pool_pages_total",),
    "pool_data_pages": ("Innodb_buffer_pool_pages_data",),
    "pool_free_pages": ("Innodb_buffer_pool_pages_free",),
    "pages_asked_for": ("Innodb_buffer_pool_read_requests",),
    "pages_fetched": ("Innodb_buffer_pool_reads", "Innodb_buffer_pool_read_ahead"),
}
_POOL_STATUS = (
    "Innodb_buffer_pool_reads", "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_read_ahead", "Innodb_buffer_pool_pages_data",
    "Innodb_buffer_pool_pages_total", "Innodb_pages_created", "Innodb_page_size",
)  # fmt: skip

# MySQL from 8.0.30; the size of others' files is among their settings (``limits``).
# MariaDB's Innodb_checkpoint_max_age is not a size: it is about 80 % of it, where writers wait.
_LOG_CAPACITY_SQL = "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_capacity_resized'"

_LIMITS = SteadyLimits(
    # Purge shortens its list once in 128 batches of 300 undo logs, by default
    # (innodb_purge_rseg_truncate_frequency, innodb_purge_batch_size).
    purge_cycle=128 * 300,
    write_sooner="innodb_io_capacity, innodb_max_dirty_pages_pct_lwm",
    smaller_log="innodb_redo_log_capacity, innodb_log_file_size",
    purge_faster="innodb_purge_threads",
    keep_statistics="innodb_stats_auto_recalc = OFF",
    keep_plans="innodb_stats_persistent = ON, innodb_stats_auto_recalc = OFF",
)

_LARGEST_AGE_S = 1e10  # three centuries

# MySQL from 5.6 and MariaDB from 10.0 have the table. Both times are of the server's own clock.
_STATISTICS_SQL = (
    "SELECT table_name, UNIX_TIMESTAMP() - UNIX_TIMESTAMP(last_update), n_rows "
    "FROM mysql.innodb_table_stats WHERE database_name = %s"
)
_COUNTERS = "variable_name LIKE 'Innodb_buffer_pool_%'"
# A collation of a column of text, for each table.
_COLLATIONS_SQL = (
    "SELECT DISTINCT table_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = %s AND collation_name IS NOT NULL ORDER BY 1, 2"
)


@dataclass(frozen=True)
class PendingWork:
    """The work that a server has put off; None where its version does not report it."""

    dirty_pages: int | None = None
    history: int | None = None  # undo logs that purge has not removed yet
    change_buffer_pages: int | None = None
    log_position: int | None = None
    purged: bool | None = None
    checkpoint: int | None = None  # the position to which all pages are written back


@dataclass(frozen=True)
class FlushOverride:
    """A variable that hastens writing at a bound; one of ``at_least``, ``at_most`` is None."""

    variable: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class InnodbStorage:
    """The storage engine of a family: see ``databases.base.Storage``."""

    query: str  # its last column is a text
    figures: Mapping[str, re.Pattern[str]]  # of that text, with one group
    overrides: tuple[FlushOverride, ...]  # reverted in reverse order
    engine: str = "InnoDB"
    pool_option: str = "innodb_buffer_pool_size"
    default_pool_bytes: int = 128 << 20

    def table_bytes(self, volume: Volume) -> int:
        indexes_bytes = volume.index_entries * _INDEX_ENTRY_BYTES
        rows_bytes = volume.data_bytes + volume.rows * _ROW_OVERHEAD_BYTES
        return int((rows_bytes + indexes_bytes) / _PAGE_FILL)

    def pool_status(self, client: DatabaseClient) -> PoolStatus:
        listed = ", ".join(f"'{name}'" for name in _POOL_STATUS)
        sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})"
        rows = client.rows(sql, n_columns=2)
        return pool_status_in(
            {(name or ""): client.count(sql, value or "0") for name, value in rows}
        )

    def read_state(self, session: Session) -> StorageState:
        with oddities_as_errors():
            status = {
                name: count_of(value)
                for name, value in read_status(session, "global", _COUNTERS)
                if str(value).isdecimal()
            }
        return StorageState(
            pool_status_in(status), {**pool_figures(status), **self._pending_state(session)}
        )

    def _pending_state(self, session: Session) -> dict[str, int]:
        try:
            with oddities_as_errors():
                rows = session.query(self.query)
                pending = asdict(self.parse(str(rows[0][-1]) if rows else ""))
        except DatabaseError:
            return {}
        return {name: pending[name] for name in _OF_STATE if pending[name] is not None}

    def state_afterwards(self, client: DatabaseClient, database: str) -> ServerStateFact:
        found = {
            "log_capacity_bytes": _log_capacity_bytes(client),
            "statistics": _statistics(client, database),
            "collations": _collations(client, database),
        }
        known = {name: value for name, value in found.items() if value is not None}
        return ServerStateFact.model_validate(known)

    def limits(self, settings: Mapping[str, str]) -> SteadyLimits:
        dirty_percent = _number(settings, "innodb_max_dirty_pages_pct")
        file_bytes = _number(settings, "innodb_log_file_size")
        n_files = _number(settings, "innodb_log_files_in_group", otherwise=1)
        limits = _LIMITS if not dirty_percent else replace(_LIMITS, dirty_share=dirty_percent / 100)
        if file_bytes is None or n_files is None:
            return limits
        return replace(limits, log_bytes=file_bytes * n_files)

    def adaptive_index_reads(self, data_bytes: int, settings: Mapping[str, str]) -> int:
        if settings.get("innodb_adaptive_hash_index") != "ON":
            return 0
        return math.ceil(_READS_OF_A_PAGE * data_bytes / _PAGE_BYTES)

    def pending(self, client: DatabaseClient) -> PendingWork:
        rows = client.query(self.query, limit_s=QUERY_LIMIT_S)
        text = rows[0][-1] if rows and rows[0] else None
        try:
            return self.parse(text or "")
        except ValueError as error:
            raise TrialFailed(
                f"{client.server.name}: {self.query}: cannot understand the answer: {error}"
            ) from error

    def unsettled(self, samples: Sequence[PendingSample]) -> tuple[str, ...]:
        last = samples[-1]
        now = last.work
        assert isinstance(now, PendingWork)  # of this family: see PendingSample
        earlier = [sample for sample in samples if sample.at_s <= last.at_s - _STILL_S]
        if not earlier:
            return ("it was not watched for long enough",)
        since: PendingWork = earlier[-1].work
        going_on = []
        if now.dirty_pages is not None and now.dirty_pages > _FEW_PAGES:
            going_on.append(f"{now.dirty_pages} pages are dirty")
        if any(_purges(figures) for figures in (since, now)):
            going_on.append(f"purge goes on, with a history of {now.history}")
        if now.log_position != since.log_position:
            going_on.append("the log is written to")
        if _merges(samples):
            going_on.append(f"the change buffer has {now.change_buffer_pages} pages")
        return tuple(going_on)

    @contextlib.contextmanager
    def forced_flushing(self, client: DatabaseClient) -> Iterator[Mapping[str, str]]:
        before: dict[str, str] = {}
        try:
            if client.is_managed:
                settings = global_variables(client)
                for override in self.overrides:
                    value = settings.get(override.variable)
                    wanted = None if value is None else _beyond(override, value)
                    if value is not None and wanted is not None:
                        before[override.variable] = value
                        _set(client, override.variable, str(wanted))
            yield before
        finally:
            for variable, value in reversed(before.items()):
                _set(client, variable, value)

    def parse(self, text: str) -> PendingWork:
        """Return the pending work in an answer to ``query``. Raise ValueError beyond 64 bits."""
        found = {
            name: matched[1]
            for name, pattern in self.figures.items()
            if (matched := pattern.search(text)) is not None
        }

        def number(name: str) -> int | None:
            return count_of(found[name]) if name in found else None

        purged_to, transactions_to = found.get("purged_to"), found.get("transactions_to")
        return PendingWork(
            dirty_pages=number("dirty_pages"),
            history=number("history"),
            change_buffer_pages=number("change_buffer_pages"),
            log_position=number("log_position"),
            checkpoint=number("checkpoint"),
            # Transaction numbers are compared as text, because 5.5 writes them in hexadecimal.
            purged=None
            if purged_to is None or transactions_to is None
            else purged_to == transactions_to or "purge_idle" in found,
        )


def _purges(figures: PendingWork) -> bool:
    """Return whether purge is known to be more than a few transactions behind."""
    many = figures.history is None or figures.history > _FEW_LOGS
    return figures.purged is False and many


def _merges(samples: Sequence[PendingSample]) -> bool:
    last = samples[-1]
    pages = last.work.change_buffer_pages
    if pages is None or pages <= _EMPTY_CHANGE_BUFFER_PAGES:
        return False
    cycle = [sample.work for sample in samples if sample.at_s >= last.at_s - _CYCLE_S]
    watched = samples[0].at_s <= last.at_s - _CYCLE_S
    return not watched or any(figures.change_buffer_pages != pages for figures in cycle)


def pool_status_in(status: Mapping[str, int]) -> PoolStatus:
    """Return the buffer pool by a server's status variables; all fields are 0 without InnoDB."""
    reads, requests, ahead, *pages, page_size = (status.get(name, 0) for name in _POOL_STATUS)
    data, total, created = (each * page_size for each in pages)
    return PoolStatus(reads, requests, data, total, created, ahead)


def pool_figures(status: Mapping[str, int]) -> dict[str, int]:
    """Return the buffer pool's figures, leaving out those that lack a status variable."""
    return {
        name: sum(status[variable] for variable in variables)
        for name, variables in _POOL.items()
        if all(variable in status for variable in variables)
    }


def _log_capacity_bytes(client: DatabaseClient) -> int | None:
    with contextlib.suppress(MillraceError, ValueError):
        for _, value in client.rows(_LOG_CAPACITY_SQL, n_columns=2):
            return count_of(value) or None
    return None


def _statistics(client: DatabaseClient, database: str) -> dict[str, TableStatistics] | None:
    return _read(
        client,
        _STATISTICS_SQL,
        database,
        lambda rows: {
            str(table): TableStatistics(age_s=_age_s(age_s), rows=count_of(n_rows))
            for table, age_s, n_rows in rows
        },
    )


def _collations(client: DatabaseClient, database: str) -> dict[str, list[str]] | None:
    def by_table(rows: Sequence[_Row]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for table, collation in rows:
            found.setdefault(str(table), []).append(str(collation))
        return found

    return _read(client, _COLLATIONS_SQL, database, by_table)


def _read(
    client: DatabaseClient, sql: str, database: str, parse: Callable[[Sequence[_Row]], _Found]
) -> _Found | None:
    """Return what a query about a database says; None where it fails or is not understood."""
    try:
        with own_session(client) as session:
            return parse(session.query(sql, database))
    except MillraceError:
        return None


def _number(
    settings: Mapping[str, str], name: str, *, otherwise: float | None = None
) -> float | None:
    """Return a setting that is a number, and ``otherwise`` where the server does not have it."""
    try:
        return float(settings[name]) if name in settings else otherwise
    except ValueError:
        return None


def _age_s(value: object) -> float:
    """Return the age of statistics in seconds. Raise ValueError for an implausible one."""
    age_s = float(str(value))
    if not abs(age_s) < _LARGEST_AGE_S:
        raise ValueError(f"{age_s} seconds is not an age")
    return age_s


def _set(client: DatabaseClient, variable: str, value: str) -> None:
    client.query(f"SET GLOBAL {variable} = {value}", limit_s=QUERY_LIMIT_S)


def _beyond(override: FlushOverride, value: str) -> float | None:
    """Return the value to set the variable to; None where it suffices or is not a number."""
    try:
        now = float(value)
    except ValueError:
        return None
    if override.at_least is not None and now < override.at_least:
        return override.at_least
    if override.at_most is not None and now > override.at_most:
        return override.at_most
    return None
