"""Histories as the documented JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.analysis.history.overview import ChangeGroup, ChangeView, SeriesView
from millrace.report.common.json_parts import document_text, part
from millrace.report.history.schema import (
    VERSION,
    ChangePart,
    GroupPart,
    HistoryDocument,
    PointPart,
    SeriesPart,
    StatePart,
)
from millrace.report.history.tables import group_text
from millrace.store.history_records import StateRecord


def as_document(
    series: Sequence[SeriesView], groups: Sequence[ChangeGroup], states: Mapping[str, StateRecord]
) -> HistoryDocument:
    """Return the series as the documented, versioned document, with the states they refer to."""
    used = dict.fromkeys(point.state for one in series for point in one.points)
    return HistoryDocument(
        schema=VERSION,
        groups=[
            part(
                GroupPart,
                group,
                sentence=group_text(group),
                changes=[each.change.id for each in group.changes],
            )
            for group in groups
        ],
        series=[_series(one) for one in series],
        states=[part(StatePart, states[state], host=states[state].host_id) for state in used],
    )


def as_json(
    series: Sequence[SeriesView], groups: Sequence[ChangeGroup], states: Mapping[str, StateRecord]
) -> str:
    """Return the document as indented JSON text, with a newline at its end."""
    return document_text(as_document(series, groups, states))


def _series(view: SeriesView) -> SeriesPart:
    return part(
        SeriesPart,
        view.series,
        name=view.name,
        fixed_factors=view.series.fixed_factors,
        unexamined=view.unexamined,
        too_few_points=view.too_few_points,
        points=[
            part(PointPart, point, date_utc=point.at_utc, run=point.run_id) for point in view.points
        ],
        environment_changes=view.environment_changes,
        changes=[_change(change) for change in view.changes],
    )


def _change(view: ChangeView) -> ChangePart:
    change = view.change
    return part(
        ChangePart,
        view,
        id=change.id,
        label=change.label,
        state=change.state,
        found_ratio=change.ratio,
        found_low=change.low,
        found_high=change.high,
        n_points=change.n_points,
        found_utc=change.found_utc,
        reason=change.reason or None,
        note=change.note,
        remeasured=change.remeasured,
    )
