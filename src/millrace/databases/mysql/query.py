"""Query the tables that collectors read, and describe data that a server does not provide."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from millrace.databases.client import Session
from millrace.databases.deltas import number
from millrace.databases.mysql.observable import Table
from millrace.errors import DatabaseError, Unavailable

_MOST_CHARS = 1 << 20
_MOST_WORDS = 200

PROCESS_RIGHT = "GRANT PROCESS ON *.* to millrace's account"
SCHEMA_RIGHT = "GRANT SELECT ON performance_schema.* to millrace's account"


@dataclass(frozen=True)
class TableQuery:
    """A query for the rows of a table, and millrace's names of its columns."""

    sql: str
    columns: frozenset[str]


@contextlib.contextmanager
def understood(what: str) -> Iterator[None]:
    """Turn exceptions by an unexpected answer (types, missing columns, rows) into Unavailable."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        odd = f"{type(error).__name__}: {error}"[:_MOST_WORDS]
        raise Unavailable(f"{what}: the server's answer cannot be understood ({odd})") from error


def table_query(session: Session, table: Table, database: str) -> TableQuery:
    """Return the query for the columns that the server has. Raise Unavailable without a table."""
    try:
        # With LIMIT 0, servers do not open some tables, and do not check the rights to them.
        sql = f"SELECT * FROM {table.name} LIMIT 1"  # noqa: S608 - from mysqld.toml
        theirs = {column.upper() for column in session.columns(sql)}
    except DatabaseError as error:
        raise unavailable(table.name, error) from error
    found = {
        ours: known[0]
        for ours, names in table.columns.items()
        if (known := [name for name in names if name.upper() in theirs])
    }
    listed = ", ".join(f"{name} AS `{ours}`" for ours, name in found.items())
    if not listed:
        raise Unavailable(f"{table.name} has none of the columns that are known")
    condition = f" WHERE {table.where}" if table.where else ""
    sql = f"SELECT {listed} FROM {table.name}{condition}"  # noqa: S608 - from mysqld.toml
    sql = sql.replace("%(database)s", session.literal(database))
    return TableQuery(sql, frozenset(found))


def unavailable(what: str, error: DatabaseError | OSError) -> Unavailable:
    """Return the error that says why ``what`` cannot be read, with a hint."""
    if isinstance(error, OSError):
        return Unavailable(f"{what}: {error}")
    if error.kind == "forbidden":
        right = SCHEMA_RIGHT if "performance_schema" in what else PROCESS_RIGHT
        return Unavailable(f"{what}: no right to read it", hint=right)
    if error.kind == "absent":
        return Unavailable(f"{what}: this server does not have it")
    return Unavailable(f"{what}: {error.message}")


def plain(value: object) -> Any:
    """Return a server's value as JSON has it; None for a number to which no server counts."""
    if isinstance(value, Decimal | int | float):
        known = number(value)
        if known is None or not isinstance(value, Decimal):
            return known
        return int(known) if known == int(known) else known
    if value is None:
        return None
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return text[:_MOST_CHARS]
