"""Read the Performance Schema's totals of waits, statements by digest, and stages.

Its settings stay as they are, and no table is emptied.

Waits and stages cover the whole server: background threads wait too, a wait for a table includes
the waits for its files, and the collectors' own queries are in both (a few milliseconds). Sessions
that wait for their client count under ``idle``, which is left out. Digests cover only sessions in
the observed database, and so exclude collectors, which have no database.

Executions of prepared statements have a digest only from MySQL 9, as ``EXECUTE SELECT ...``. From
5.7 on, earlier MySQL keeps them in a table of their own, under the prepared text, while the session
that prepared them exists. All executions that neither table shows (MySQL 5.6, MariaDB, ended
sessions) go into one row, which covers the whole server.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from millrace.databases.client import Row, Session
from millrace.databases.deltas import Number, by_key, increased_rows
from millrace.databases.monitoring import ServerTotals
from millrace.databases.mysql import query
from millrace.databases.mysql.query import Observable, Table, TableQuery
from millrace.errors import DatabaseError, Unavailable
from millrace.model.observations import DIGEST_COUNTS, Digest, TimedEvent, Waits

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


REST = "(prepared statements)"

_TABLES = ("waits", "digests", "prepared", "executions", "stages")
# The other tables concern prepared statements, and are missed only where there are any of these.
_REQUIRED = ("waits", "digests", "stages")
_PARTLY = ("waits", "stages")

_MOST_ROWS = 200
_PICOSECONDS = 1e12
_FEW = 0.01

_TIMES = ("wait", "lock", "cpu")
_COUNTERS = ("count", *_TIMES, *DIGEST_COUNTS)
_UNCOUNTED = ("lock", *(name for name in DIGEST_COUNTS if name not in ("rows_affected", "errors")))

Snapshot = Mapping[str, Mapping[Any, Row]]
_Timed = TypeVar("_Timed", TimedEvent, Digest)


class MysqlWaitStatistics:
    """The wait statistics of MySQL and MariaDB: see ``databases.monitoring.WaitStatistics``."""

    def __init__(self, session: Session, observable: Observable, database: str) -> None:
        self._session = session
        self._observable = observable
        self._summaries = summaries(session, observable, _TABLES, database)

    def read(self) -> Snapshot:
        with query.understood("the Performance Schema"):
            return {
                name: by_key(self._session.rows(table_query.sql), _COUNTERS)
                for name, table_query in self._summaries.queries.items()
            }

    def between(self, before: Snapshot, after: Snapshot) -> ServerTotals:
        with query.understood("the Performance Schema"):
            deltas = {name: deltas_of(before[name], after[name]) for name in after}
            digests, lost = digests_of(deltas, reports_cpu=self._summaries.reports_cpu)
            off = self._summaries.missing.get("waits")
            waits = Waits(
                enabled=off is None,
                why=None if off is None else off.message,
                not_instrumented=tuple(self._summaries.not_instrumented.get("waits", ())),
                events=tuple(events_of(deltas.get("waits", ()))),
            )
            stages = events_of(deltas.get("stages", ()))
            return ServerTotals(waits, digests, stages, [*self._missing(), *lost])

    def _missing(self) -> Iterable[Unavailable]:
        """Return the missing observations with their reasons, each reason once."""
        found = self._summaries
        missing = [found.missing[name] for name in _REQUIRED if name in found.missing]
        missing += [
            partial(self._observable.tables[name], classes)
            for name in _PARTLY
            if (classes := found.not_instrumented.get(name))
        ]
        return {each.message: each for each in missing}.values()


def deltas_of(before: Mapping[Any, Row], after: Mapping[Any, Row]) -> list[Row]:
    """Return the rows whose count grew, with their increases."""
    return list(increased_rows(before, after, _COUNTERS).values())


def events_of(deltas: Iterable[Row]) -> list[TimedEvent]:
    """Return waits or stages, the longest first."""
    return _longest(
        TimedEvent(
            name=query.plain(row["key"]), count=row["count"], wait_s=row["wait"] / _PICOSECONDS
        )
        for row in deltas
    )


def digests_of(
    deltas: Mapping[str, Sequence[Row]], *, reports_cpu: bool
) -> tuple[list[Digest], list[Unavailable]]:
    """Return statements, the longest first, and the observations of them that are missing."""
    digests = [row for row in deltas.get("digests", ()) if row["key"] is not None]
    homeless = sum(row["count"] for row in deltas.get("digests", ()) if row["key"] is None)
    executed = [row for row in digests if row["text"].startswith("EXECUTE ")]
    prepared = _by_text(deltas.get("prepared", ()))
    if _total(executed, "count") < _total(prepared, "count"):
        executed, digests = prepared, digests + prepared
    rest = _rest(deltas.get("executions", ()), executed)
    lost = []
    if homeless > _FEW * _total(digests, "count"):
        lost.append(
            Unavailable(
                f"digests of {homeless} statements: no room for them",
                hint="set performance_schema_digests_size higher",
            )
        )
    if rest:
        lost.append(
            Unavailable(
                f"{rest[0]['count']} executions of prepared statements have no digest of their own",
                hint="send statements as text (parameter protocol)",
            )
        )
    return _longest(_digest(row, reports_cpu=reports_cpu) for row in (*digests, *rest)), lost


def _by_text(rows: Iterable[Row]) -> list[Row]:
    """Merge the rows of statements that several sessions prepared."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["text"], []).append(row)
    return [
        {"text": text, **{name: _total(group, name) for name in _COUNTERS}}
        for text, group in groups.items()
    ]


def _rest(executions: Sequence[Row], known: Sequence[Row]) -> list[Row]:
    """Return one row for the executions of unknown statements; none where they are very few.

    Locks take time in every version. Where their time is 0, the version (MySQL 5.6, MariaDB 10.1)
    counts only times and changes for these executions, and all other columns are None rather than
    0.
    """
    if not executions:
        return []
    rest: dict[str, Any] = {
        name: _less(executions[0][name], _total(known, name)) for name in _COUNTERS
    }
    if rest["count"] <= _FEW * executions[0]["count"]:
        return []
    uncounted = dict.fromkeys(_UNCOUNTED) if not rest["lock"] else {}
    return [{"text": REST, **rest, **uncounted}]


def _less(total: Number | None, known: Number | None) -> Number | None:
    return None if total is None else max(total - (known or 0), 0)


def _total(rows: Iterable[Row], name: str) -> Any:
    """Return the sum of a column; None where a row lacks it."""
    values = [row[name] for row in rows]
    return None if None in values else sum(values)


def _digest(row: Row, *, reports_cpu: bool) -> Digest:
    return Digest(
        text=query.plain(row["text"]).strip(),
        wait_s=row["wait"] / _PICOSECONDS,
        lock_s=None if row["lock"] is None else row["lock"] / _PICOSECONDS,
        cpu_s=None if row["cpu"] is None or not reports_cpu else row["cpu"] / _PICOSECONDS,
        **{name: row[name] for name in ("count", *DIGEST_COUNTS)},
    )


def _longest(found: Iterable[_Timed]) -> list[_Timed]:
    return sorted(found, key=lambda each: -each.wait_s)[:_MOST_ROWS]
