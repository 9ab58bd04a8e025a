"""Define the queries, in mysqld.toml, by which servers are observed, and read their tables."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from millrace.databases.client import Session
from millrace.databases.deltas import number
from millrace.errors import DatabaseError, Unavailable

_MOST_CHARS = 1 << 20
_MOST_WORDS = 200

PROCESS_RIGHT = "GRANT PROCESS ON *.* to millrace's account"
SCHEMA_RIGHT = "GRANT SELECT ON performance_schema.* to millrace's account"


_Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]


class Data(BaseModel):
    """Data of a family's TOML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Table(Data):
    """A table in which a server reports on itself."""

    name: str
    columns: Mapping[str, _Names]  # the versions' names by ours; the first that exists counts
    where: str | None = None  # with %(database)s
    instruments: str | None = None  # a prefix; rows grow while one of these is on
    consumers: tuple[str, ...] = ()  # and while each of these is, if it exists


class Explains(Data):
    """The ``form`` in which versions from ``since`` explain statements beginning with ``verbs``."""

    since: str
    form: str
    verbs: frozenset[str]


class KindPattern(Data):
    """A kind of threads or files, by a pattern of their names."""

    kind: str
    pattern: re.Pattern[str]


class FilePattern(KindPattern):
    """A kind of files; commits wait for a ``commit_log``."""

    commit_log: bool = False


class Observable(Data):
    """The queries for a family's working servers; of patterns, the first match counts."""

    shared_status: str  # a regular expression: status variables that sessions have a share of
    gauges: tuple[str, ...]  # names or patterns; other status variables count
    metric_gauges: tuple[str, ...]  # likewise of engine metrics
    process_list: str  # a statement
    performance_schema: str  # a statement: is it on?
    thread_handling: str  # a statement: how do sessions get threads?
    explains: tuple[Explains, ...]  # the last that is not newer than the server
    tables: Mapping[str, Table]
    thread_kinds: tuple[KindPattern, ...]  # names in the Performance Schema
    own_thread_names: tuple[KindPattern, ...]  # that threads set themselves
    thread_functions: Mapping[str, tuple[str, ...]]  # of unnamed threads, by kind
    session_functions: frozenset[str]  # of threads that serve clients
    command_functions: frozenset[str]  # that execute one command of a session
    files: tuple[FilePattern, ...]


def observable(common: Mapping[str, Any], data: Mapping[str, Any]) -> Observable:
    """Return the queries for all servers of the line, with the additions of a family."""
    gauges = [*common["gauges"], *data["gauges"]]
    return Observable.model_validate({**common, **data, "gauges": gauges})


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
        return Unavailable(f"{what}: permission denied", hint=right)
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
