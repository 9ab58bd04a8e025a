"""Attach replicas of the mysqld line by their binary logs: see ``databases.replication``.

The statements' words depend on the version: they are data of the family, by the first version that
has them. Answers are read under their oldest names (``Exec_Master_Log_Pos``). Both servers are
empty or equal when the replica is attached, so it follows the source from the beginning of its log.
"""

# ruff: noqa: S608 - names are our own or quoted

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from millrace.databases.base import version_key
from millrace.databases.client import DatabaseClient, Row, Session, count_of
from millrace.databases.mysql import table_samples
from millrace.databases.mysql.administration import global_variables
from millrace.databases.mysql.client import oddities_as_errors
from millrace.databases.mysql.query import Data
from millrace.databases.replication import (
    Checksums,
    Gtid,
    LogEnd,
    LogFormat,
    LogProgress,
    SourceAddress,
)
from millrace.databases.table_checks import read
from millrace.errors import DatabaseError, TrialFailed
from millrace.levels import Level
from millrace.model.roles import SOURCE
from millrace.model.servers import InstalledServer, Server
from millrace.shown_text import shown_line

_HEARTBEAT = "millrace_heartbeat.beat"
_WORKER_ERRORS = (
    "SELECT last_error_message FROM performance_schema.replication_applier_status_by_worker "
    "WHERE last_error_number <> 0"
)
_LONGEST_ERROR = 500
_LIMIT_S = 60
# Far above any log and any time; an answer beyond them could not be stored.
_MOST_BYTES = 1 << 62
_LONGEST_S = 1e9

ByVersion = Mapping[str, str]


class ReplicationWords(Data):
    """The words of a family's statements, by the first version that has them.

    A replica is of its source's series or of the next one, where there are ``series``. Global ids
    of transactions exist from the version ``gtid_since`` on. Below ``gtid_alone_since`` a replica
    with them must keep a log of its own.
    """

    series: tuple[str, ...] = ()
    gtid_since: str
    gtid_alone_since: str
    gtid_options: Mapping[str, str] = {}
    executed: str  # a query for the ids of all transactions in the log
    forget_replicated: str | None = None  # a statement, for what a replica has applied
    change: ByVersion
    source: ByVersion
    replica: ByVersion
    connection: ByVersion  # settings of the connection
    by_gtid: ByVersion
    by_position: ByVersion
    wait_for_position: ByVersion
    wait_for_gtids: ByVersion


