"""Read status variables, the engine's metrics, and counts of compressed pages.

The server's counts include what millrace's own sessions cause: statements, and the rows, temporary
tables and bytes of their answers. Each of these sessions reports its own share, which is
subtracted. The session that reads the server's counters does so right before it, the other sessions
right after it. So what a session's two reports cost is in its share once, as in the server's
counters. Statements are counted outside of both readings, since that adds to the server's counters
alone.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.databases.client import Row, Session
from millrace.databases.deltas import Number, increases, number, split_gauges
from millrace.databases.monitoring import CounterDeltas, StatusDifference
from millrace.databases.mysql import query
from millrace.databases.mysql.query import Observable
from millrace.databases.mysql.status_variables import read_statement_counts, read_status
from millrace.errors import DatabaseError, Unavailable
from millrace.model.observations import CounterGrowth, Counters

# MySQL's names have at most 64 characters, and no server has 2,000 variables.
_MOST_CHARS = 128
_MOST_NAMES = 10_000

_SERVER = 0  # no session has this number
_STATEMENTS, _ALL_STATEMENTS = "Questions", "Queries"  # the second has no share of a session

_HANDLER_READS = (
    "Handler_read_first", "Handler_read_key", "Handler_read_last", "Handler_read_next",
    "Handler_read_prev", "Handler_read_rnd", "Handler_read_rnd_next",
)  # fmt: skip
_COMPRESSION = (
    "INNODB_CMP.compress_ops", "INNODB_CMP.uncompress_ops",
    "compress_pages_page_compressed", "compress_pages_page_decompressed",
    "Innodb_num_pages_page_compressed", "Innodb_num_pages_page_decompressed",
)  # fmt: skip
_BINARY_LOG = "binary_log_bytes"
_BINARY_LOG_ON = "SELECT @@GLOBAL.log_bin AS is_on"
# The position of the redo log: MariaDB's name, and MySQL's from 8.0.30; others have none.
_REDO_POSITION = ("Innodb_lsn_current", "Innodb_redo_log_current_lsn")


@dataclass(frozen=True)
class CounterReading:
    """A reading of the status variables and metrics that are numbers, by name.

    ``own`` has the share of each of millrace's sessions in the status variables, by its number.
    """

    status: Mapping[str, Number]
    metrics: Mapping[str, Number]
    own: Mapping[int, Mapping[str, Number]] = field(default_factory=dict)


class MysqlStatusCounters:
    """The counters of MySQL and MariaDB: see ``databases.monitoring.StatusCounters``."""

    def __init__(self, session: Session, observable: Observable, database: str) -> None:
        self._session = session
        self._observable = observable
        self._missing: list[Unavailable] = []
        self._metrics_sql = self._query_for("metrics", database, may_be_off=False)
        self._compression_sql = self._query_for("compression", database, may_be_off=True)
        self._binary_log_sql = self._query_for_binary_log()

    def _query_for(self, name: str, database: str, *, may_be_off: bool) -> str | None:
        """Return the query for a table's rows; None where it is missing or all is off."""
        table = self._observable.tables[name]
        try:
            sql = query.table_query(self._session, table, database).sql
            if not may_be_off:
                with query.understood(table.name):
                    require_values(table.name, self._session.rows(sql))
        except Unavailable as why:
            self._missing.append(why)
            return None
        return sql

    def _query_for_binary_log(self) -> str | None:
        """Return the query for the files of the binary log; None where it is off or hidden."""
        sql = "SHOW BINARY LOGS"
        try:
            with query.understood("the binary log"):
                (log,) = self._session.rows(_BINARY_LOG_ON)
                if not number(log["is_on"]):
                    return None
            self._session.rows(sql)
        except Unavailable as why:
            self._missing.append(why)
            return None
        except DatabaseError as error:
            hint = "GRANT REPLICATION CLIENT ON *.* to millrace's account"
            self._missing.append(Unavailable(f"the binary log: {error.message}", hint=hint))
            return None
        return sql

    def read(self, others: Sequence[Session], *, at_end: bool = False) -> CounterReading:
        statements = {} if at_end else self._statements(others)
        found = self._read(others)
        statements = self._statements(others) if at_end else statements
        own = {session: {**share, **statements[session]} for session, share in found.own.items()}
        return replace(found, status={**found.status, **statements[_SERVER]}, own=own)

    def _statements(self, others: Sequence[Session]) -> dict[int, dict[str, Number]]:
        """Return the counts of statements of the server, and of millrace's sessions by number."""
        with query.understood("the server's counters"):
            found = {_SERVER: numbers_in(read_statement_counts(self._session, "global"))}
            for session in (self._session, *others):
                found[session.id] = numbers_in(read_statement_counts(session, "session"))
            return found

    def _read(self, others: Sequence[Session]) -> CounterReading:
        def rows(sql: str | None) -> Sequence[Row]:
            return () if sql is None else self._session.rows(sql)

        with query.understood("the server's counters"):
            own = {self._session.id: self._share_of(self._session)}
            status = numbers_in(read_status(self._session, "global"))
            own |= {session.id: self._share_of(session) for session in others}
            metrics = metrics_in(rows(self._metrics_sql))
            counted = compression_in(rows(self._compression_sql))
            counted |= binary_log_in(rows(self._binary_log_sql))
            return CounterReading(status, metrics | counted, own)

    def _share_of(self, session: Session) -> dict[str, Number]:
        where = f"variable_name REGEXP '{self._observable.shared_status}'"
        return numbers_in(read_status(session, "session", where))

    def between(self, before: CounterReading, after: CounterReading) -> StatusDifference:
        return StatusDifference(deltas_of(before, after, self._observable), self._missing)


