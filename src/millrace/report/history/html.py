"""Histories as one HTML file: a chart of each series, no network, no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace import __version__
from millrace.analysis.history.overview import ChangeGroup, SeriesView
from millrace.levels import level_text
from millrace.report.common.formatting import GLYPHS, counted
from millrace.report.common.pages import environment
from millrace.report.history.charts import history_chart
from millrace.report.history.tables import (
    break_lines,
    change_lines,
    changes_table,
    group_text,
    next_step,
    nothing_moved,
    too_few,
)


def as_html(series: Sequence[SeriesView], groups: Sequence[ChangeGroup]) -> str:
    """Return the whole page as text."""
    changes = [change for one in series for change in one.changes]
    facts = sum(change.change.state == "confirmed" for change in changes)
    return (
        environment(())
        .get_template("history.html.j2")
        .render(
            version=__version__,
            series=[_section(one) for one in series],
            points=counted(sum(len(one.points) for one in series), "point"),
            newest=max((point.at_utc for one in series for point in one.points), default=""),
            answer=_answer(groups, facts, series),
            next_step=next_step(changes),
            changes=changes_table(groups, [each for each in changes if not each.is_open]),
            environment_changes=break_lines(
                [each for one in series for each in one.environment_changes]
            ),
            glyphs=GLYPHS,
            counted=counted,
        )
    )


def _answer(groups: Sequence[ChangeGroup], facts: int, series: Sequence[SeriesView]) -> str:
    n_too_few = sum(one.too_few_points for one in series)
    if not groups:
        return nothing_moved(len(series), n_too_few)
    largest = group_text(groups[0])
    more = f"; {counted(len(groups) - 1, 'more place')} below" if len(groups) > 1 else ""
    known = "" if facts else ". Nothing of it is confirmed yet"
    few = f" {too_few(n_too_few)}" if n_too_few else ""
    return f"{largest}{more}{known}.{few}"


def _section(seen: SeriesView) -> dict[str, Any]:
    series = seen.series
    better = "above" if series.direction == "higher" else "below"
    return {
        "id": series.id,
        "name": seen.name,
        "subtitle": (
            f"{series.title} relative to {level_text(series.factor, series.reference)}, {better} 1 "
            f"is better; {counted(len(seen.points), 'point')}"
        ),
        "chart": history_chart(seen),
        "environment_changes": tuple(break_lines(seen.environment_changes)),
        "changes": tuple("; ".join(change_lines(change)) for change in seen.changes),
    }
