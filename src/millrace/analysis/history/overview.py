"""View series with their points, changes of environment and level, and groups of changes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import get_args

from millrace.analysis.compare.model import DIFFERENCES, Verdict
from millrace.analysis.compare.verdict import decide_interval
from millrace.analysis.history.changes import range_of
from millrace.analysis.history.segments import (
    EnvironmentChange,
    environment_changes,
    segments,
    too_few_points,
)
from millrace.store.history_records import (
    ChangeRecord,
    History,
    PointRecord,
    SeriesRecord,
    StateRecord,
)
from millrace.store.records import Origin

SeriesWith = Mapping[tuple[Origin, str], int]
"""The number of series of an origin that have a point of a label."""


@dataclass(frozen=True)
class ChangeView:
    """A change with what it means.

    ``ratio``, ``low`` and ``high`` (new / old level) are those of the measurement that confirmed
    it, else those of the history. ``index`` is that of its first point in the series, None where
    that was taken out; ``within`` are the labels of all points that may be the first, in their
    order.
    """

    change: ChangeRecord
    series: SeriesRecord
    name: str
    index: int | None
    within: tuple[str, ...]
    ratio: float
    low: float
    high: float
    verdict: Verdict

    @property
    def is_open(self) -> bool:
        """Return whether it is one that somebody has to look at."""
        return self.change.state != "withdrawn" and self.verdict in DIFFERENCES

    @property
    def can_be_confirmed(self) -> bool:
        """Return whether it is an open candidate among points that were measured here."""
        return self.is_open and self.change.state == "candidate" and self.series.origin == "local"

    @property
    def gain(self) -> float:
        """Return the change as a fraction, positive where it is for the better."""
        return (self.ratio if self.series.direction == "higher" else 1 / self.ratio) - 1


@dataclass(frozen=True)
class SeriesView:
    """A series with its changes; ``unexamined`` points came after the last look for them."""

    series: SeriesRecord
    name: str
    points: tuple[PointRecord, ...]
    environment_changes: tuple[EnvironmentChange, ...]
    changes: tuple[ChangeView, ...]
    unexamined: int

    @property
    def too_few_points(self) -> bool:
        return too_few_points(self.points)


@dataclass(frozen=True)
class ChangeGroup:
    """Open changes of several series at one label; ``n_series`` series have a point there.

    All series have one ``origin``. ``least`` and ``most`` are the gains of these changes, by size.
    """

    label: str
    changes: tuple[ChangeView, ...]
    n_series: int
    least: float
    most: float
    origin: Origin = "local"


def series_view(
    history: History, changes: Sequence[ChangeRecord], states: Mapping[str, StateRecord], name: str
) -> SeriesView:
    """View a series with its ``changes`` in the order of their points, those without one last."""
    shown = [_seen_change(change, history, name) for change in changes]
    shown.sort(key=lambda each: (each.index is None, each.index or 0, each.change.id))
    return SeriesView(
        series=history.series,
        name=name,
        points=history.points,
        environment_changes=environment_changes(history.points, states),
        changes=tuple(shown),
        unexamined=max(len(history.points) - history.examined, 0),
    )


def _seen_change(change: ChangeRecord, history: History, name: str) -> ChangeView:
    ratio, low, high = change.ratio, change.low, change.high
    again = change.remeasured
    if change.state == "confirmed" and again is not None:
        ratio = again.ratio
        low, high = again.low or again.ratio, again.high or again.ratio
    series = history.series
    verdict, _ = decide_interval(ratio, low, high, series.direction, series.margin)
    index, within = _where(change, history.points)
    return ChangeView(change, series, name, index, within, ratio, low, high, verdict)


def _where(
    change: ChangeRecord, points: Sequence[PointRecord]
) -> tuple[int | None, tuple[str, ...]]:
    """Return a change's index in the series, and the labels that may be its first."""
    for segment in segments(points):
        labels = [points[index].label for index in segment]
        if change.label in labels:
            places = {label: place for place, label in enumerate(labels)}
            found = range_of(change, places)
            return segment[found.index], tuple(labels[found.earliest : found.latest + 1])
    return None, (change.label,)


def group_changes(
    changes: Sequence[ChangeView], series_with: SeriesWith
) -> tuple[ChangeGroup, ...]:
    """Group the open changes by the label that most of them have, those of each origin apart.

    A change goes with a group at any label that may be its first. ``series_with`` counts the series
    of each origin that have a point of a label. Facts come before candidates, the largest group
    first; those that somebody knows of come last, and imported ones after all others.
    """
    found = []
    for origin in get_args(Origin):
        waiting = [each for each in changes if each.is_open and each.series.origin == origin]
        for label, numbers in _by_label(waiting):
            members = tuple(waiting[number] for number in numbers)
            gains = sorted((each.gain for each in members), key=abs)
            least = len({each.series.id for each in members})
            n_series = max(series_with.get((origin, label), 0), least)
            found.append(ChangeGroup(label, members, n_series, gains[0], gains[-1], origin))
    return tuple(sorted(found, key=_rank))


def _rank(group: ChangeGroup) -> tuple[bool, bool, bool, int]:
    is_known = all(each.change.note is not None for each in group.changes)
    is_likely = all(each.change.state == "candidate" for each in group.changes)
    return group.origin != "local", is_known, is_likely, -len(group.changes)


def _by_label(changes: Sequence[ChangeView]) -> Iterator[tuple[str, list[int]]]:
    """Yield labels with the numbers of their changes, each change once.

    The label that most changes may have comes first, of several the one that is most often a
    change's first point.
    """
    possible: dict[str, set[int]] = {}
    for number, each in enumerate(changes):
        for label in each.within:
            possible.setdefault(label, set()).add(number)
    likeliest = Counter(each.change.label for each in changes)
    queue = [(-len(of), -likeliest[label], label) for label, of in possible.items()]
    heapify(queue)
    while queue:
        size, rank, label = heappop(queue)
        left = possible[label]
        if len(left) < -size:  # some went with another label meanwhile
            if left:
                heappush(queue, (-len(left), rank, label))
            continue
        numbers = sorted(left)
        for number in numbers:
            for other in changes[number].within:
                possible[other].discard(number)
        yield label, numbers