@dataclass(frozen=True)
class MysqlReplication:
    """The replication of MySQL and MariaDB: see ``databases.replication.Replication``."""

    words: ReplicationWords
    forget_binary_log: ByVersion
    shared_options: tuple[str, ...] = ("character_set_server", "collation_server")

    def refusal(self, source: str, replica: str, gtid: Gtid) -> str | None:
        one, other = version_key(source), version_key(replica)
        if other < one:
            return "a replica must not be older than its source"
        names = self.words.series
        if names and _place(names, other) > _place(names, one) + 1:
            known = ", ".join(names)
            return f"a replica is of its source's series or of the next one ({known})"
        if gtid == "on" and one < version_key(self.words.gtid_since):
            return f"global transaction ids exist from {self.words.gtid_since} on"
        return None

    def uses_gtids(self, source: str, replica: str, gtid: Gtid) -> bool:
        since = self.words.gtid_since if gtid == "on" else self.words.gtid_alone_since
        oldest = min(map(version_key, (source, replica)))
        return gtid != "off" and oldest >= version_key(since)

    def options(
        self, role: str, version: str, log_format: LogFormat, *, by_gtid: bool
    ) -> Mapping[str, Level]:
        found: dict[str, Level] = {"binlog_format": log_format.upper()}
        if role == SOURCE:
            found |= {"server_id": 1, "log_bin": "binlog"}
        else:
            found |= {"server_id": 2, "relay_log": "relay-bin"}
        if by_gtid:
            found |= self.words.gtid_options
            if version_key(version) < version_key(self.words.gtid_alone_since):
                found |= {"log_bin": "binlog", "log_slave_updates": True}
        return found

    def forget_log(self, client: DatabaseClient) -> None:
        settings = global_variables(client)
        if settings.get("log_bin") == "ON":
            self._do(client, _of(self.forget_binary_log, client))
        if self.words.forget_replicated is not None and "gtid_slave_pos" in settings:
            self._do(client, self.words.forget_replicated)

    def create_account(self, source: DatabaseClient, address: SourceAddress) -> None:
        account = f"'{address.user}'@'{address.host}'"
        sql = f"CREATE USER {account} IDENTIFIED BY '{address.password}'"
        self._do_secretly(source, sql, address.password)
        self._do(source, f"GRANT REPLICATION SLAVE ON *.* TO {account}")

    def attach(self, replica: DatabaseClient, source: SourceAddress, *, by_gtid: bool) -> None:
        words, prefix = self.words, _of(self.words.source, replica)
        settings = (
            f"{prefix}_HOST = '{source.host}'",
            f"{prefix}_PORT = {source.port}",
            f"{prefix}_USER = '{source.user}'",
            f"{prefix}_PASSWORD = '{source.password}'",
            _of(words.connection, replica),
            _of(words.by_gtid if by_gtid else words.by_position, replica),
        )
        sql = f"{_of(self.words.change, replica)} {', '.join(filter(None, settings))}"
        self._do_secretly(replica, sql, source.password)

    def start(self, replica: DatabaseClient, what: Literal["receiver", "applier"]) -> None:
        thread = "IO_THREAD" if what == "receiver" else "SQL_THREAD"
        self._do(replica, f"START {_of(self.words.replica, replica)} {thread}")

    @oddities_as_errors()
    def log_end(self, session: Session) -> LogEnd:
        logs = _logs(session)
        file, offset = list(logs.items())[-1]
        ids = None
        with contextlib.suppress(DatabaseError):  # no such variable in this version
            ((ids,),) = session.query(self.words.executed)
        return LogEnd(file, offset, None if ids is None else str(ids).replace("\n", ""))

    @oddities_as_errors()
    def wait_applied(self, session: Session, end: LogEnd, limit_s: int, *, by_gtid: bool) -> bool:
        version = _session_version(session)
        if by_gtid:
            function = _at(self.words.wait_for_gtids, version)
            sql = f"SELECT {function}({session.literal(end.transactions or '')}, {limit_s})"
            return _number(session, sql) == 0
        function = _at(self.words.wait_for_position, version)
        place = f"{session.literal(end.file)}, {end.offset}"
        found = _number(session, f"SELECT {function}({place}, {limit_s})")
        return found is not None and found >= 0  # None: it stopped, -1: the limit has passed

    @oddities_as_errors()
    def progress(self, source: Session, replica: Session) -> LogProgress:
        status = self._status(replica)  # first: nothing is applied that was not written before
        logs = _logs(source)

        def bytes_to(file: Any, offset: Any) -> int:
            before = (size for name, size in logs.items() if name < str(file))
            return _bounded(sum(before) + (count_of(offset) if file else 0))

        return LogProgress(
            written_bytes=_bounded(sum(logs.values())),
            received_bytes=bytes_to(status["master_log_file"], status["read_master_log_pos"]),
            applied_bytes=bytes_to(status["relay_master_log_file"], status["exec_master_log_pos"]),
            reported_lag_s=_seconds(status.get("seconds_behind_master")),
            error=_error(replica, status),
        )

    def begin_heartbeat(self, source: Session) -> None:
        database, _, _ = _HEARTBEAT.partition(".")
        source.query(f"CREATE DATABASE {database}")
        source.query(f"CREATE TABLE {_HEARTBEAT} (id INT PRIMARY KEY, at DOUBLE) ENGINE=InnoDB")
        source.query(f"INSERT INTO {_HEARTBEAT} VALUES (1, 0)")

    def beat(self, source: Session, at_s: float) -> None:
        source.query(f"UPDATE {_HEARTBEAT} SET at = {at_s:.6f} WHERE id = 1")

    @oddities_as_errors()
    def last_beat_s(self, replica: Session) -> float | None:
        try:
            rows = replica.query(f"SELECT at FROM {_HEARTBEAT}")
        except DatabaseError as error:
            if error.kind == "absent":
                return None
            raise
        return _seconds(rows[0][0]) if rows else None

    def table_checksums(self, client: DatabaseClient, database: str, limit_s: float) -> Checksums:
        try:
            with contextlib.closing(client.connect(database, limit_s=limit_s)) as session:
                tables = [str(name) for (name,) in session.query("SHOW TABLES")]
                sums = {
                    name: read(session, (table_samples.described(session, database, name).whole(),))
                    for name in tables
                }
        except (DatabaseError, ValueError) as error:
            raise TrialFailed(
                f"{client.server.name}: its tables cannot be read: {error}"
            ) from error
        return {name: (found.rows, found.checksum) for name, found in sums.items()}

    def _status(self, session: Session) -> Row:
        word = _at(self.words.replica, _session_version(session))
        rows = session.rows(f"SHOW {word} STATUS")
        if len(rows) != 1:
            raise DatabaseError("the server does not say how far it has come", kind="odd")
        return {
            name.replace("source", "master").replace("replica", "slave"): value
            for name, value in rows[0].items()
        }

    def _do_secretly(self, client: DatabaseClient, sql: str, password: str) -> None:
        """Execute a statement with a password. Raise TrialFailed, without the password."""
        try:
            self._do(client, sql)
        except TrialFailed as failure:
            said = failure.message.replace(password, "***")
            raise TrialFailed(said, hint=failure.hint) from None

    def _do(self, client: DatabaseClient, sql: str) -> None:
        client.query(sql, limit_s=_LIMIT_S)


