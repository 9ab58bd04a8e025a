"""Ratios by level of the compared factor, with a line a group: relative QPS by server version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, Group, RunAnalysis
from millrace.analysis.compare.treatment_model import TreatmentAnalysis
from millrace.levels import factor_text, level_value
from millrace.report.common.axis import WIDE, LogAxis, Tick
from millrace.report.common.formatting import percent_text
from millrace.report.common.line_chart import MOST_LINES, Line, LineChart, Mark
from millrace.report.run.matrix import row_label, sections
from millrace.report.run.sentences import verdict_text
from millrace.stats import RatioEstimate

_DODGE = 1.1  # percent of the width between lines at one place, so that intervals do not hide


def relative_charts(analysis: RunAnalysis, metric: Metric) -> tuple[LineChart, ...]:
    """Return ratios to the base by level of the compared factor: a chart a section, a line a group.

    All have one axis, unless that would be so wide that small differences could not be seen.
    A section of more groups than can be told apart has no chart.
    """
    everywhere = _estimates(analysis.comparisons(metric))
    if not everywhere:
        return ()
    common = LogAxis.around(everywhere, analysis.margin)
    charts = []
    for heading, groups in sections(analysis):
        own = _estimates(c for group in groups for c in _of_metric(group, metric))
        if not own or len(groups) > MOST_LINES:
            continue
        wide = common.high / common.low > WIDE
        axis = LogAxis.around(own, analysis.margin) if wide else common
        levels = list(
            dict.fromkeys(level_value(t.level) for group in groups for t in group.treatments)
        )
        places = {level: 100 * (n + 0.5) / len(levels) for n, level in enumerate(levels)}
        charts.append(_relative_chart(heading, groups, _Plot(metric, axis, places, analysis)))
    return tuple(charts)


def have_one_axis(charts: Sequence[LineChart]) -> bool:
    """Return whether all charts have the same axis of values."""
    return len({chart.up for chart in charts}) <= 1


def _of_metric(group: Group, metric: Metric) -> list[Comparison]:
    return [c for c in group.comparisons if c.metric.name == metric.name]


def _estimates(comparisons: Iterable[Comparison]) -> list[RatioEstimate]:
    return [c.estimate for c in comparisons if c.estimate is not None]


@dataclass(frozen=True)
class _Plot:
    """The common parts of a chart's lines; ``places`` are percent of the width by level."""

    metric: Metric
    axis: LogAxis
    places: Mapping[str, float]
    analysis: RunAnalysis


def _relative_chart(heading: str, groups: Sequence[Group], plot: _Plot) -> LineChart:
    metric, axis, analysis = plot.metric, plot.axis, plot.analysis
    middle = (len(groups) - 1) / 2
    subject = f"{heading}: " if heading else ""
    return LineChart(
        heading=heading,
        description=(
            f"{subject}{metric.title} relative to {analysis.base_text}, "
            f"by {factor_text(analysis.factor)}"
        ),
        across=tuple(Tick(at, level) for level, at in plot.places.items()),
        up=tuple(Tick(100 - tick.at, tick.label) for tick in axis.ticks()),
        band=(100 - axis.at(1 + analysis.margin), 100 - axis.at(1 / (1 + analysis.margin))),
        one=100 - axis.at(1.0),
        lines=tuple(
            _relative_line(number, group, plot, shift=_DODGE * (number - middle))
            for number, group in enumerate(groups)
        ),
    )


def _relative_line(number: int, group: Group, plot: _Plot, *, shift: float) -> Line:
    """Return a group's ratios; the line is broken where the family of the server changes."""
    comparisons = {c.candidate_id: c for c in _of_metric(group, plot.metric)}
    marks: list[Mark] = []
    pieces: list[list[str]] = [[]]
    family = None
    for treatment in group.treatments:
        if (own := _family(treatment)) != family:
            family = own
            pieces.append([])
        mark = _relative_mark(treatment, comparisons.get(treatment.id), plot, shift)
        if mark is None:
            pieces.append([])
            continue
        marks.append(mark)
        pieces[-1].append(f"{mark.x:.2f},{mark.y:.2f}")
    return Line(
        number,
        row_label(group, plot.analysis) or plot.metric.title,
        tuple(marks),
        tuple(" ".join(piece) for piece in pieces if len(piece) > 1),
    )


def _family(treatment: TreatmentAnalysis) -> str | None:
    return next((i.server.family for i in treatment.instances if i.role == "server"), None)


def _relative_mark(
    treatment: TreatmentAnalysis, comparison: Comparison | None, plot: _Plot, shift: float
) -> Mark | None:
    x, axis = plot.places[level_value(treatment.level)] + shift, plot.axis
    if treatment.is_base and treatment.finished:
        return Mark(x, 100 - axis.at(1.0), None, None, f"{treatment.label}: the base")
    if comparison is None or comparison.estimate is None:
        return None
    estimate = comparison.estimate
    low, high = estimate.low, estimate.high
    return Mark(
        x=x,
        y=100 - axis.at(estimate.ratio),
        low_y=None if low is None else 100 - axis.at(low),
        high_y=None if high is None else 100 - axis.at(high),
        title=f"{treatment.label}: {_in_words(estimate)}, {verdict_text(comparison)}",
    )


def _in_words(estimate: RatioEstimate) -> str:
    """Return text such as ``−9.8 %, interval −11.3 % to −8.3 %``."""
    centre, low, high = (
        None if ratio is None else percent_text(ratio - 1, signed=True)
        for ratio in (estimate.ratio, estimate.low, estimate.high)
    )
    return f"{centre}" if low is None else f"{centre}, interval {low} to {high}"
