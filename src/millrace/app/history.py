"""Manage histories: record and forget runs; detect, show and acknowledge changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from millrace.analysis.history import overview
from millrace.analysis.history.changes import examine
from millrace.analysis.history.recording import points_of
from millrace.analysis.history.segments import environment_changes, series_names, too_few_points
from millrace.errors import UserError
from millrace.quantities import utc_now, utc_text
from millrace.stats.change_points import Sensitivity
from millrace.store.history_records import (
    IMPORTED,
    ChangeRecord,
    History,
    HistoryPart,
    Recorded,
    Recording,
    as_imported,
)
from millrace.store.records import Origin
from millrace.store.store import Store

_SHOWN_RUNS = 8
_SHOWN_SERIES = 8


@dataclass(frozen=True)
class RecordedRun:
    """The points of a run, the effect of recording them, and a clause for each omission."""

    run: str
    part: HistoryPart
    recorded: Recorded
    left_out: tuple[str, ...]


def record(
    path: Path, run: str, *, reference: str | None, label: str | None, date: datetime | None
) -> RecordedRun:
    """Add a run's points, its ratios to a reference build, to the histories of the store.

    ``date`` is UTC unless it has a time zone; None for the start of the run. An imported run must
    be named by its full id; its points go into imported series.
    """
    with Store.open(path, create=False) as store:
        stored = store.load_run(store.find_run(run, trusted=True).id, observations_too=True)
        at_utc = stored.run.created_utc
        if date is not None:
            at_utc = utc_text(date.replace(tzinfo=UTC) if date.tzinfo is None else date)
        points = points_of(stored, reference=reference, label=label, at_utc=at_utc)
        part = points.part if stored.run.origin == "local" else as_imported(points.part)
        recorded = store.histories.record(part)
    return RecordedRun(stored.run.id, part, recorded, tuple(points.left_out))


@dataclass
class Detected:
    """The result of a search for changes.

    ``examined``: number of points by series. ``breaks``: number of environment changes. ``lost``:
    number of earlier candidates that are no longer visible. ``too_few``: number of series that are
    too short. ``imported``: number of series that were measured elsewhere. ``changes``: the found
    and the lost ones. ``series_with``: number of series by label.
    """

    examined: dict[str, int] = field(default_factory=dict)
    breaks: int = 0
    lost: int = 0
    too_few: int = 0
    imported: int = 0
    changes: list[overview.ChangeView] = field(default_factory=list)
    series_with: overview.SeriesWith = field(default_factory=dict)


def detect(path: Path, wanted: Sequence[str], *, sensitivity: Sensitivity) -> Detected:
    """Find versions at which the level of a series changed, and store the changes."""
    now = utc_now()
    found = Detected()
    changed: list[ChangeRecord] = []
    with Store.open(path, create=False) as store:
        names = named_series(store, path, wanted)
        known = _by_series(store.histories.changes())
        states = store.histories.states()
        for history in _read(store, names):
            before = known.get(history.series.id, [])
            result = examine(history, before, sensitivity=sensitivity, now_utc=now)
            changed += [each for each in result.changes if each not in before]
            found.examined[history.series.id] = len(history.points)
            found.breaks += len(environment_changes(history.points, states))
            found.lost += len(result.lost)
            found.too_few += too_few_points(history.points)
            found.imported += history.series.origin == "imported"
            shown = [each for each in result.changes if each.id in result.found | result.lost]
            if shown:
                found.changes += overview.series_view(
                    history, shown, states, names[history.series.id]
                ).changes
        store.histories.keep(changed, found.examined)
        labels = {label for each in found.changes for label in each.within}
        found.series_with = store.histories.series_with(labels)
    return found


@dataclass(frozen=True)
class HistoriesView:
    """The histories of an open store; ``series`` reads one at a time to save memory."""

    store: Store
    names: Mapping[str, str]

    def series(self) -> Iterator[overview.SeriesView]:
        """Yield the named series with their changes, local ones first."""
        known = _by_series(self.store.histories.changes())
        states = self.store.histories.states()
        for history in _read(self.store, self.names):
            series = history.series.id
            yield overview.series_view(history, known.get(series, []), states, self.names[series])

    def groups(self, changes: Sequence[overview.ChangeView]) -> tuple[overview.ChangeGroup, ...]:
        """Return the changes that several series have at the same version."""
        labels = {label for each in changes for label in each.within}
        return overview.group_changes(changes, self.store.histories.series_with(labels))


@contextmanager
def histories(path: Path, wanted: Sequence[str]) -> Iterator[HistoriesView]:
    """Open the histories of the store at ``path``: the ``wanted`` series, or all if empty."""
    with Store.open(path, read_only=True) as store:
        yield HistoriesView(store, named_series(store, path, wanted))


def acknowledge(path: Path, change: str, note: str) -> list[ChangeRecord]:
    """Add a note to a change, named by its id, or to all changes with a label; return them.

    If local series have changes with the label, changes of imported series do not get the note.
    """
    if not note.strip():
        raise UserError(
            "--note is empty", hint="note who looked at the change, its cause, or where it is fixed"
        )
    with Store.open(path, create=False) as store:
        at_label = [each for each in store.histories.changes() if each.label == change]
        noted = [each for each in at_label if not each.id.startswith(IMPORTED)]
        if not noted:
            try:  # the label of an imported change may equal the id of another change
                noted = [store.histories.find_change(change)]
            except UserError:
                if not at_label:
                    raise
                noted = at_label
        store.histories.keep([replace(each, note=note.strip()) for each in noted])
    return noted


def forget(path: Path, run: str) -> tuple[str, int]:
    """Remove the points of a run, named by the beginning of its id.

    Return the run's id and the number of points. If the run was both measured here and imported,
    remove the local points first.
    """
    with Store.open(path, create=False) as store:
        known = store.histories.recordings()
        named = [each for each in known if each.run_id.startswith(run)]
        ranks = [(each.run_id != run, each.origin != "local") for each in named]
        found = [each for each, rank in zip(named, ranks, strict=True) if rank == min(ranks)]
        if len(found) != 1:
            shown = ", ".join(_recording_text(e) for e in (found or known)[-_SHOWN_RUNS:]) or "none"
            which = f"{len(found)} recorded runs have" if found else "no recorded run has"
            raise UserError(
                f"{path}: {which} an id that starts with {run!r}", hint=f"recorded runs: {shown}"
            )
        forgotten = found[0]
        points = store.histories.forget(forgotten.run_id, forgotten.origin)
        return _recording_text(forgotten), points


def _recording_text(each: Recording) -> str:
    return each.run_id if each.origin == "local" else f"{each.run_id} ({each.origin})"


def named_series(store: Store, path: Path, wanted: Sequence[str]) -> Mapping[str, str]:
    """Return the names of the wanted series (or all) by id; raise UserError if none matches."""
    names = series_names(store.histories.series())
    if not names:
        raise UserError(
            f"{path}: no histories yet", hint="start with `millrace history record RUN`"
        )
    found = {
        series: name
        for series, name in names.items()
        if not wanted
        or any(series.startswith(text) or text.casefold() in name.casefold() for text in wanted)
    }
    if not found:
        first = [*names.items()][:_SHOWN_SERIES]
        shown = "\n".join(f"  {series}  {name}" for series, name in first)
        asked = " or ".join(repr(text) for text in wanted)
        raise UserError(
            f"{path}: no series has an id that starts with {asked}, or a name that contains it",
            hint=f"the series are, for example:\n{shown}",
        )
    return found


def _read(store: Store, names: Mapping[str, str]) -> Iterator[History]:
    """Yield the named series, local ones first."""
    origins = {each.id: each.origin for each in store.histories.series()}
    for origin in get_args(Origin):
        wanted = [series for series in names if origins[series] == origin]
        if wanted:
            yield from store.histories.read(wanted)


def _by_series(changes: Iterable[ChangeRecord]) -> dict[str, list[ChangeRecord]]:
    known: dict[str, list[ChangeRecord]] = {}
    for change in changes:
        known.setdefault(change.series, []).append(change)
    return known
