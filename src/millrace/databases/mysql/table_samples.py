"""Sample the tables of a server, so that a restored server can be compared with them.

The answer must be ready in a few milliseconds, and must be the same work for every server that
serves the same data. A sample is therefore a few rows in the order of the primary key, at even
distances over the whole table, and the last ones. Tables that are small all together are also read
as a whole. A table whose primary key cannot be sampled is only counted, up to a limit: without an
order, the same server may find other rows first.
"""

# ruff: noqa: S608 - names are quoted, values are in hex

import re
from collections.abc import Sequence
from dataclasses import dataclass

from millrace.databases.client import Session
from millrace.databases.table_checks import KeptTable, Reading, numbers, read

ROWS_OF_A_PART = 32
BYTES_OF_A_PART = 1 << 16
COUNTED_ROWS = 1_024

# The types of a first column of a primary key whose values can be written as literals.
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TIMES = ("date", "datetime", "timestamp")
_BYTES = ("binary", "varbinary")
_ORDERED_TYPES = frozenset((*_INTEGERS, "decimal", *_TIMES, "char", "varchar", *_BYTES))
_CHARACTER_SET = re.compile(r"[a-z0-9_]+")
_HEX = re.compile(r"[0-9A-F]*")


@dataclass(frozen=True)
class Column:
    """A column as the server describes it; ``type`` is its name in lower case."""

    name: str
    is_nullable: bool
    type: str
    character_set: str | None

    @property
    def sql(self) -> str:
        return _quoted(self.name)

    @property
    def bytes_sql(self) -> str:
        """An expression for the value as bytes; NULL counts as a value."""
        value = f"CAST({self.sql} AS BINARY)"
        return f"IFNULL({value}, 0x00)" if self.is_nullable else value

    def literal(self, value_hex: str) -> str:
        """Return bytes in hex as a literal that an index can look up. Raise ValueError."""
        if not _HEX.fullmatch(value_hex):
            raise ValueError(f"{value_hex!r} is not hex")
        if self.type in _BYTES:
            return f"X'{value_hex}'"
        character_set = self.character_set or "latin1"  # numbers and dates are ASCII
        if not _CHARACTER_SET.fullmatch(character_set):
            raise ValueError(f"{character_set!r} is not a character set")
        return f"_{character_set} X'{value_hex}'"


@dataclass(frozen=True)
class KeyPart:
    """A part of a primary key; ``length`` is None where it covers the whole column."""

    column: str
    length: int | None
    is_ascending: bool


@dataclass(frozen=True)
class Table:
    """A table as the server describes it, with the parts of its primary key in their order."""

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]

    @property
    def sql(self) -> str:
        return f"{_quoted(self.database)}.{_quoted(self.name)}"

    @property
    def first(self) -> Column | None:
        """The first column of the primary key; None where rows cannot be read in its order."""
        if not self.key or any(p.length is not None or not p.is_ascending for p in self.key):
            return None
        found = [each for each in self.columns if each.name == self.key[0].column]
        return found[0] if found and found[0].type in _ORDERED_TYPES else None

    def count(self) -> str:
        return f"SELECT COUNT(*) FROM {self.sql}"

    def length(self) -> str:
        """Return the statement that adds up the bytes of all rows."""
        return f"SELECT SUM(LENGTH({self._row})) FROM {self.sql}"

    def whole(self) -> str:
        """Return the statement that counts and sums all rows."""
        return f"SELECT COUNT(*), SUM(CRC32({self._row})) FROM {self.sql}"

    def few(self) -> str:
        """Return the statement that counts rows up to a limit; the sum is 0."""
        rows = f"SELECT 1 FROM {self.sql} LIMIT {COUNTED_ROWS}"
        return f"SELECT COUNT(*), 0 FROM ({rows}) AS counted"

    def longest(self) -> str:
        """Return the statement that finds the size in bytes of the longest of the first rows."""
        rows = self._limited(f"LENGTH({self._row})", "", "ASC", ROWS_OF_A_PART)
        return f"SELECT MAX(value) FROM ({rows}) AS part"

    def part(self, since: str | None, n_rows: int) -> str:
        """Return the statement that counts and sums ``n_rows`` rows from ``since`` on."""
        condition = "" if since is None else f"WHERE {self._first_sql} >= {since} "
        return self._summed(condition, "ASC", n_rows)

    def last_part(self, n_rows: int) -> str:
        """Return the statement that counts and sums the last rows by the key."""
        return self._summed("", "DESC", n_rows)

    def value_at(self, distance: int, beyond: str | None) -> str:
        """Return the statement that finds the key's value, in hex, at a distance from another.

        It is the value of the key's ``first`` column ``distance`` rows after the last row of
        ``beyond``, or after the first row of all.
        """
        condition = "" if beyond is None else f"WHERE {self._first_sql} > {beyond} "
        offset = distance if beyond is None else distance - 1
        return (
            f"SELECT HEX(CAST({self._first_sql} AS BINARY)) FROM {self._by_key} {condition}"
            f"ORDER BY {self._first_sql} LIMIT 1 OFFSET {offset}"
        )

    @property
    def _row(self) -> str:
        return f"CONCAT_WS(0x09, {', '.join(column.bytes_sql for column in self.columns)})"

    @property
    def _by_key(self) -> str:
        return f"{self.sql} FORCE INDEX (PRIMARY)"

    @property
    def _first_sql(self) -> str:
        return _quoted(self.key[0].column)

    def _summed(self, condition: str, direction: str, n_rows: int) -> str:
        rows = self._limited(f"CRC32({self._row})", condition, direction, n_rows)
        return f"SELECT COUNT(*), SUM(value) FROM ({rows}) AS part"

    def _limited(self, value: str, condition: str, direction: str, n_rows: int) -> str:
        order = ", ".join(f"{_quoted(part.column)} {direction}" for part in self.key)
        return (
            f"SELECT {value} AS value FROM {self._by_key} {condition}"
            f"ORDER BY {order} LIMIT {n_rows}"
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
