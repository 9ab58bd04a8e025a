"""Write, read and remove the points and changes of histories.

A store may have ten thousand series of a thousand points. One query reads all points in the order
of the table, and only one series is in memory at a time.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from millrace.errors import UserError
from millrace.store import checked, schema
from millrace.store.checked import NotARecord
from millrace.store.history_records import (
    IMPORTED,
    ChangeRecord,
    History,
    HistoryPart,
    PointRecord,
    Recorded,
    Recording,
    SeriesRecord,
    StateRecord,
    as_imported,
)
from millrace.store.records import Origin
from millrace.store.rows import AnyRow, insert_all

Transaction = Callable[[], AbstractContextManager[Connection]]
PointKey = tuple[str, str]  # a series' id and the label of a point

_AT_ONCE = 10_000  # rows
_MOST_NAMED = 1000  # ids in a WHERE clause; with more, all rows are read and filtered here

_SERIES, _STATES, _CHANGES = schema.history_series, schema.history_states, schema.history_changes
_POINTS, _RECORDINGS = schema.history_points, schema.history_recordings
_OF_RUNS = _POINTS.join(_SERIES).join(_RECORDINGS)

# Columns with the same names as the fields of records.
_OF_SERIES = tuple(each.name for each in fields(SeriesRecord) if each.name != "id")
_OF_CHANGE = tuple(
    each.name for each in fields(ChangeRecord) if each.name not in ("series", "remeasured")
)
_OF_POINT = (
    "place", "label", "level", "build", "ratio", "low", "high", "n_blocks", "log_sd",
)  # fmt: skip
_RATIOS = ("ratio", "low", "high")


class Histories:
    """The histories of an open results store; each method runs one transaction."""

    def __init__(self, path: Path, reading: Transaction, writing: Transaction) -> None:
        self._path = path
        self._reading = reading
        self._writing = writing

    # Points.

    def record(self, part: HistoryPart) -> Recorded:
        """Add the points of one run (at least one), and return the numbers of points by effect.

        A point whose label belongs to another run is not added. If numbers of blocks have
        changed since the run was recorded, its new points replace the old ones. Raise UserError for
        a run that was recorded under other labels.
        """
        _, first = part.points[0]
        run_id, origin = first.run_id, first.origin
        new = {(series, point.label): point.n_blocks for series, point in part.points}
        with self._writing() as connection:
            old = _blocks_of(connection, run_id, origin)
            _refuse_other_labels(self._path, run_id, old, new)
            taken = _taken(connection, part)
            counted = Counter(run for run in taken.values() if run != run_id)
            recordable = [
                (series, point)
                for series, point in part.points
                if taken.get((series, point.label), run_id) == run_id
            ]
            recordable_keys = [(series, point.label) for series, point in recordable]
            if old and all(old.get(key) == new[key] for key in recordable_keys):
                return Recorded(added=0, replaced=0, present=len(recordable), taken=counted)
            _delete_points(connection, run_id, origin)
            kept = only(part, recordable)
            _update_margins(connection, kept.series)
            _insert_part(connection, kept)
        replaced = sum(key in old for key in recordable_keys)
        added = len(recordable) - replaced
        return Recorded(added=added, replaced=replaced, present=0, taken=counted)

    def forget(self, run_id: str, origin: Origin = "local") -> int:
        """Remove a run's points, and series that become empty; return the number of points."""
        with self._writing() as connection:
            number = _delete_points(connection, run_id, origin)
            connection.execute(delete(_RECORDINGS).where(_is_of(run_id, origin)))
            empty = ~sa.exists().where(_POINTS.c.series_id == _SERIES.c.id)
            connection.execute(delete(_SERIES).where(empty))
        return number

    def recordings(self) -> list[Recording]:
        """Return the runs that have points, in the order of recording."""
        with self._reading() as connection:
            found = connection.execute(select(_RECORDINGS).order_by(_RECORDINGS.c.id))
            return [
                checked.record(Recording, run_id=row.run_id, at_utc=row.at_utc, origin=row.origin)
                for row in found
            ]

    def series(self) -> list[SeriesRecord]:
        """Return every series, in the order of creation."""
        with self._reading() as connection:
            found = connection.execute(select(_SERIES).order_by(_SERIES.c.id))
            return [_series_record(row) for row in found]

    def read(self, series: Collection[str] | None = None) -> Iterator[History]:
        """Yield each series with its points: those with the ids ``series``, by default all."""
        with self._reading() as connection:
            rows = {
                row.id: row
                for row in connection.execute(select(_SERIES))
                if series is None or row.key in series
            }
            query = select(*_point_columns()).order_by(
                _POINTS.c.series_id, _POINTS.c.recording_id, _POINTS.c.place
            )
            if len(rows) <= _MOST_NAMED:
                query = query.where(_POINTS.c.series_id.in_(list(rows)))
            reader = _PointReader(connection)
            streamed = connection.execution_options(yield_per=_AT_ONCE).execute(query)
            for series_id, of_series in groupby(streamed, key=lambda row: row[0]):
                if series_id in rows:
                    row = rows[series_id]
                    yield checked.record(
                        History,
                        series=_series_record(row),
                        points=reader.points(of_series),
                        examined=row.examined,
                    )

    def states(self) -> dict[str, StateRecord]:
        """Return all states (environments of points), by id."""
        with self._reading() as connection:
            found = connection.execute(select(_STATES))
            return {row.key: _state_record(row) for row in found}

    def series_with(self, labels: Collection[str]) -> dict[tuple[Origin, str], int]:
        """Return, by origin and label, the number of series that have a point with the label."""
        column, origin = _POINTS.c.label, _SERIES.c.origin
        query = select(column, origin, sa.func.count().label("series"))
        query = query.select_from(_POINTS.join(_SERIES)).group_by(column, origin)
        if len(labels) <= _MOST_NAMED:
            query = query.where(column.in_(labels))
        with self._reading() as connection:
            found = connection.execute(query)
            return {(row.origin, row.label): row.series for row in found if row.label in labels}

    # Changes.

    def changes(self) -> list[ChangeRecord]:
        """Return all changes, including withdrawn ones, ordered by series and date."""
        with self._reading() as connection:
            return _changes(connection)

    def find_change(self, wanted: str) -> ChangeRecord:
        """Return the change whose id starts with ``wanted``; UserError for none or several."""
        matching = [each for each in self.changes() if each.id.startswith(wanted)]
        found = [each for each in matching if each.id == wanted] or matching
        if len(found) == 1:
            return found[0]
        if found:
            raise UserError(
                f"{self._path}: {len(found)} change points have an id that starts with {wanted!r}",
                hint=f"give more characters of the id: {', '.join(each.id for each in found[:8])}",
            )
        raise UserError(
            f"{self._path}: no change point has an id that starts with {wanted!r}",
            hint="`millrace history show` lists the change points; `millrace history detect` looks "
            "for new ones",
        )

    def keep(
        self, changes: Sequence[ChangeRecord], examined: Mapping[str, int] | None = None
    ) -> None:
        """Insert or update changes, and set the number of points ``examined`` of series by id."""
        with self._writing() as connection:
            _keep(connection, changes)
            for series, number in (examined or {}).items():
                row = _SERIES.c.key == series
                connection.execute(update(_SERIES).where(row).values(examined=number))

    # Portable files.

    def of_runs(self, run_ids: Collection[str]) -> HistoryPart:
        """Return the points of these runs in the order of recording, with their series and states.

        A run that was removed and imported again may have points of both origins; only those with
        the origin of the stored run are returned.
        """
        runs = schema.runs
        of_stored = _OF_RUNS.join(runs, runs.c.id == _RECORDINGS.c.run_id)
        query = (
            select(*_point_columns(), _SERIES.c.key)
            .select_from(of_stored)
            .where(
                _RECORDINGS.c.run_id.in_(run_ids),
                (_RECORDINGS.c.origin == "local") == schema.IS_LOCAL,
            )
            .order_by(_POINTS.c.recording_id, _POINTS.c.series_id, _POINTS.c.place)
        )
        with self._reading() as connection:
            reader = _PointReader(connection)
            found = [(row[-1], reader.point(row[:-1])) for row in connection.execute(query)]
            changes = tuple(_changes(connection))
        every = HistoryPart(tuple(self.series()), tuple(self.states().values()), (), changes)
        return only(every, found)


