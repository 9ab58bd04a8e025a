"""Build the queries that a server's Performance Schema can answer with its current setup.

It may be missing from the build, off, or on with most of its instruments off, which is the default:
MySQL from 5.6 leaves mutexes, the engine's locks and stages off, and MariaDB leaves it off
altogether.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millrace.databases.client import Session
from millrace.databases.mysql import query
from millrace.databases.mysql.observable import Observable, Table
from millrace.databases.mysql.query import TableQuery
from millrace.errors import DatabaseError, Unavailable

CPU_CONSUMER = "events_statements_cpu"

_TURN_ON = "set performance_schema = ON in all configurations (it takes time)"


@dataclass(frozen=True)
class Setup:
    """The instruments and consumers of a server, each with whether it is on."""

    instruments: Mapping[str, bool]
    consumers: Mapping[str, bool]


@dataclass(frozen=True)
class Summaries:
    """The queries for the available summaries, and why others or parts are unavailable."""

    queries: Mapping[str, TableQuery]
    missing: Mapping[str, Unavailable]
    not_instrumented: Mapping[str, Sequence[str]]
    reports_cpu: bool


def summaries(
    session: Session, observable: Observable, names: Iterable[str], database: str
) -> Summaries:
    """Return the queries for the tables called ``names``. Raise DatabaseError on a lost session."""
    tables = {name: observable.tables[name] for name in names}
    try:
        with query.understood("the Performance Schema"):
            setup = _setup(session, observable, database)
    except Unavailable as why:
        return Summaries({}, dict.fromkeys(tables, why), {}, False)
    found: dict[str, TableQuery] = {}
    missing: dict[str, Unavailable] = {}
    for name, table in tables.items():
        try:
            table_query = query.table_query(session, table, database)
            require_instruments(table, setup)
            found[name] = table_query
        except Unavailable as why:
            missing[name] = why
    return Summaries(
        queries=found,
        missing=missing,
        not_instrumented={name: classes_off(tables[name], setup) for name in found},
        reports_cpu=setup.consumers.get(CPU_CONSUMER, False),
    )


def _setup(session: Session, observable: Observable, database: str) -> Setup:
    """Return the setup. Raise Unavailable where it is off, missing or unreadable."""
    try:
        (row,) = session.rows(observable.performance_schema)
    except DatabaseError as error:
        raise query.unavailable("the Performance Schema", error) from error
    if not any(row.values()):
        raise Unavailable("the Performance Schema is off", hint=_TURN_ON)
    instruments, consumers = (
        session.rows(query.table_query(session, observable.tables[name], database).sql)
        for name in ("instruments", "consumers")
    )
    return Setup(
        {row["name"]: (row["enabled"], row["timed"]) == ("YES", "YES") for row in instruments},
        {row["name"]: row["enabled"] == "YES" for row in consumers},
    )


def require_instruments(table: Table, setup: Setup) -> None:
    """Raise Unavailable where the server adds nothing to a table."""
    for name in table.consumers:
        if not setup.consumers.get(name, True):
            raise Unavailable(
                f"{table.name}: the consumer {name} is off",
                hint=f"set performance_schema_consumer_{name} = ON in all configurations",
            )
    if not any(_instruments_of(table, setup).values()):
        raise Unavailable(
            f"{table.name}: all instruments {table.instruments}% are off", hint=_switch(table)
        )


def classes_off(table: Table, setup: Setup) -> tuple[str, ...]:
    """Return the classes (such as wait/synch/mutex) of instruments that are mostly off."""
    classes: dict[str, list[bool]] = {}
    for name, is_on in _instruments_of(table, setup).items():
        parts = 3 if name.startswith("wait/") else 2
        classes.setdefault("/".join(name.split("/")[:parts]), []).append(is_on)
    return tuple(sorted(name for name, on in classes.items() if sum(on) * 2 < len(on)))


def partial(table: Table, classes: Iterable[str]) -> Unavailable:
    """Return the error that reports which classes of a table's instruments are off."""
    listed = ", ".join(classes)
    return Unavailable(f"not instrumented: {listed}", hint=_switch(table))


def _switch(table: Table) -> str:
    return (
        f"set performance_schema_instrument = '{table.instruments}%=ON' in all configurations "
        "(it takes time)"
    )


def _instruments_of(table: Table, setup: Setup) -> Mapping[str, bool]:
    prefix = table.instruments or ""
    return {name: is_on for name, is_on in setup.instruments.items() if name.startswith(prefix)}
