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
from typing import Any, TypeVar

from millrace.databases.client import Row, Session
from millrace.databases.deltas import Number, by_key, increased_rows
from millrace.databases.monitoring import ServerTotals
from millrace.databases.mysql import performance_schema, query
from millrace.databases.mysql.observable import Observable
from millrace.errors import Unavailable
from millrace.model.observations import DIGEST_COUNTS, Digest, TimedEvent, Waits

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
        self._summaries = performance_schema.summaries(session, observable, _TABLES, database)

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
            performance_schema.partial(self._observable.tables[name], classes)
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
