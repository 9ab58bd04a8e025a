"""What a server still had to do when its measured part began and ended, for the gates of
``millrace.analysis.steady.checks``.

At each mark the figures of ``quiesce`` are taken, by the family's own question (0.2 to 0.4 ms where
nobody else asks), beside those of the buffer pool that ``counters`` reads anyway. What can be asked
later is asked when clients are no longer measured: how large the redo log is, and how old the
tables' statistics are. A server that does not tell (its version, or our rights there) leaves
figures out; none of it fails a trial.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace import databases
from millrace.databases.base import WriteBack
from millrace.databases.mysql.client import ASK_LIMIT_S, count_of, oddities_as_errors
from millrace.errors import MillraceError
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances.lifecycle import Instance
from millrace.trial.quiesce import figures_in

_FIGURES = ("dirty_pages", "history", "log_position", "checkpoint")

# Of the pool's status variables, by our names; pages that are read ahead are fetched too.
_POOL = {
    "pool_pages": ("Innodb_buffer_pool_pages_total",),
    "pool_data_pages": ("Innodb_buffer_pool_pages_data",),
    "pool_free_pages": ("Innodb_buffer_pool_pages_free",),
    "pages_asked_for": ("Innodb_buffer_pool_read_requests",),
    "pages_fetched": ("Innodb_buffer_pool_reads", "Innodb_buffer_pool_read_ahead"),
}

# MySQL from 8.0.30, MariaDB; others have files of a fixed size.
_LOG_CAPACITY = ("Innodb_redo_log_capacity_resized", "Innodb_checkpoint_max_age")

_LARGEST_AGE_S = 1e10  # three centuries

# Kept in tables from MySQL 5.6 and MariaDB 10.0 on. The server's own clock tells both ends.
_STATISTICS_SQL = (
    "SELECT table_name, UNIX_TIMESTAMP() - UNIX_TIMESTAMP(last_update), n_rows "
    "FROM mysql.innodb_table_stats WHERE database_name = %s"
)


def pool_figures(status: Mapping[str, int]) -> dict[str, int]:
    """The buffer pool's figures in status variables; one that is not all there is left out."""
    return {
        name: sum(status[variable] for variable in variables)
        for name, variables in _POOL.items()
        if all(variable in status for variable in variables)
    }


def figures(session: Connection[Any], write_back: WriteBack) -> dict[str, int]:
    """What the server has to write back and purge now; empty where it does not tell."""
    try:
        with oddities_as_errors(), session.cursor() as cursor:
            cursor.execute(write_back.question)
            rows = cursor.fetchall()
            told = asdict(figures_in(str(rows[0][-1]) if rows else "", write_back))
    except pymysql.MySQLError:
        return {}
    return {name: told[name] for name in _FIGURES if told[name] is not None}


def afterwards(instance: Instance | AttachedInstance, database: str) -> dict[str, Any]:
    """What the server tells when clients are no longer measured: ``log_capacity_bytes``, and
    ``statistics`` with the age in seconds and the rows of each table that has them."""
    return {**_log_capacity(instance), **_statistics(instance, database)}


def write_back_of(instance: Instance | AttachedInstance) -> WriteBack:
    """How the family of a server is asked for its figures."""
    return databases.get(instance.server.family).write_back


def _log_capacity(instance: Instance | AttachedInstance) -> dict[str, int]:
    listed = ", ".join(f"'{name}'" for name in _LOG_CAPACITY)
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})"
    with contextlib.suppress(MillraceError, ValueError):
        for _, value in instance.rows(sql, n_columns=2):
            if capacity := count_of(value):
                return {"log_capacity_bytes": capacity}
    return {}


def _statistics(instance: Instance | AttachedInstance, database: str) -> dict[str, Any]:
    try:
        with (
            oddities_as_errors(),
            contextlib.closing(instance.connect(limit_s=ASK_LIMIT_S)) as session,
            session.cursor() as cursor,
        ):
            cursor.execute(_STATISTICS_SQL, (database,))
            return {
                "statistics": {
                    str(table): {"age_s": _age_s(age_s), "rows": count_of(rows)}
                    for table, age_s, rows in cursor.fetchall()
                }
            }
    except (pymysql.MySQLError, MillraceError):
        return {}


def _age_s(value: object) -> float:
    """Raises ValueError for what is no age of a table."""
    age_s = float(str(value))
    if not abs(age_s) < _LARGEST_AGE_S:
        raise ValueError(f"{age_s} seconds are no age")
    return age_s
