"""Sample the tables of a server, so that a restored server can be compared with them.

The answer must be ready in a few milliseconds, and must be the same work for every server that
serves the same data. A sample is therefore a few rows in the order of the primary key, at even
distances over the whole table, and the last ones. Tables that are small all together are also read
as a whole. A table whose primary key cannot be sampled is only counted, up to a limit: without an
order, the same server may find other rows first.
"""

from collections.abc import Sequence

from millrace.databases.client import Session
from millrace.databases.mysql.table_sql import (
    BYTES_OF_A_PART,
    ROWS_OF_A_PART,
    Column,
    KeyPart,
    Table,
)
from millrace.databases.table_checks import KeptTable, Reading, numbers, read

# Limits for all tables together, so that a check takes less than 1 % of a trial even on a busy host
# (benchmarks/snapshot_checking).
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


def record_tables(session: Session) -> tuple[KeptTable, ...]:
    """Read tables, to compare with a restored server's. Raise DatabaseError, ValueError."""
    names = sorted((str(database), str(name)) for database, name in session.query(_TABLES))
    chosen = _evenly(names, MOST_TABLES)
    n_parts = max(1, min(PARTS_OF_A_TABLE, MOST_PARTS // max(1, len(chosen))))
    tables = [described(session, database, name) for database, name in chosen]
    counts = [_number(session, table.count()) for table in tables]
    samples = [
        read(session, _sample(session, table, n_rows, n_parts))
        for table, n_rows in zip(tables, counts, strict=True)
    ]
    whole: list[Reading | None] = [None] * len(tables)
    if len(chosen) == len(names) and sum(counts) <= WHOLE_ROWS:
        n_bytes = sum(_number(session, table.length()) for table in tables)
        if n_bytes <= WHOLE_BYTES:
            whole = [read(session, (table.whole(),)) for table in tables]
    return tuple(
        KeptTable(f"{table.database}.{table.name}", sample, all_rows)
        for table, sample, all_rows in zip(tables, samples, whole, strict=True)
    )


def _number(session: Session, sql: str) -> int:
    return numbers(session, sql, 1)[0]


def described(session: Session, database: str, table: str) -> Table:
    """Return a table with its columns and its primary key. Raise DatabaseError."""
    columns = session.query(_COLUMNS, database, table)
    key = session.query(_PRIMARY_KEY, database, table)
    return Table(
        database,
        table,
        tuple(
            Column(str(name), null == "YES", str(kind).lower(), charset and str(charset))
            for name, null, kind, charset in columns
        ),
        tuple(KeyPart(str(name), length, order != "D") for name, length, order in key),
    )


def _sample(session: Session, table: Table, n_rows: int, n_parts: int) -> tuple[str, ...]:
    """Return the statements that read ``n_parts`` parts of a table's rows, and its last ones."""
    first = table.first
    if first is None:
        return (table.few(),)
    distance = max(1, n_rows // n_parts)
    row_bytes = _number(session, table.longest())
    n_at_once = min(ROWS_OF_A_PART, max(1, BYTES_OF_A_PART // max(1, row_bytes)))
    value = None
    parts = [table.part(None, n_at_once)]
    while len(parts) < n_parts:
        # Each search starts at the last value, so that all of them together read the key once. A
        # value that many rows share is skipped.
        found = session.query(table.value_at(distance, beyond=value))
        if not found:
            break
        value = first.literal(str(found[0][0]))
        parts.append(table.part(value, n_at_once))
    return (*parts, table.last_part(n_at_once))


def _evenly(names: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most ``most`` names, at even distances."""
    n = min(len(names), most)
    return [names[at * len(names) // n] for at in range(n)]
