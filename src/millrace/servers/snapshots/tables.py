"""Compares the tables that a restored server serves with those that the template was made of.

While the loaded server still runs, ``record_tables`` reads its tables by some statements and keeps
these with their answers. ``verify_tables`` sends the same statements to a server that started on a
copy. The digests of files (``contents``) say that the bytes are those kept; this says that the
server finds the rows in them.

The answer must be ready in a few milliseconds, and must be the same work for every server that
serves the same data. So a table is read by samples: a few rows in the order of its primary key, at
even distances over all of it, and the last ones. Tables that are small all together are also kept
as a whole. A table whose primary key cannot be sampled is only counted, up to a limit: without an
order, the same server may find other rows first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql

from millrace.databases.mysql.client import ASK_LIMIT_S, words_of
from millrace.databases.mysql.table_sql import (
    BYTES_OF_A_PART,
    ROWS_OF_A_PART,
    Column,
    KeyPart,
    Table,
)
from millrace.errors import TrialFailed
from millrace.shown_text import shown_line

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    from millrace.servers.attached import AttachedInstance
    from millrace.servers.instances.lifecycle import Instance
    from millrace.servers.snapshots.manifest import Template

# Bounds of all tables together, so that a check takes less than 1 % of a trial also on a busy host
# (benchmarks/template_checking).
MOST_TABLES = 32
MOST_PARTS = 64
PARTS_OF_A_TABLE = 16
WHOLE_ROWS = 20_000
WHOLE_BYTES = 8 << 20

_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema NOT IN "
    "('information_schema', 'performance_schema', 'mysql', 'sys')"
)
_COLUMNS = (
    "SELECT column_name, is_nullable, data_type, character_set_name "
    "FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
    "ORDER BY ordinal_position"
)
_PRIMARY_KEY = (
    "SELECT column_name, sub_part, collation FROM information_schema.statistics "
    "WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' "
    "ORDER BY seq_in_index"
)

# Errors of the client: the connection was lost, or the answer made no sense.
_CLIENT_ERRORS = range(2000, 3000)


@dataclass(frozen=True)
class Reading:
    """The rows that some statements found, and the sum of the rows' CRC-32 (0 where they only
    count); each statement gives one row of both."""

    statements: tuple[str, ...]
    rows: int
    checksum: int


@dataclass(frozen=True)
class KeptTable:
    """A table of a template. ``whole`` are all its rows, None where there are too many."""

    name: str
    sample: Reading
    whole: Reading | None


def record_tables(
    instance: Instance | AttachedInstance, *, limit_s: float
) -> tuple[KeptTable, ...]:
    """Read the tables of a running server, and return what ``verify_tables`` compares with.

    Where there are more than ``MOST_TABLES``, as many are taken at even distances by name.
    ``limit_s`` bounds each wait for an answer. Raises what pymysql raises, and ValueError for an
    odd answer.
    """
    with _session(instance, limit_s) as cursor:
        names = sorted((str(database), str(name)) for database, name in _rows(cursor, _TABLES))
        chosen = _evenly(names, MOST_TABLES)
        n_parts = max(1, min(PARTS_OF_A_TABLE, MOST_PARTS // max(1, len(chosen))))
        tables = [_described(cursor, database, name) for database, name in chosen]
        counts = [_number(cursor, table.count()) for table in tables]
        samples = [
            _read(cursor, _sample(cursor, table, n_rows, n_parts))
            for table, n_rows in zip(tables, counts, strict=True)
        ]
        whole: list[Reading | None] = [None] * len(tables)
        if len(chosen) == len(names) and sum(counts) <= WHOLE_ROWS:
            n_bytes = sum(_number(cursor, table.length()) for table in tables)
            if n_bytes <= WHOLE_BYTES:
                whole = [_read(cursor, (table.whole(),)) for table in tables]
    return tuple(
        KeptTable(f"{table.database}.{table.name}", sample, all_rows)
        for table, sample, all_rows in zip(tables, samples, whole, strict=True)
    )


def verify_tables(
    instance: Instance | AttachedInstance, template: Template, *, whole: bool
) -> None:
    """Raise TrialFailed where a server that started on a copy of a template serves other rows.

    ``whole`` has it read all rows of tables that are small all together, which brings them into
    memory; without it, samples are read.
    """
    server = instance.server.name
    try:
        with _session(instance, ASK_LIMIT_S) as cursor:
            found = ((table, _problem(cursor, table, whole=whole)) for table in template.tables)
            wrong = next(((table, why) for table, why in found if why is not None), None)
    except pymysql.MySQLError as error:
        raise TrialFailed(f"{server}: its tables cannot be read: {words_of(error)}") from error
    if wrong is not None:
        table, why = wrong
        raise TrialFailed(
            f"{server} does not serve the table {shown_line(table.name)} that the template "
            f"{template.name} was made of: {why}",
            hint=f"remove the template (millrace templates remove {template.name}); the next "
            "trial makes it anew",
        )


def _problem(cursor: Cursor, table: KeptTable, *, whole: bool) -> str | None:
    """Return why the table is not the one that was kept; None where it is.

    Raises what pymysql raises when the connection is lost.
    """
    expected = (table.whole if whole else None) or table.sample
    try:
        found = _read(cursor, expected.statements)
    except pymysql.MySQLError as error:
        if error.args and error.args[0] in _CLIENT_ERRORS:
            raise
        return f"it cannot be read: {words_of(error)}"
    except ValueError as error:
        return f"it cannot be read: {error}"
    return None if found == expected else difference(expected, found)


def difference(expected: Reading, found: Reading) -> str:
    """Return in words how the rows found differ from those expected."""
    n = len(expected.statements)
    parts = []
    if found.rows != expected.rows:
        parts.append(f"found {found.rows:,} rows, expected {expected.rows:,}")
    if found.checksum != expected.checksum:
        parts.append(f"found the checksum {found.checksum}, expected {expected.checksum}")
    return f"{'' if n == 1 else f'in {n} samples, '}{' and '.join(parts)}"


def of_data(data: Mapping[str, Any]) -> KeptTable:
    """Return the table that plain data describe, with the names of the fields as keys.

    Raises LookupError, TypeError or ValueError for other data.
    """
    whole = data["whole"]
    return KeptTable(
        str(data["name"]), _reading(data["sample"]), None if whole is None else _reading(whole)
    )


def _reading(data: Mapping[str, Any]) -> Reading:
    statements = tuple(str(statement) for statement in data["statements"])
    return Reading(statements, int(data["rows"]), int(data["checksum"]))


@contextlib.contextmanager
def _session(instance: Instance | AttachedInstance, limit_s: float) -> Iterator[Cursor]:
    with (
        contextlib.closing(instance.connect(limit_s=limit_s)) as session,
        session.cursor() as cursor,
    ):
        yield cursor


def _rows(cursor: Cursor, sql: str, *values: str) -> Sequence[tuple[Any, ...]]:
    cursor.execute(sql, values or None)
    return cursor.fetchall()


def _numbers(cursor: Cursor, sql: str, n: int) -> tuple[int, ...]:
    """Return the only row of a statement, NULL as 0. Raises ValueError for any other answer."""
    rows = _rows(cursor, sql)
    if len(rows) != 1 or len(rows[0]) != n:
        raise ValueError(f"the server answers with {len(rows)} rows where one of {n} is due")
    try:
        return tuple(0 if value is None else int(str(value)) for value in rows[0])
    except ValueError:
        raise ValueError("the server answers with other values than whole numbers") from None


def _number(cursor: Cursor, sql: str) -> int:
    return _numbers(cursor, sql, 1)[0]


def _read(cursor: Cursor, statements: Sequence[str]) -> Reading:
    found = [_numbers(cursor, statement, 2) for statement in statements]
    return Reading(
        tuple(statements), sum(rows for rows, _ in found), sum(crcs for _, crcs in found)
    )


def _described(cursor: Cursor, database: str, table: str) -> Table:
    columns = _rows(cursor, _COLUMNS, database, table)
    key = _rows(cursor, _PRIMARY_KEY, database, table)
    return Table(
        database,
        table,
        tuple(
            Column(str(name), null == "YES", str(kind).lower(), charset and str(charset))
            for name, null, kind, charset in columns
        ),
        tuple(KeyPart(str(name), length, order != "D") for name, length, order in key),
    )


def _sample(cursor: Cursor, table: Table, n_rows: int, n_parts: int) -> tuple[str, ...]:
    """Return the statements that read ``n_parts`` parts of a table's rows, and its last ones."""
    first = table.first
    if first is None:
        return (table.few(),)
    distance = max(1, n_rows // n_parts)
    row_bytes = _number(cursor, table.longest())
    n_at_once = min(ROWS_OF_A_PART, max(1, BYTES_OF_A_PART // max(1, row_bytes)))
    value = None
    parts = [table.part(None, n_at_once)]
    while len(parts) < n_parts:
        # Each value is looked for from the last one, so that all of them cost one reading of the
        # key. A value that many rows share is passed.
        found = _rows(cursor, table.value_at(distance, beyond=value))
        if not found:
            break
        value = first.literal(str(found[0][0]))
        parts.append(table.part(value, n_at_once))
    return (*parts, table.last_part(n_at_once))


def _evenly(names: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most ``most`` names, at even distances."""
    n = min(len(names), most)
    return [names[at * len(names) // n] for at in range(n)]
