"""Evaluate a measurement of the builds before and after a change.

The outcome is about this change and about changes of other metrics measured in the same trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millrace.analysis.history.changes import range_of
from millrace.analysis.history.confirmation import Ends, Outcome, outcome
from millrace.analysis.history.segments import segments
from millrace.errors import TrialFailed
from millrace.store.histories import Histories
from millrace.store.history_records import ChangeRecord, History, SeriesRecord
from millrace.store.records import StoredRun


def outcomes(
    histories: Histories, change: ChangeRecord, measured: StoredRun, ends: Ends, now_utc: str
) -> list[Outcome]:
    """Return the outcomes of the run ``measured``.

    The first is about ``change``; the others are about the candidates of other metrics between the
    same two points.

    Raises TrialFailed where no block has both builds.
    """
    series = {each.id: each for each in histories.series()}
    own = series[change.series]
    first = outcome(measured, change, own, ends, now_utc)
    if first is None:
        raise TrialFailed(
            f"no block of run {measured.run.id} has a result of both builds",
            hint=f"`millrace results show {measured.run.id}` has each reason",
        )
    found = [first]
    beside = [each.id for each in series.values() if each != own and _same_trials(each, own)]
    changes = histories.changes()
    for history in histories.read(beside) if beside else ():
        of_series = [each for each in changes if each.series == history.series.id]
        for candidate in _between(history, of_series, ends):
            also = outcome(measured, candidate, history.series, ends, now_utc)
            if also is not None:
                found.append(also)
    return found


def _same_trials(one: SeriesRecord, other: SeriesRecord) -> bool:
    """Return whether two series differ only in their metric."""
    return one == replace(
        other,
        id=one.id,
        metric=one.metric,
        title=one.title,
        unit=one.unit,
        direction=one.direction,
    )


def _between(history: History, changes: Sequence[ChangeRecord], ends: Ends) -> list[ChangeRecord]:
    """Return the candidate change certainly between the two ends, if there is no other change."""
    for segment in segments(history.points):
        places = {history.points[index].label: place for place, index in enumerate(segment)}
        if not {ends.before, ends.after} <= places.keys():
            continue
        before, after = places[ends.before], places[ends.after]
        ranges = [
            (range_of(each, places), each)
            for each in changes
            if each.state != "withdrawn" and each.label in places
        ]
        touching = [
            (lies, each) for lies, each in ranges if lies.latest > before and lies.earliest <= after
        ]
        if len(touching) == 1 and touching[0][1].state == "candidate":
            lies, candidate = touching[0]
            if before < lies.earliest and lies.latest <= after:
                return [candidate]
    return []