def add_imported(
    connection: Connection, path: Path, of_file: HistoryPart, *, of_runs: Collection[str]
) -> None:
    """Add the points and changes of the runs that were just imported from ``path``.

    All rows get the origin ``imported``; existing rows do not change. Raise UserError for a series
    that differs (in unit or direction, say) from the imported series with the same id.
    """
    part = as_imported(of_file)
    _refuse_other_units(connection, path, part)
    taken = _taken(connection, part)
    imported = _RECORDINGS.c.origin == "imported"
    recorded = set(connection.scalars(select(_RECORDINGS.c.run_id).where(imported)))
    new = set(of_runs) - recorded
    points = [(of, p) for of, p in part.points if (of, p.label) not in taken and p.run_id in new]
    added = only(part, points)
    _insert_part(connection, added)
    known = {each.id for each in _changes(connection)}
    _keep(connection, [each for each in added.changes if each.id not in known])


def only(part: HistoryPart, points: Sequence[tuple[str, PointRecord]]) -> HistoryPart:
    """Return a part with only these points, and their series, states and changes."""
    series = {series for series, _ in points}
    states = {point.state for _, point in points}
    keys = {(series, point.label) for series, point in points}
    return replace(
        part,
        points=tuple(points),
        series=tuple(each for each in part.series if each.id in series),
        states=tuple(each for each in part.states if each.id in states),
        changes=tuple(each for each in part.changes if (each.series, each.label) in keys),
    )


