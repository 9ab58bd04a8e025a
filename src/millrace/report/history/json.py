"""Histories as the documented JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.analysis.history.overview import ChangeGroup, SeenChange, SeenSeries
from millrace.report.history.schema import (
    VERSION,
    BreakPart,
    ChangePart,
    GroupPart,
    HistoryDocument,
    PointPart,
    SeriesPart,
    StatePart,
)
from millrace.report.history.tables import group_text
from millrace.shown_text import shown_json
from millrace.store.history_records import PointRecord, StateRecord


def as_document(
    series: Sequence[SeenSeries],
    groups: Sequence[ChangeGroup],
    states: Mapping[str, StateRecord],
) -> HistoryDocument:
    """The series as the documented, versioned document, with the states that they refer to."""
    used = dict.fromkeys(point.state for one in series for point in one.points)
    return HistoryDocument(
        schema=VERSION,
        groups=[_group(group) for group in groups],
        series=[_series(one) for one in series],
        states=[
            StatePart(id=state, host=states[state].host_id, facts=dict(states[state].facts))
            for state in used
        ],
    )


def as_json(
    series: Sequence[SeenSeries],
    groups: Sequence[ChangeGroup],
    states: Mapping[str, StateRecord],
) -> str:
    """The document as indented JSON text, with a newline at its end."""
    return (
        shown_json(as_document(series, groups, states).model_dump_json(by_alias=True, indent=2))
        + "\n"
    )


def _group(group: ChangeGroup) -> GroupPart:
    return GroupPart(
        label=group.label,
        sentence=group_text(group),
        changes=[each.change.id for each in group.changes],
        n_series=group.n_series,
        least=group.least,
        most=group.most,
    )


def _series(seen: SeenSeries) -> SeriesPart:
    series = seen.series
    return SeriesPart(
        id=series.id,
        name=seen.name,
        experiment=series.experiment,
        digest=series.digest,
        factor=series.factor,
        reference=series.reference,
        candidate=series.candidate,
        held=dict(series.held),
        metric=series.metric,
        title=series.title,
        unit=series.unit,
        direction=series.direction,
        margin=series.margin,
        unexamined=seen.unexamined,
        too_few_points=seen.too_few_points,
        points=[_point(point) for point in seen.points],
        breaks=[
            BreakPart(index=each.index, label=each.label, changes=list(each.changes))
            for each in seen.breaks
        ],
        changes=[_change(change) for change in seen.changes],
    )


def _point(point: PointRecord) -> PointPart:
    return PointPart(
        label=point.label,
        date_utc=point.at_utc,
        run=point.run_id,
        level=point.level,
        build=point.build,
        ratio=point.ratio,
        low=point.low,
        high=point.high,
        n_blocks=point.n_blocks,
        state=point.state,
    )


def _change(seen: SeenChange) -> ChangePart:
    change = seen.change
    return ChangePart(
        id=change.id,
        index=seen.index,
        label=change.label,
        within=list(seen.within),
        state=change.state,
        ratio=seen.ratio,
        low=seen.low,
        high=seen.high,
        verdict=seen.verdict,
        found_ratio=change.ratio,
        found_low=change.low,
        found_high=change.high,
        n_points=change.n_points,
        found_utc=change.found_utc,
        reason=change.reason or None,
        note=change.note,
        remeasured=change.remeasured,
    )
