"""Prepare data directories of MySQL and MariaDB to be kept and restored.

Files that each start of a server creates are left out: its UUID (``auto.cnf``; so two servers of
one snapshot may replicate), process ids, sockets, error logs. The dump of the buffer pool is
emptied: with its content newer servers, but not older ones, would load pages in the background
while a trial warms up, and without the file they would write an error into their log.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace.databases.base import version_key
from millrace.databases.client import QUERY_LIMIT_S, DatabaseClient, Session
from millrace.databases.mysql import options, table_samples
from millrace.databases.mysql.administration import global_variables
from millrace.databases.table_checks import KeptTable
from millrace.model.servers import InstalledServer, Option

_ROCKSDB = "#rocksdb"
_END_OF_TABLE = re.compile(r"[.#]")  # then comes a suffix, or a partition
_WITHOUT_ROWS = frozenset((".opt", ".frm", ".par", ".isl", ".TRG", ".TRN"))

_POOL_DUMP = "ib_buffer_pool"
_LOST_AT_A_STOP = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE engine = 'MEMORY' AND table_schema NOT IN "
    "('information_schema', 'performance_schema', 'mysql', 'sys')"
)


@dataclass(frozen=True)
class MysqlSnapshotRules:
    """The rules for snapshots of MySQL and MariaDB: see ``databases.base.SnapshotRules``."""

    forget_binary_log: tuple[tuple[str, str], ...]  # version and statement
    excluded_files: tuple[str, ...] = ("auto.cnf", "*.pid", "*.sock", "*.sock.lock", "*.err")
    link_suffixes: frozenset[str] = frozenset((".isl",))
    volatile_engines: frozenset[str] = frozenset(("memory", "heap"))

    def table_of(self, file: Path, database: str) -> str | None:
        if file.parent.name == _ROCKSDB:
            return "" if file.suffix == ".sst" else None
        if file.parent.name != database or file.suffix in _WITHOUT_ROWS:
            return None
        return _END_OF_TABLE.split(file.name, maxsplit=1)[0] or None

    def prepare(self, client: DatabaseClient) -> str | None:
        """Empty the binary log, and make the next stop a slow one: purged, change buffer merged."""
        lost = client.query(_LOST_AT_A_STOP, limit_s=QUERY_LIMIT_S)
        if lost:
            named = ".".join(part or "" for part in lost[0])
            return f"{named} is a MEMORY table, which is empty after the server was stopped"
        settings = global_variables(client)
        if settings.get("log_bin") == "ON":
            client.query(self._forget_binary_log(client), limit_s=QUERY_LIMIT_S)
        if "innodb_fast_shutdown" in settings:
            client.query("SET GLOBAL innodb_fast_shutdown = 0", limit_s=QUERY_LIMIT_S)
        return None

    def _forget_binary_log(self, client: DatabaseClient) -> str:
        assert isinstance(client.server, InstalledServer)  # only its data directory can be kept
        version = version_key(client.server.version)
        return [sql for since, sql in self.forget_binary_log if version_key(since) <= version][-1]

    def record_tables(self, session: Session) -> tuple[KeptTable, ...]:
        return table_samples.record_tables(session)

    def truncated_files(self, applied: Iterable[Option]) -> Sequence[str]:
        named = [
            option.value
            for option in applied
            if "innodb_buffer_pool_filename" in options.forms(option.name) and option.value
        ]
        return named or [_POOL_DUMP]
