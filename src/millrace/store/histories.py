"""Record points of histories and their changes, read them series by series, and remove them.

A store may hold ten thousand series of a thousand points. One query reads all in the order of the
table, and memory holds one series at a time.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from millrace.errors import UserError
from millrace.store import checked, history_rows, schema
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
from millrace.store.history_rows import MOST_NAMED, Recordings
from millrace.store.records import Origin

Transaction = Callable[[], AbstractContextManager[Connection]]
PointKey = tuple[str, str]  # a series' id and the label of a point

_AT_ONCE = 10_000  # rows

_SERIES, _STATES, _CHANGES = schema.history_series, schema.history_states, schema.history_changes
_POINTS, _RECORDINGS = schema.history_points, schema.history_recordings
_OF_RUNS = _POINTS.join(_SERIES).join(_RECORDINGS)


class Histories:
    """The histories of an open results store; each method is a transaction."""

    def __init__(self, path: Path, reading: Transaction, writing: Transaction) -> None:
        self._path = path
        self._reading = reading
        self._writing = writing

    # Points.

    def record(self, part: HistoryPart) -> Recorded:
        """Add the points of one run, one at least, except those with labels of other runs.

        Where the run's blocks have changed, its points replace the old ones. Raises UserError for a
        run that was recorded under other labels.
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
            history_rows.update_margins(connection, kept.series)
            history_rows.insert_part(connection, kept)
        replaced = sum(key in old for key in recordable_keys)
        added = len(recordable) - replaced
        return Recorded(added=added, replaced=replaced, present=0, taken=counted)

    def forget(self, run_id: str, origin: Origin = "local") -> int:
        """Remove the points of a run, and series that become empty; return the number of points."""
        with self._writing() as connection:
            number = _delete_points(connection, run_id, origin)
            connection.execute(delete(_RECORDINGS).where(_is_of(run_id, origin)))
            empty = ~exists().where(_POINTS.c.series_id == _SERIES.c.id)
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
        """Return every series, in the order in which they began."""
        with self._reading() as connection:
            found = connection.execute(select(_SERIES).order_by(_SERIES.c.id))
            return [history_rows.series_record(row) for row in found]

    def read(self, series: Collection[str] | None = None) -> Iterator[History]:
        """Yield each series (of these ids, if any are named) with all its points."""
        with self._reading() as connection:
            rows = {
                row.id: row
                for row in connection.execute(select(_SERIES))
                if series is None or row.key in series
            }
            query = select(*history_rows.point_columns()).order_by(
                _POINTS.c.series_id, _POINTS.c.recording_id, _POINTS.c.place
            )
            if len(rows) <= MOST_NAMED:
                query = query.where(_POINTS.c.series_id.in_(list(rows)))
            recordings, states = Recordings(connection), history_rows.state_keys(connection)
            streamed = connection.execution_options(yield_per=_AT_ONCE).execute(query)
            for series_id, of_series in groupby(streamed, key=lambda row: row[0]):
                if series_id in rows:
                    row = rows[series_id]
                    found = recordings.points(of_series, states)
                    yield checked.record(
                        History,
                        series=history_rows.series_record(row),
                        points=found,
                        examined=row.examined,
                    )

    def states(self) -> dict[str, StateRecord]:
        """Return every state in which a point was measured, by id."""
        with self._reading() as connection:
            found = connection.execute(select(_STATES))
            return {row.key: history_rows.state_record(row) for row in found}

    def series_with(self, labels: Collection[str]) -> dict[tuple[Origin, str], int]:
        """Return the number of series of each origin that have a point of each of these labels."""
        column, origin = _POINTS.c.label, _SERIES.c.origin
        query = select(column, origin, func.count().label("series"))
        query = query.select_from(_POINTS.join(_SERIES)).group_by(column, origin)
        if len(labels) <= MOST_NAMED:
            query = query.where(column.in_(labels))
        with self._reading() as connection:
            found = connection.execute(query)
            return {(row.origin, row.label): row.series for row in found if row.label in labels}

    # Changes.

    def changes(self) -> list[ChangeRecord]:
        """Return every change that was ever found, series by series."""
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
                hint=f"give more of it: {', '.join(each.id for each in found[:8])}",
            )
        raise UserError(
            f"{self._path}: no change point has an id that starts with {wanted!r}",
            hint="`millrace history show` lists them; `millrace history detect` looks for them",
        )

    def keep(
        self, changes: Sequence[ChangeRecord], examined: Mapping[str, int] | None = None
    ) -> None:
        """Store new and changed changes, and the number of points ``examined`` for each series."""
        with self._writing() as connection:
            _keep(connection, changes)
            for series, number in (examined or {}).items():
                row = _SERIES.c.key == series
                connection.execute(update(_SERIES).where(row).values(examined=number))

    # Portable files.

    def of_runs(self, run_ids: Collection[str]) -> HistoryPart:
        """Return the points of these runs, in the order of recording, with all references.

        A run that was removed and imported again also has the points of before; these stay here.
        """
        runs = schema.runs
        of_stored = _OF_RUNS.join(runs, runs.c.id == _RECORDINGS.c.run_id)
        is_local = runs.c.imported_utc.is_(None)
        query = (
            select(*history_rows.point_columns(), _SERIES.c.key)
            .select_from(of_stored)
            .where(_RECORDINGS.c.run_id.in_(run_ids), is_local == (_RECORDINGS.c.origin == "local"))
            .order_by(_POINTS.c.recording_id, _POINTS.c.series_id, _POINTS.c.place)
        )
        with self._reading() as connection:
            of_points, states = Recordings(connection), history_rows.state_keys(connection)
            found = [
                (row[-1], of_points.point(row[:-1], states)) for row in connection.execute(query)
            ]
            changes = tuple(_changes(connection))
        every = HistoryPart(tuple(self.series()), tuple(self.states().values()), (), changes)
        return only(every, found)


