"""Convert records of histories to rows and back, as ``rows`` does for runs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, insert, select, update

from millrace.store import checked, schema
from millrace.store.checked import NotARecord
from millrace.store.history_records import (
    ChangeRecord,
    HistoryPart,
    PointRecord,
    SeriesRecord,
    StateRecord,
)
from millrace.store.records import Origin
from millrace.store.rows import AnyRow, insert_all

MOST_NAMED = 1000  # ids in a statement; for more, all rows are read and filtered

_SERIES = (
    "experiment", "digest", "factor", "reference", "candidate", "fixed_factors", "metric", "title",
    "unit", "direction", "margin", "origin",
)  # fmt: skip
_MEASURED = (
    "place", "label", "level", "build", "ratio", "low", "high", "n_blocks", "log_sd",
)  # fmt: skip
_RATIOS = ("ratio", "low", "high")
_CHANGE = (
    "id", "label", "earliest", "latest", "ratio", "low", "high", "n_points", "found_utc", "state",
    "reason", "note",
)  # fmt: skip


def series_record(row: AnyRow) -> SeriesRecord:
    """Return the series in a row."""
    named = {name: getattr(row, name) for name in _SERIES}
    return checked.valid_series(checked.record(SeriesRecord, id=row.key, **named))


def state_record(row: AnyRow) -> StateRecord:
    """Return the state in a row."""
    return checked.record(StateRecord, id=row.key, host_id=row.host_id, facts=row.facts)


def change_record(row: AnyRow) -> ChangeRecord:
    """Return the change in a row that has its series' ``key``."""
    named = {name: getattr(row, name) for name in _CHANGE}
    return checked.valid_change(
        checked.record(ChangeRecord, series=row.key, remeasured=row.remeasured, **named)
    )


def change_row(change: ChangeRecord, series_id: int) -> dict[str, Any]:
    """Return the row of a change; ``series_id`` is that of its series' row."""
    again = change.remeasured
    remeasured = None if again is None else _with_clipped_ratios(asdict(again))
    named = _with_clipped_ratios({name: getattr(change, name) for name in _CHANGE})
    return {**named, "series_id": series_id, "remeasured": remeasured}


def _with_clipped_ratios(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, **{name: checked.clipped_ratio(values[name]) for name in _RATIOS}}


_NONE = (-1, "", "", "local")  # the recording of points without a reference to one


class Recordings:
    """The run of each recording, its date and origin, and its rank in the order of time."""

    def __init__(self, connection: Connection) -> None:
        table = schema.history_recordings
        ordered = connection.execute(select(table).order_by(table.c.at_utc, table.c.id)).all()
        for row in ordered:
            checked.require_valid_date(row.run_id, row.at_utc)
        self._runs = {
            row.id: (rank, row.at_utc, row.run_id, row.origin) for rank, row in enumerate(ordered)
        }

    def points(self, rows: Iterable[AnyRow], states: Mapping[int, str]) -> tuple[PointRecord, ...]:
        """Return the points by date, of rows by recording and place; ``states`` are keys by id."""
        runs = self._runs
        # Nearly in the order of time already, so that sorting costs little.
        ordered = sorted(rows, key=lambda row: runs.get(row.recording_id, _NONE)[0])
        return tuple(self.point(row, states) for row in ordered)

    def point(self, row: Sequence[Any], states: Mapping[int, str]) -> PointRecord:
        (
            _, recording, place, label, level, build, ratio, low, high, n_blocks, log_sd, state,
        ) = row  # fmt: skip
        if recording not in self._runs or state not in states:
            raise NotARecord(f"point {label!r} refers to a recording or state that is not there")
        _, at_utc, run_id, origin = self._runs[recording]
        made = PointRecord(
            label=label, at_utc=at_utc, run_id=run_id, place=place, level=level, build=build,
            ratio=ratio, low=low, high=high, n_blocks=n_blocks, log_sd=log_sd, state=states[state],
            origin=origin,
        )  # fmt: skip
        checked.require_valid_point(made)
        return made


def point_columns() -> list[Any]:
    """Return the columns of a point, in the order in which ``Recordings.point`` takes them."""
    columns = schema.history_points.c
    return [columns[name] for name in ("series_id", "recording_id", *_MEASURED, "state_id")]


def state_keys(connection: Connection) -> dict[int, str]:
    """Return the ids of all states, by that of their row."""
    table = schema.history_states
    return {row.id: row.key for row in connection.execute(select(table.c.id, table.c.key))}


def series_ids(connection: Connection, keys: Collection[str]) -> dict[str, int]:
    """Return the rows' ids of the existing series, by key."""
    table = schema.history_series
    query = select(table.c.key, table.c.id)
    if len(keys) <= MOST_NAMED:
        query = query.where(table.c.key.in_(keys))
    return {row.key: row.id for row in connection.execute(query) if row.key in keys}


def insert_part(connection: Connection, part: HistoryPart) -> None:
    """Insert new points and the missing rows that they refer to, but no changes."""
    ids = _insert_series(connection, part.series)
    states = _insert_states(connection, part.states)
    recordings = _insert_recordings(connection, [point for _, point in part.points])
    rows = [
        {
            **_with_clipped_ratios({name: getattr(point, name) for name in _MEASURED}),
            "series_id": ids[series],
            "recording_id": recordings[point.run_id, point.origin],
            "state_id": states[point.state],
        }
        for series, point in part.points
    ]
    insert_all(connection, schema.history_points, rows)


def update_margins(connection: Connection, series: Iterable[SeriesRecord]) -> None:
    """Give existing series the margin of the newest run."""
    table = schema.history_series
    for each in series:
        row = table.c.key == each.id
        connection.execute(update(table).where(row).values(margin=each.margin))


def _insert_series(connection: Connection, series: Sequence[SeriesRecord]) -> dict[str, int]:
    """Insert the missing series; return ids by key."""
    table, keys = schema.history_series, {each.id for each in series}
    known = set(connection.scalars(select(table.c.key)))
    missing = [
        {"key": each.id, **{name: getattr(each, name) for name in _SERIES}}
        for each in series
        if each.id not in known
    ]
    insert_all(connection, table, missing)
    return series_ids(connection, keys)


def _insert_states(connection: Connection, states: Sequence[StateRecord]) -> dict[str, int]:
    table = schema.history_states
    known = set(state_keys(connection).values())
    missing = [
        {"key": each.id, "host_id": each.host_id, "facts": dict(each.facts)}
        for each in states
        if each.id not in known
    ]
    insert_all(connection, table, missing)
    return {key: state for state, key in state_keys(connection).items()}


def _insert_recordings(
    connection: Connection, points: Sequence[PointRecord]
) -> dict[tuple[str, Origin], int]:
    table = schema.history_recordings
    query = select(table.c.run_id, table.c.origin, table.c.id)

    def ids() -> dict[tuple[str, Origin], int]:
        return {(row.run_id, row.origin): row.id for row in connection.execute(query)}

    known = ids()
    dates = {(p.run_id, p.origin): p.at_utc for p in points if (p.run_id, p.origin) not in known}
    for (run_id, origin), at_utc in dates.items():
        values = {"run_id": run_id, "at_utc": at_utc, "origin": origin}
        connection.execute(insert(table).values(**values))
    return ids()
