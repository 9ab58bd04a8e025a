"""What a server counts: status variables and the engine's metrics between the marks, the engine's
status at both, and the process list in between.

The observer's own statements are in what the server counts. Of ``Questions``, ``Queries`` and the
``Com_`` variables of this observer's statements, what it asked is taken off. What remains: the
statements of other observers (about ten a trial), and for all of them the rows, temporary tables
and bytes that their answers take (``Handler_``, ``Created_tmp_``, ``Bytes_``): a few thousand.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from millrace import databases
from millrace.collect import query
from millrace.collect.model import Observer, Target
from millrace.collect.process_list import Watcher
from millrace.databases.base import Observable
from millrace.databases.deltas import Number, Row, grown, number, split
from millrace.errors import Unavailable

NAME = "status"
COST = (
    "Three short questions at each mark (SHOW GLOBAL STATUS, the engine's metrics and what it "
    "compressed, a few milliseconds), SHOW ENGINE INNODB STATUS once at each end, and the process "
    "list once a second at most, 20 times in all; each look at the process list keeps sessions "
    "from being opened and closed for some microseconds. Two sessions stay open."
)

# Names of MySQL have 64 characters at most; no server has 2,000 variables.
_MOST_CHARS = 128
_MOST_NAMES = 10_000

_EVERY_STATEMENT = ("Questions", "Queries")


@dataclass(frozen=True)
class Look:
    """Status variables and metrics that are numbers, by name, at a moment."""

    status: Mapping[str, Number]
    metrics: Mapping[str, Number]


def observer(target: Target) -> Observer:
    """An observer of what the server counts. Raises Unavailable where it gives no session."""
    return _StatusObserver(target)


class _StatusObserver:
    def __init__(self, target: Target) -> None:
        self._asked_of = databases.get(target.instance.server.family).observable
        self._missing: list[Unavailable] = []
        with contextlib.ExitStack() as opened:
            self._session = opened.enter_context(contextlib.closing(query.session(target)))
            watching = opened.enter_context(contextlib.closing(query.session(target)))
            self._metrics_sql = self._question_for("metrics", target.database, may_be_silent=False)
            self._compression_sql = self._question_for(
                "compression", target.database, may_be_silent=True
            )
            self._watcher = Watcher(
                watching,
                self._asked_of.engine_status,
                self._asked_of.process_list,
                target.database,
            )
            opened.callback(self._watcher.abandon)
            self._look()  # the first one takes longer than at the mark it may
            self._opened = opened.pop_all()
        self._looks: list[Look] = []

    def begin(self) -> None:
        self._looks.append(self._look())
        self._watcher.start()

    def end(self) -> None:
        self._looks.append(self._look())
        self._watcher.finish()

    def told(self) -> Mapping[str, Any]:
        before, after = self._looks
        watched = self._watcher.watched()
        own = Counter(watched.asked)
        own["Com_show_status"] += 1
        own["Com_select"] += sum(
            sql is not None for sql in (self._metrics_sql, self._compression_sql)
        )
        return {
            "status": section(before, after, self._asked_of, own),
            "engine_status": watched.engine_status,
            "processlist": watched.process_list,
            "missing": [query.missing(lack) for lack in [*self._missing, *watched.missing]],
        }

    def close(self) -> None:
        self._opened.close()

    def _question_for(self, name: str, database: str, *, may_be_silent: bool) -> str | None:
        """What asks for the rows of a table; None where the server does not have it, or has it, but
        with nothing that is on."""
        table = self._asked_of.tables[name]
        try:
            sql = query.question(self._session, table, database).sql
            if not may_be_silent:
                with query.understood(table.name):
                    refuse_silent(table.name, query.rows(self._session, sql))
        except Unavailable as lack:
            self._missing.append(lack)
            return None
        return sql

    def _look(self) -> Look:
        with query.understood("what the server counts"):
            return self._counted()

    def _counted(self) -> Look:
        status = query.rows(self._session, self._asked_of.status)
        metrics: Iterable[Row] = ()
        if self._metrics_sql is not None:
            metrics = query.rows(self._session, self._metrics_sql)
        compression: Iterable[Row] = ()
        if self._compression_sql is not None:
            compression = query.rows(self._session, self._compression_sql)
        return Look(status_in(status), {**metrics_in(metrics), **compression_in(compression)})


def status_in(rows: Iterable[Row]) -> dict[str, Number]:
    """The status variables that are numbers."""
    return _numbers((row["variable_name"], row["value"]) for row in rows)


def metrics_in(rows: Iterable[Row]) -> dict[str, Number]:
    """The metrics that are on."""
    return _numbers((row["name"], row["count"]) for row in rows if _is_on(row["enabled"]))


def _numbers(values: Iterable[tuple[object, object]]) -> dict[str, Number]:
    """The values that are numbers and have a name of their own."""
    found = {
        name: value
        for name, text in values
        if isinstance(name, str) and len(name) <= _MOST_CHARS
        if (value := number(text)) is not None
    }
    return dict(itertools.islice(found.items(), _MOST_NAMES))


def refuse_silent(name: str, rows: Collection[Row]) -> None:
    """Raise Unavailable where the metrics tell nothing."""
    if not rows:
        # MariaDB to 10.1 shows no rows to those who have no right to them.
        raise Unavailable(f"{name}: no row is shown", hint=query.PROCESS_RIGHT)
    if not metrics_in(rows):
        raise Unavailable(
            f"{name}: all metrics are off",
            hint="set innodb_monitor_enable = all in all configurations",
        )


def compression_in(rows: Iterable[Row]) -> dict[str, Number]:
    """How many pages were compressed and decompressed, and for how many seconds, of all sizes:
    ``INNODB_CMP.compress_ops`` and so on."""
    found: dict[str, Number] = {}
    for row in rows:
        for name, value in row.items():
            found[f"INNODB_CMP.{name}"] = found.get(f"INNODB_CMP.{name}", 0) + (number(value) or 0)
    return found


def section(
    before: Look, after: Look, observable: Observable, own: Mapping[str, int]
) -> dict[str, Any]:
    """What counted between two looks, and what gauges are at the second one.

    ``own`` are statements of the observer between the looks, by their status variable.
    """
    counted, gauges = split(after.status, observable.gauges)
    metrics_counted, metric_gauges = split(after.metrics, observable.metric_gauges)
    return {
        "deltas": _without(own, grown(before.status, counted)),
        "gauges": gauges,
        "metrics": grown(before.metrics, metrics_counted),
        "metric_gauges": metric_gauges,
    }


def _without(own: Mapping[str, int], deltas: Mapping[str, Number]) -> dict[str, Number]:
    """Deltas less the observer's own statements; what they alone made is left out."""
    asked = {**own, **dict.fromkeys(_EVERY_STATEMENT, sum(own.values()))}
    less = {name: value - asked.get(name, 0) for name, value in deltas.items()}
    return {name: value for name, value in less.items() if value > 0}


def _is_on(enabled: object) -> bool:
    """MySQL says ``enabled``, MariaDB from 10.5 says 1."""
    return str(enabled) in ("enabled", "1")