def add_imported(
    connection: Connection, path: Path, of_file: HistoryPart, *, of_runs: Collection[str]
) -> None:
    """Add points of runs just imported from ``path``, and their changes, as imported ones.

    No row that exists is changed. Raise UserError for a series of another unit or direction than
    the imported one of the same id.
    """
    part = as_imported(of_file)
    _refuse_other_units(connection, path, part)
    taken = _taken(connection, part)
    imported = _RECORDINGS.c.origin == "imported"
    recorded = set(connection.scalars(select(_RECORDINGS.c.run_id).where(imported)))
    new = set(of_runs) - recorded
    points = [(of, p) for of, p in part.points if (of, p.label) not in taken and p.run_id in new]
    added = only(part, points)
    history_rows.insert_part(connection, added)
    known = {each.id for each in _changes(connection)}
    _keep(connection, [each for each in added.changes if each.id not in known])


def only(part: HistoryPart, points: Sequence[tuple[str, PointRecord]]) -> HistoryPart:
    """Return ``part`` reduced to these points and to what they refer to."""
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
    if len(labels) <= MOST_NAMED:
        query = query.where(_POINTS.c.label.in_(labels))
    rows = connection.execute(query)
    return {(row.key, row.label): row.run_id for row in rows if (row.key, row.label) in wanted}


def _refuse_other_units(connection: Connection, path: Path, part: HistoryPart) -> None:
    known = {row.key: row for row in connection.execute(select(_SERIES))}
    for series in part.series:
        row = known.get(series.id)
        if (
            row is not None
            and replace(history_rows.series_record(row), title=series.title, margin=series.margin)
            != series
        ):
            raise UserError(
                f"{path}: series {series.id.removeprefix(IMPORTED)} ({series.experiment}) differs "
                "from the one of the same id that was imported before; nothing was imported",
                hint="one of the two files was changed: import it into a store of its own with "
                "--store PATH, or remove the other's points with `millrace history forget RUN`",
            )


def _is_of(run_id: str, origin: Origin) -> ColumnElement[bool]:
    return and_(_RECORDINGS.c.run_id == run_id, _RECORDINGS.c.origin == origin)


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
            hint=f"`millrace history forget {run_id}` takes it out, to record it anew",
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
    return [history_rows.change_record(row) for row in connection.execute(query)]


def _keep(connection: Connection, changes: Sequence[ChangeRecord]) -> None:
    if not changes:
        return
    ids = history_rows.series_ids(connection, {each.series for each in changes})
    known = set(connection.scalars(select(_CHANGES.c.id)))
    for each in changes:
        row = history_rows.change_row(each, ids[each.series])
        if each.id in known:
            connection.execute(update(_CHANGES).where(_CHANGES.c.id == each.id).values(**row))
        else:
            connection.execute(insert(_CHANGES).values(**row))