def _taken(connection: Connection, part: HistoryPart) -> dict[PointKey, str]:
    wanted = {(series, point.label) for series, point in part.points}
    labels = {label for _, label in wanted}
    query = select(_SERIES.c.key, _POINTS.c.label, _RECORDINGS.c.run_id).select_from(_OF_RUNS)
    if len(labels) <= _MOST_NAMED:
        query = query.where(_POINTS.c.label.in_(labels))
    rows = connection.execute(query)
    return {(row.key, row.label): row.run_id for row in rows if (row.key, row.label) in wanted}


def _refuse_other_units(connection: Connection, path: Path, part: HistoryPart) -> None:
    known = {row.key: row for row in connection.execute(select(_SERIES))}
    for series in part.series:
        row = known.get(series.id)
        if (
            row is not None
            and replace(_series_record(row), title=series.title, margin=series.margin) != series
        ):
            raise UserError(
                f"{path}: series {series.id.removeprefix(IMPORTED)} ({series.experiment}) differs "
                "from the series with the same id that was imported before; nothing was imported",
                hint="one of the two files was changed: import this file into another store with "
                "--store PATH, or remove the earlier points with `millrace history forget RUN`",
            )


def _is_of(run_id: str, origin: Origin) -> ColumnElement[bool]:
    return sa.and_(_RECORDINGS.c.run_id == run_id, _RECORDINGS.c.origin == origin)


def _blocks_of(connection: Connection, run_id: str, origin: Origin) -> dict[PointKey, int]:
    query = select(_SERIES.c.key, _POINTS.c.label, _POINTS.c.n_blocks).select_from(_OF_RUNS)
    query = query.where(_is_of(run_id, origin))
    return {(row.key, row.label): row.n_blocks for row in connection.execute(query)}


def _refuse_other_labels(
    path: Path, run_id: str, old: Mapping[PointKey, int], new: Mapping[PointKey, int]
) -> None:
    before = dict.fromkeys(label for _, label in old)
    if before and not before.keys() & {label for _, label in new}:
        raise UserError(
            f"{path}: run {run_id} is recorded already, as {', '.join(before)}",
            hint=f"remove its points with `millrace history forget {run_id}`, then record it again",
        )


def _delete_points(connection: Connection, run_id: str, origin: Origin) -> int:
    of_run = select(_RECORDINGS.c.id).where(_is_of(run_id, origin)).scalar_subquery()
    return connection.execute(delete(_POINTS).where(_POINTS.c.recording_id == of_run)).rowcount


def _changes(connection: Connection) -> list[ChangeRecord]:
    query = (
        select(_CHANGES, _SERIES.c.key)
        .select_from(_CHANGES.join(_SERIES))
        .order_by(_CHANGES.c.series_id, _CHANGES.c.found_utc, _CHANGES.c.id)
    )
    return [_change_record(row) for row in connection.execute(query)]


def _keep(connection: Connection, changes: Sequence[ChangeRecord]) -> None:
    if not changes:
        return
    ids = _ids(connection, _SERIES, {each.series for each in changes})
    known = set(connection.scalars(select(_CHANGES.c.id)))
    for each in changes:
        row = _change_row(each, ids[each.series])
        if each.id in known:
            connection.execute(update(_CHANGES).where(_CHANGES.c.id == each.id).values(**row))
        else:
            connection.execute(insert(_CHANGES).values(**row))


def _series_record(row: AnyRow) -> SeriesRecord:
    named = {name: getattr(row, name) for name in _OF_SERIES}
    return checked.valid_series(checked.record(SeriesRecord, id=row.key, **named))


def _state_record(row: AnyRow) -> StateRecord:
    return checked.record(StateRecord, id=row.key, host_id=row.host_id, facts=row.facts)


def _change_record(row: AnyRow) -> ChangeRecord:
    """Return the change of a row that was joined with its series (for ``key``)."""
    named = {name: getattr(row, name) for name in _OF_CHANGE}
    return checked.valid_change(
        checked.record(ChangeRecord, series=row.key, remeasured=row.remeasured, **named)
    )


def _change_row(change: ChangeRecord, series_id: int) -> dict[str, Any]:
    """Return a change as a row; ``series_id`` is the primary key of its series."""
    again = change.remeasured
    remeasured = None if again is None else _with_clipped_ratios(asdict(again))
    named = _with_clipped_ratios({name: getattr(change, name) for name in _OF_CHANGE})
    return {**named, "series_id": series_id, "remeasured": remeasured}


