"""What observers ask a server, and what it means when it does not tell.

An observer's session has no database of its own, so that its statements are told from the
workload's, and is opened before the clients are driven.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.collect.model import Target
from millrace.databases.base import Table, version_key
from millrace.databases.deltas import Row, number
from millrace.databases.mysql.client import words_of
from millrace.errors import TrialFailed, Unavailable
from millrace.model.servers import InstalledServer

_MAY_NOT = frozenset({1044, 1142, 1143, 1227, 1370})
_HAS_NOT = frozenset({1049, 1054, 1109, 1146, 1193, 1286})

MOST_ROWS = 100_000  # of any answer: no server has as many variables, digests or threads

_MOST_CHARS = 1 << 20
_MOST_WORDS = 200

PROCESS_RIGHT = "GRANT PROCESS ON *.* to millrace's account"
SCHEMA_RIGHT = "GRANT SELECT ON performance_schema.* to millrace's account"


@dataclass(frozen=True)
class Question:
    """A statement for the rows of a table; ``columns`` are those of our names that it yields."""

    sql: str
    columns: frozenset[str]


def session(target: Target, database: str | None = None) -> Connection[Any]:
    """A session of an observer's own; the caller closes it. Raises Unavailable where the server
    does not let it in."""
    try:
        return target.instance.connect(database, limit_s=target.limit_s)
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error
    except pymysql.MySQLError as error:
        raise Unavailable(f"the server gives no session: {words_of(error)}") from error


def version_of(target: Target) -> tuple[int, ...]:
    """The version of the server, as a key. Raises Unavailable where it does not tell."""
    server = target.instance.server
    if isinstance(server, InstalledServer):
        return version_key(server.version)
    try:
        return version_key(target.instance.version())
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error


def rows(asked: Connection[Any], sql: str) -> list[Row]:
    """The rows of a statement, by the columns' names in lower case. Raises what pymysql raises."""
    with asked.cursor() as cursor:
        cursor.execute(sql)
        if cursor.rowcount > MOST_ROWS:
            raise Unavailable(f"the server's answer has more than {MOST_ROWS:,} rows")
        names = [column[0].lower() for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@contextlib.contextmanager
def understood(what: str) -> Iterator[None]:
    """Turn what an odd answer leads to inside the block into Unavailable: values of other types,
    columns and rows that are not there."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        odd = f"{type(error).__name__}: {error}"[:_MOST_WORDS]
        raise Unavailable(f"{what}: the server's answer cannot be understood ({odd})") from error


def question(asked: Connection[Any], table: Table, database: str) -> Question:
    """The statement that yields what this server has of a table.

    Raises Unavailable where it has no such table, or does not show it.
    """
    try:
        with asked.cursor() as cursor:
            # Without a row, some tables are not looked into, and rights to them not asked for.
            cursor.execute(f"SELECT * FROM {table.name} LIMIT 1")  # noqa: S608 - from family.toml
            theirs = {column[0].upper() for column in cursor.description or ()}
    except pymysql.MySQLError as error:
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
    sql = f"SELECT {listed} FROM {table.name}{condition}"  # noqa: S608 - from family.toml
    if "%(database)s" not in sql:
        return Question(sql, frozenset(found))
    with asked.cursor() as cursor:
        return Question(cursor.mogrify(sql, {"database": database}), frozenset(found))


def unavailable(what: str, error: pymysql.MySQLError | OSError) -> Unavailable:
    """Why ``what`` is not told, in words, with what to do about it."""
    if isinstance(error, OSError):
        return Unavailable(f"{what}: {error}")
    code = error.args[0] if error.args else None
    if code in _MAY_NOT:
        right = SCHEMA_RIGHT if "performance_schema" in what else PROCESS_RIGHT
        return Unavailable(f"{what}: no right to read it", hint=right)
    if code in _HAS_NOT:
        return Unavailable(f"{what}: this server does not have it")
    return Unavailable(f"{what}: {words_of(error)}")


def missing(lack: Unavailable) -> dict[str, str | None]:
    """A part that is missing, for the key ``missing`` of what an observer tells."""
    return {"what": lack.message, "remedy": lack.hint}


def plain(value: object) -> Any:
    """A value of the server as JSON has it; None for a number that no server counts to."""
    if isinstance(value, Decimal | int | float):
        known = number(value)
        if known is None or not isinstance(value, Decimal):
            return known
        return int(known) if known == int(known) else known
    if value is None:
        return None
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return text[:_MOST_CHARS]