def metrics_in(rows: Iterable[Row]) -> dict[str, Number]:
    """Return the metrics that are on: MySQL says ``enabled``, MariaDB from 10.5 says 1."""
    shown = (row for row in rows if str(row["enabled"]) in ("enabled", "1"))
    return numbers_in((row["name"], row["count"]) for row in shown)


def numbers_in(values: Iterable[tuple[object, object]]) -> dict[str, Number]:
    """Return the values that are numbers and have a proper name."""
    found = {
        name: value
        for name, text in values
        if isinstance(name, str) and len(name) <= _MOST_CHARS
        if (value := number(text)) is not None
    }
    return dict(itertools.islice(found.items(), _MOST_NAMES))


def require_values(name: str, rows: Collection[Row]) -> None:
    """Raise Unavailable where no metric has a value."""
    if not rows:
        # MariaDB to 10.1 shows no rows to accounts that have no right to them.
        raise Unavailable(f"{name}: no row is shown", hint=query.PROCESS_RIGHT)
    if not metrics_in(rows):
        raise Unavailable(
            f"{name}: all metrics are off",
            hint="set innodb_monitor_enable = all in all configurations",
        )


def compression_in(rows: Iterable[Row]) -> dict[str, Number]:
    """Return (un)compressed pages of all sizes, and seconds: INNODB_CMP.compress_ops and so on."""
    found: dict[str, Number] = {}
    for row in rows:
        for name, value in row.items():
            found[f"INNODB_CMP.{name}"] = found.get(f"INNODB_CMP.{name}", 0) + (number(value) or 0)
    return found


def binary_log_in(rows: Iterable[Row]) -> dict[str, Number]:
    """Return the size of all files of the binary log; nothing where there are none."""
    sizes = [
        number(value) or 0
        for row in rows
        for name, value in row.items()
        if name.lower() == "file_size"
    ]
    return {_BINARY_LOG: sum(sizes)} if sizes else {}


def deltas_of(
    before: CounterReading, after: CounterReading, observable: Observable
) -> CounterDeltas:
    """Return the increases without millrace's own share, and the final gauges."""
    counted, gauges = split_gauges(after.status, observable.gauges)
    metrics_counted, metric_gauges = split_gauges(after.metrics, observable.metric_gauges)
    return CounterDeltas(
        deltas=_without(_own_share(before, after), increases(before.status, counted)),
        gauges=gauges,
        metrics=increases(before.metrics, metrics_counted),
        metric_gauges=metric_gauges,
    )


def _own_share(before: CounterReading, after: CounterReading) -> Mapping[str, Number]:
    """Sum what millrace's sessions caused between two readings; a new session began at 0."""
    share: dict[str, Number] = {}
    for session, counters in after.own.items():
        earlier = before.own.get(session, {})
        for name, value in counters.items():
            share[name] = share.get(name, 0) + value - earlier.get(name, 0)
    share[_ALL_STATEMENTS] = share.get(_STATEMENTS, 0)
    return share


def _without(own: Mapping[str, Number], deltas: Mapping[str, Number]) -> dict[str, Number]:
    """Subtract millrace's own share; leave out the counters that no other session changed."""
    less = {name: value - own.get(name, 0) for name, value in deltas.items()}
    return {name: value for name, value in less.items() if value > 0}


def neutral_counters(grown: Mapping[str, float]) -> Counters:
    """Name the growth of counters as all families do; one that is not in ``grown`` did not grow.

    ``Innodb_data_fsyncs`` counts each fsync of a file of the engine, those of the redo log among
    them, and ``Innodb_os_log_fsyncs`` counts these once more (compared with the system calls of
    MySQL 5.5 to 9.7 and MariaDB 10.1 to 11.8). ``Innodb_os_log_written`` counts a block of 512
    bytes as often as it is written, which is each commit's.
    """

    def count(*names: str, name: str = "", unit: float = 1.0) -> CounterGrowth:
        total = math.fsum(grown.get(each, 0.0) for each in names)
        return CounterGrowth(name=name or names[0], value=total / unit)

    # The server logs, but millrace lacks the right to see how much.
    is_hidden = grown.get("Binlog_cache_use", 0.0) > 0 and _BINARY_LOG not in grown
    redo = next((name for name in _REDO_POSITION if name in grown), None)
    every_read = [name for name in grown if name.startswith("Handler_read_")]
    return Counters(
        rows_read=count("Innodb_rows_read"),
        handler_reads=count(*_HANDLER_READS, name="Handler_read_*"),
        all_handler_reads=count(*every_read, name="Handler_read_*"),
        row_lock_waits=count("Innodb_row_lock_waits"),
        row_lock_s=count("Innodb_row_lock_time", unit=1e3),
        buffer_pool_misses=count("Innodb_buffer_pool_reads"),
        fsyncs=count("Innodb_data_fsyncs"),
        log_fsyncs=count("Innodb_os_log_fsyncs"),
        redo_bytes=None if redo is None else count(redo),
        log_written_bytes=count("Innodb_os_log_written"),
        binary_log_bytes=None if is_hidden else count(_BINARY_LOG, name="bytes of the binary log"),
        bytes_sent=count("Bytes_sent"),
        pages_compressed=count(*_COMPRESSION, name="pages compressed and decompressed"),
    )