def _place(series: tuple[str, ...], version: tuple[int, ...]) -> int:
    keys = [version_key(each) for each in series]
    return max((at for at, key in enumerate(keys) if version[: len(key)] == key), default=0)


def _version(server: Server) -> tuple[int, ...]:
    assert isinstance(server, InstalledServer)  # others are refused
    return version_key(server.version)


def _of(words: ByVersion, client: DatabaseClient) -> str:
    return _at(words, _version(client.server))


def _at(words: ByVersion, version: tuple[int, ...]) -> str:
    known = [word for since, word in words.items() if version_key(since) <= version]
    return known[-1] if known else ""


def _session_version(session: Session) -> tuple[int, ...]:
    ((version,),) = session.query("SELECT VERSION()")
    return version_key(str(version))


def _logs(session: Session) -> dict[str, int]:
    rows = session.query("SHOW BINARY LOGS")
    if not rows:
        raise DatabaseError("the server keeps no binary log", kind="odd")
    return {str(name): count_of(size) for name, size, *_ in rows}


def _number(session: Session, sql: str) -> int | None:
    ((value,),) = session.query(sql)
    return None if value is None else int(value)


def _bounded(n_bytes: int) -> int:
    """Return a length of a log. Raise ValueError for a longer one than any server has."""
    if n_bytes > _MOST_BYTES:
        raise ValueError(f"{n_bytes:,} bytes of a log")
    return n_bytes


def _seconds(value: Any) -> float | None:
    """Return a number of seconds, if any. Raise ValueError for one that no server counts to."""
    if value is None:
        return None
    seconds = float(value)
    if not abs(seconds) <= _LONGEST_S:
        raise ValueError(f"{seconds:g} s")
    return seconds


def _error(replica: Session, status: Row) -> str | None:
    """Return why the replica stopped; of several appliers, the coordinator only names a table."""
    said = [status.get(f"last_{thread}_error") for thread in ("sql", "io")]
    if said[0] and "performance_schema" in str(said[0]):
        with contextlib.suppress(DatabaseError):
            said = [message for (message,) in replica.query(_WORKER_ERRORS)] + said
    text = next((str(each) for each in said if each), None)
    return None if text is None else shown_line(text[:_LONGEST_ERROR])