def _with_clipped_ratios(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, **{name: checked.clipped_ratio(values[name]) for name in _RATIOS}}


_NONE = (-1, "", "", "local")  # stands for a recording that does not exist


class _PointReader:
    """Convert rows to points, with the states and recordings of the whole store in memory."""

    def __init__(self, connection: Connection) -> None:
        query = select(_RECORDINGS).order_by(_RECORDINGS.c.at_utc, _RECORDINGS.c.id)
        ordered = connection.execute(query).all()
        for row in ordered:
            checked.require_valid_date(row.run_id, row.at_utc)
        self._runs = {
            row.id: (rank, row.at_utc, row.run_id, row.origin) for rank, row in enumerate(ordered)
        }
        keys = connection.execute(select(_STATES.c.id, _STATES.c.key))
        self._states = {row.id: row.key for row in keys}

    def points(self, rows: Iterable[AnyRow]) -> tuple[PointRecord, ...]:
        """Return the points in order of date; ``rows`` are ordered by recording and place."""
        runs = self._runs
        # The rows are nearly in order of date already, so sorting them is fast.
        ordered = sorted(rows, key=lambda row: runs.get(row.recording_id, _NONE)[0])
        return tuple(map(self.point, ordered))

    def point(self, row: Sequence[Any]) -> PointRecord:
        states = self._states
        (
            _, recording, place, label, level, build, ratio, low, high, n_blocks, log_sd, state,
        ) = row  # fmt: skip
        if recording not in self._runs or state not in states:
            raise NotARecord(f"point {label!r} refers to a missing recording or state")
        _, at_utc, run_id, origin = self._runs[recording]
        made = PointRecord(
            label=label, at_utc=at_utc, run_id=run_id, place=place, level=level, build=build,
            ratio=ratio, low=low, high=high, n_blocks=n_blocks, log_sd=log_sd, state=states[state],
            origin=origin,
        )  # fmt: skip
        checked.require_valid_point(made)
        return made


def _point_columns() -> list[Any]:
    """Return the columns of a point in the order that ``_PointReader.point`` expects."""
    return [_POINTS.c[name] for name in ("series_id", "recording_id", *_OF_POINT, "state_id")]


def _ids(connection: Connection, table: Table, keys: Collection[str]) -> dict[str, int]:
    """Return the primary keys of existing rows, by ``key``."""
    query = select(table.c.key, table.c.id)
    if len(keys) <= _MOST_NAMED:
        query = query.where(table.c.key.in_(keys))
    return {row.key: row.id for row in connection.execute(query) if row.key in keys}


def _insert_part(connection: Connection, part: HistoryPart) -> None:
    """Insert points, and missing series, states and recordings; changes are not inserted."""
    series = {each.id: {name: getattr(each, name) for name in _OF_SERIES} for each in part.series}
    ids = _insert_missing(connection, _SERIES, series)
    facts = {s.id: {"host_id": s.host_id, "facts": dict(s.facts)} for s in part.states}
    states = _insert_missing(connection, _STATES, facts)
    recordings = _insert_recordings(connection, [point for _, point in part.points])
    rows = [
        {
            **_with_clipped_ratios({name: getattr(point, name) for name in _OF_POINT}),
            "series_id": ids[of],
            "recording_id": recordings[point.run_id, point.origin],
            "state_id": states[point.state],
        }
        for of, point in part.points
    ]
    insert_all(connection, _POINTS, rows)


def _update_margins(connection: Connection, series: Iterable[SeriesRecord]) -> None:
    """Set the margin of existing series to that of the newest run."""
    for each in series:
        row = _SERIES.c.key == each.id
        connection.execute(update(_SERIES).where(row).values(margin=each.margin))


def _insert_missing(
    connection: Connection, table: Table, rows: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """Insert the rows whose key is new; return the primary keys of all ``rows``, by key."""
    known = set(connection.scalars(select(table.c.key)))
    missing = [{"key": key, **row} for key, row in rows.items() if key not in known]
    insert_all(connection, table, missing)
    return _ids(connection, table, rows.keys())


def _insert_recordings(
    connection: Connection, points: Sequence[PointRecord]
) -> dict[tuple[str, Origin], int]:
    query = select(_RECORDINGS.c.run_id, _RECORDINGS.c.origin, _RECORDINGS.c.id)

    def ids() -> dict[tuple[str, Origin], int]:
        return {(row.run_id, row.origin): row.id for row in connection.execute(query)}

    known = ids()
    dates = {(p.run_id, p.origin): p.at_utc for p in points if (p.run_id, p.origin) not in known}
    for (run_id, origin), at_utc in dates.items():
        values = {"run_id": run_id, "at_utc": at_utc, "origin": origin}
        connection.execute(insert(_RECORDINGS).values(**values))
    return ids()
