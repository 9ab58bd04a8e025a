"""Track changes of a series from one look to the next, with identity and outcome.

A change that is found is a *candidate*. A measurement of its own makes it *confirmed* or
*withdrawn* (``analysis.history.confirmation``). A candidate that more points no longer show is
withdrawn too, unless they show it again.

A found change is a known one where both moved the level into the same direction, and the ranges in
which their first points lie have a point in common (for one that a measurement ruled out, where it
lies between the builds that were measured).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from millrace.analysis.history.segments import segments
from millrace.stats.change_points import ChangePoint, Sensitivity, change_points
from millrace.store.history_records import (
    IMPORTED,
    ChangeRecord,
    History,
    PointRecord,
    SeriesRecord,
)

_ID_DIGITS = 10


@dataclass(frozen=True)
class Examined:
    """All changes of a series; this look ``found`` some ids, and withdrew the ``lost`` ones."""

    changes: tuple[ChangeRecord, ...]
    found: frozenset[str]
    lost: frozenset[str]


@dataclass(frozen=True)
class Range:
    """The first point of a new level is at ``index``, one of ``earliest`` to ``latest``.

    ``rises`` says that the new level is the higher one, ``is_ruled_out`` that a measurement found
    no change there.
    """

    index: int
    earliest: int
    latest: int
    rises: bool
    is_ruled_out: bool = False

    def is_of(self, known: Range) -> bool:
        """Return whether a found change may be the known one."""
        if self.rises != known.rises:
            return False
        if known.is_ruled_out:
            return known.earliest <= self.index <= known.latest
        return self.earliest <= known.latest and known.earliest <= self.latest


def examine(
    history: History, known: Sequence[ChangeRecord], *, sensitivity: Sensitivity, now_utc: str
) -> Examined:
    """Look for changes among the points of a series; ``known`` are those of earlier looks.

    A candidate is withdrawn only where the more sensitive list does not show it either.
    """
    changes: dict[str, ChangeRecord] = {each.id: each for each in known}
    found: set[str] = set()
    for segment in segments(history.points):
        points = [history.points[index] for index in segment]
        places = {point.label: place for place, point in enumerate(points)}
        of_segment = [each for each in known if each.label in places]
        look = _Look(history.series, points, places, now_utc)
        for change in look.at(of_segment, sensitivity, set(changes)):
            changes[change.id] = change
            found.add(change.id)
        for change in _unseen(look, of_segment, found, sensitivity):
            changes[change.id] = change
    labels = {point.label for point in history.points}
    for change in known:
        if change.label not in labels and change.state == "candidate":
            changes[change.id] = _withdrawn(change, "its points were taken out", 0)
    before = {each.id: each.state for each in known}
    lost = {
        each.id
        for each in changes.values()
        if each.state == "withdrawn" and before.get(each.id) == "candidate"
    }
    settled = {each.id for each in changes.values() if each.state == "withdrawn"}
    return Examined(tuple(changes.values()), frozenset(found - settled), frozenset(lost))


def paired(found: Sequence[Range], known: Sequence[Range]) -> dict[int, int]:
    """Pair found changes with known ones, the nearest first, by their places in the lists."""
    alike = sorted(
        (abs(one.index - other.index), number, place)
        for number, one in enumerate(found)
        for place, other in enumerate(known)
        if one.is_of(other)
    )
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, number, place in alike:
        if number not in pairs and place not in taken:
            pairs[number] = place
            taken.add(place)
    return pairs


def is_settled(change: ChangeRecord) -> bool:
    """Return whether a measurement of its own decided about a change."""
    return change.remeasured is not None and change.remeasured.verdict != "inconclusive"


def range_of(change: ChangeRecord, places: Mapping[str, int]) -> Range:
    """Locate a known change at ``places``, by label; a remeasured one between its builds."""
    index = places[change.label]
    earliest, latest = places.get(change.earliest, index), places.get(change.latest, index)
    if change.remeasured is not None:
        earliest = min(earliest, places.get(change.remeasured.before, earliest - 1) + 1)
        latest = max(latest, places.get(change.remeasured.after, latest))
    ruled_out = is_settled(change) and change.state == "withdrawn"
    return Range(index, min(earliest, index), max(latest, index), change.ratio > 1, ruled_out)


@dataclass(frozen=True)
class _Look:
    """One look at the points of one state of a series, which are at ``places`` by their labels."""

    series: SeriesRecord
    points: Sequence[PointRecord]
    places: Mapping[str, int]
    now_utc: str

    def found(self, sensitivity: Sensitivity) -> tuple[ChangePoint, ...]:
        return change_points([point.ratio for point in self.points], sensitivity=sensitivity)

    def ranges(self, known: Sequence[ChangeRecord]) -> list[Range]:
        return [range_of(each, self.places) for each in known]

    def at(
        self, known: Sequence[ChangeRecord], sensitivity: Sensitivity, ids: Collection[str]
    ) -> list[ChangeRecord]:
        """Return the changes that are found, as known ones or with ids that are none of ``ids``."""
        found = self.found(sensitivity)
        pairs = paired([_range(each) for each in found], self.ranges(known))
        changes: list[ChangeRecord] = []
        for number, point in enumerate(found):
            if number in pairs:
                changes.append(self._again(known[pairs[number]], point))
            else:
                changes.append(self._new(point, {*ids, *(each.id for each in changes)}))
        return changes

    def _again(self, change: ChangeRecord, point: ChangePoint) -> ChangeRecord:
        """Update a known change, unless it is settled or has no more points than it had."""
        number = len(self.points)
        if is_settled(change) or number == change.n_points:
            return change
        if change.state == "withdrawn" and number < change.n_points:
            return change
        return replace(change, state="candidate", reason="", **self._seen(point))

    def _new(self, point: ChangePoint, ids: Collection[str]) -> ChangeRecord:
        label = self.points[point.index].label
        return ChangeRecord(
            id=_new_id(self.series, label, ids),
            series=self.series.id,
            found_utc=self.now_utc,
            **self._seen(point),
        )

    def _seen(self, point: ChangePoint) -> dict[str, Any]:
        return {
            "label": self.points[point.index].label,
            "earliest": self.points[point.earliest].label,
            "latest": self.points[point.latest].label,
            "ratio": point.ratio,
            "low": point.low,
            "high": point.high,
            "n_points": len(self.points),
        }


def _unseen(
    look: _Look, known: Sequence[ChangeRecord], found: Collection[str], sensitivity: Sensitivity
) -> list[ChangeRecord]:
    """Return the candidates that the look did not show, withdrawn where the list does not."""
    missed = [each for each in known if each.state == "candidate" and each.id not in found]
    if missed and sensitivity != "review":
        pairs = paired([_range(each) for each in look.found("review")], look.ranges(missed))
        seen = set(pairs.values())
        missed = [each for place, each in enumerate(missed) if place not in seen]
    number = len(look.points)
    return [_withdrawn(each, f"{number} points do not show it any more", number) for each in missed]


def _withdrawn(change: ChangeRecord, reason: str, n_points: int) -> ChangeRecord:
    return replace(change, state="withdrawn", reason=reason, n_points=n_points)


def _range(point: ChangePoint) -> Range:
    return Range(point.index, point.earliest, point.latest, point.ratio > 1)


def _new_id(series: SeriesRecord, label: str, ids: Collection[str]) -> str:
    """Return a new id, the same for the same change in another store."""
    texts = (f"{series.id}\n{label}\n{number}" for number in itertools.count())
    digests = (hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS] for text in texts)
    begin = IMPORTED if series.origin == "imported" else ""
    return next(begin + each for each in digests if begin + each not in ids)
