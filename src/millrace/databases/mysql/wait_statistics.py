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

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millrace.databases.client import Row, Session
from millrace.databases.deltas import Number, by_key, grown_rows
from millrace.databases.monitoring import Sections
from millrace.databases.mysql import performance_schema, query
from millrace.databases.mysql.observable import Observable
from millrace.errors import Unavailable

REST = "(prepared statements)"

_TABLES = ("waits", "digests", "prepared", "executions", "stages")
# The other tables concern prepared statements, and are missed only where there are any of these.
_WANTED = ("waits", "digests", "stages")
_PARTLY = ("waits", "stages")

_MOST_ROWS = 200
_PICOSECONDS = 1e12
_FEW = 0.01

_TIMES = ("wait", "lock", "cpu")
_COUNTS = (
    "rows_examined",
    "rows_sent",
    "rows_affected",
    "tmp_tables",
    "tmp_disk_tables",
    "no_index_used",
    "sort_rows",
    "errors",
)

_COUNTERS = ("count", *_TIMES, *_COUNTS)
_UNCOUNTED = ("lock", *(name for name in _COUNTS if name not in ("rows_affected", "errors")))

Snapshot = Mapping[str, Mapping[Any, Row]]


class MysqlWaitStatistics:
    """The wait statistics of MySQL and MariaDB: see ``databases.monitoring.WaitStatistics``."""

    def __init__(self, session: Session, observable: Observable, database: str) -> None:
        self._session = session
        self._observable = observable
        self._summaries = performance_schema.summaries(session, observable, _TABLES, database)

    def read(self) -> Snapshot:
        with query.understood("the Performance Schema"):
            return {
                name: by_key(self._session.rows(question.sql), _COUNTERS)
                for name, question in self._summaries.questions.items()
            }

    def between(self, before: Snapshot, after: Snapshot) -> Sections:
        with query.understood("the Performance Schema"):
            return self._between(before, after)

    def _between(self, before: Snapshot, after: Snapshot) -> Sections:
        deltas = {name: deltas_of(before[name], after[name]) for name in after}
        statements, lost = statements_of(deltas, tells_cpu=self._summaries.tells_cpu)
        lack = self._summaries.lacking.get("waits")
        return {
            "waits": {
                "enabled": lack is None,
                "why": None if lack is None else lack.message,
                "not_instrumented": list(self._summaries.not_instrumented.get("waits", ())),
                "events": events_of(deltas.get("waits", ())),
            },
            "digests": statements,
            "stages": events_of(deltas.get("stages", ())),
            "missing": [query.missing(lack) for lack in (*self._lacks(), *lost)],
        }

    def _lacks(self) -> Iterable[Unavailable]:
        """Return the missing observations with their reasons, each reason once."""
        found = self._summaries
        lacking = [found.lacking[name] for name in _WANTED if name in found.lacking]
        partly = [
            performance_schema.partial(self._observable.tables[name], classes)
            for name in _PARTLY
            if (classes := found.not_instrumented.get(name))
        ]
        return {lack.message: lack for lack in [*lacking, *partly]}.values()


def deltas_of(before: Mapping[Any, Row], after: Mapping[Any, Row]) -> list[Row]:
    """Return the rows whose count grew, with their increases."""
    return list(grown_rows(before, after, _COUNTERS).values())


def events_of(deltas: Iterable[Row]) -> list[dict[str, Any]]:
    """Return waits or stages, the longest first."""
    events = [
        {
            "name": query.plain(row["key"]),
            "count": row["count"],
            "wait_s": row["wait"] / _PICOSECONDS,
        }
        for row in deltas
    ]
    return _longest(events)


def statements_of(
    deltas: Mapping[str, Sequence[Row]], *, tells_cpu: bool
) -> tuple[list[dict[str, Any]], list[Unavailable]]:
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
                f"{rest[0]['count']} executions of prepared statements are not told apart",
                hint="send statements as text (parameter protocol)",
            )
        )
    told = [_told(row, tells_cpu=tells_cpu) for row in (*digests, *rest)]
    return _longest(told), lost


def _by_text(rows: Iterable[Row]) -> list[Row]:
    """Merge the rows of statements that several sessions prepared."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["text"], []).append(row)
    return [
        {"text": text, **{name: _total(group, name) for name in _COUNTERS}}
        for text, group in groups.items()
    ]


def _rest(executions: Sequence[Row], told: Sequence[Row]) -> list[Row]:
    """Return one row for the executions of unknown statements; none where they are very few.

    Locks take time in every version. Where their time is 0, the version (MySQL 5.6, MariaDB 10.1)
    counts only times and changes for these executions, and all other columns are None rather than
    0.
    """
    if not executions:
        return []
    rest: dict[str, Any] = {
        name: _less(executions[0][name], _total(told, name)) for name in _COUNTERS
    }
    if rest["count"] <= _FEW * executions[0]["count"]:
        return []
    uncounted = dict.fromkeys(_UNCOUNTED) if not rest["lock"] else {}
    return [{"text": REST, **rest, **uncounted}]


def _less(all_of_them: Number | None, told: Number | None) -> Number | None:
    return None if all_of_them is None else max(all_of_them - (told or 0), 0)


def _total(rows: Iterable[Row], name: str) -> Any:
    """Return the sum of a column; None where a row lacks it."""
    values = [row[name] for row in rows]
    return None if None in values else sum(values)


def _told(row: Row, *, tells_cpu: bool) -> dict[str, Any]:
    return {
        "text": query.plain(row["text"]).strip(),
        "count": row["count"],
        "wait_s": row["wait"] / _PICOSECONDS,
        "lock_s": None if row["lock"] is None else row["lock"] / _PICOSECONDS,
        "cpu_s": None if row["cpu"] is None or not tells_cpu else row["cpu"] / _PICOSECONDS,
        **{name: row[name] for name in _COUNTS},
    }


def _longest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row["wait_s"])[:_MOST_ROWS]
