"""All comparisons of one metric in one table: a row per group, a column per compared level."""

from collections.abc import Iterator
from dataclasses import dataclass

from millrace.analysis.compare.metrics import Metric
from millrace.analysis.compare.model import Comparison, Group, RunAnalysis, varied_factors
from millrace.analysis.compare.treatments import TreatmentAnalysis
from millrace.levels import factor_text, level_text, level_value
from millrace.report.common.formatting import MISSING, ratio_text, value_text
from millrace.report.run.sentences import sentence, verdict_text

FEW_GROUPS = 3  # with no more groups, the detailed tables are as quick to read


@dataclass(frozen=True)
class Cell:
    """``text`` is the ratio to the base, or the base's own value; ``interval`` is empty for it.

    ``title`` is the long form of the text; ``verdict`` is None for the base.
    """

    text: str
    interval: str
    verdict: str | None
    title: str


@dataclass(frozen=True)
class MatrixRow:
    """A group; ``label`` is its levels but for the section's."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class MatrixSection:
    """The groups that share a level (a test); ``heading`` is empty where there is one section."""

    heading: str
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True)
class MatrixColumn:
    """A level of the compared factor; ``unit`` is that of the base's values, None elsewhere."""

    label: str
    unit: str | None


@dataclass(frozen=True)
class Matrix:
    """Relative ``metric``: candidate / base in each cell, the base's own value in its column."""

    title: str
    corner: str
    columns: tuple[MatrixColumn, ...]
    sections: tuple[MatrixSection, ...]


def is_large(analysis: RunAnalysis) -> bool:
    """Return whether a run is too large for its detailed tables to come first."""
    return len(analysis.groups) > FEW_GROUPS and bool(analysis.comparisons())


def matrix(analysis: RunAnalysis, metric: Metric) -> Matrix:
    """Return the comparisons in ``metric``; columns and rows in the experiment's order."""
    levels = list(dict.fromkeys(t.level for t in analysis.treatments))
    parts = []
    for heading, groups in sections(analysis):
        rows = []
        for group in groups:
            cells = tuple(_cell(group, str(level), metric, analysis) for level in levels)
            rows.append(MatrixRow(row_label(group, analysis), cells))
        parts.append(MatrixSection(heading, tuple(rows)))
    return Matrix(
        title=f"{metric.title} relative to {analysis.base_text}",
        corner=" · ".join(_row_factors(analysis)) or factor_text(analysis.factor),
        columns=tuple(
            MatrixColumn(level_value(level), metric.unit if level == analysis.base else None)
            for level in levels
        ),
        sections=tuple(parts),
    )


def sections(analysis: RunAnalysis) -> Iterator[tuple[str, tuple[Group, ...]]]:
    """Yield groups by the factor that makes sections: ``test`` where it varies, else the first one.

    One section without a heading where only one factor is held.
    """
    factor = _section_factor(analysis)
    if factor is None:
        yield "", analysis.groups
        return
    headings: dict[str, list[Group]] = {}
    for group in analysis.groups:
        headings.setdefault(level_text(factor, group.fixed_factors[factor]), []).append(group)
    for heading, groups in headings.items():
        yield heading, tuple(groups)


def row_label(group: Group, analysis: RunAnalysis) -> str:
    """Return a group's levels but for that of its section."""
    return " · ".join(
        level_text(name, group.fixed_factors[name]) for name in _row_factors(analysis)
    )


def _section_factor(analysis: RunAnalysis) -> str | None:
    varied = varied_factors(analysis)
    if len(varied) < 2:
        return None
    return "test" if "test" in varied else varied[0]


def _row_factors(analysis: RunAnalysis) -> list[str]:
    section = _section_factor(analysis)
    return [name for name in varied_factors(analysis) if name != section]


def _cell(group: Group, level: str, metric: Metric, analysis: RunAnalysis) -> Cell:
    treatment = next((t for t in group.treatments if str(t.level) == level), None)
    if treatment is None:
        return Cell(MISSING, "", None, f"{level}: not part of the experiment")
    if treatment.is_base:
        return _base_cell(treatment, metric)
    in_metric = group.in_metric(metric)
    return _compared_cell(next(c for c in in_metric if c.candidate_id == treatment.id), analysis)


def _base_cell(treatment: TreatmentAnalysis, metric: Metric) -> Cell:
    found = treatment.metrics.get(metric.name)
    if found is None:
        failed = bool(treatment.failed and not treatment.finished)
        verdict = "failed" if failed else None
        return Cell(verdict or MISSING, "", verdict, f"{treatment.label}: no result")
    value = value_text(found.level, metric)
    return Cell(value, "", None, f"{treatment.label}: {value} {metric.unit}")


def _compared_cell(comparison: Comparison, analysis: RunAnalysis) -> Cell:
    said, verdict = sentence(comparison, analysis), verdict_text(comparison)
    estimate = comparison.estimate
    if estimate is None:
        return Cell(MISSING, "", verdict, said)
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"{ratio_text(estimate.low)}–{ratio_text(estimate.high)}"
    return Cell(ratio_text(estimate.ratio), interval, verdict, said)
