"""Compare numbers that other benchmarks measured: paired treatments, and series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from millrace.analysis.compare.paired import PairedComparison
from millrace.analysis.compare.paired import compare_paired as analyze_paired
from millrace.analysis.history.series_verdicts import AnalyzedSeries, analyze_series
from millrace.importers import paired
from millrace.importers import series as series_file
from millrace.importers.csv_reader import called
from millrace.importers.series import Series
from millrace.importers.units import Better
from millrace.model.run_spec import Direction
from millrace.stats.change_points import Sensitivity


@dataclass(frozen=True)
class Criteria:
    """How verdicts are given: ``margin`` is a fraction, ``alpha`` the error rate; ``direction``
    None takes the file's."""

    margin: float
    alpha: float
    direction: Direction | None


@dataclass(frozen=True)
class ComparedPairs:
    """The comparisons of treatments with ``base``; ``better`` says which values are better."""

    comparisons: tuple[PairedComparison, ...]
    base: str
    better: Better


def compare_paired(file: Path, criteria: Criteria, *, base: str | None) -> ComparedPairs:
    """Compare treatments that were interleaved in blocks; ``base`` None takes the first one."""
    values, measure = paired.read(file)
    chosen = paired.base_of(called(file), values, base)
    better = measure.better(criteria.direction)
    found = analyze_paired(
        values,
        base=chosen,
        direction=better.direction,
        margin=criteria.margin,
        alpha=criteria.alpha,
    )
    return ComparedPairs(tuple(found), chosen, better)


@dataclass(frozen=True)
class ComparedSeries:
    """One series: as read, analyzed, and which of its values are better."""

    series: Series
    judged: AnalyzedSeries
    better: Better


def compare_series(
    file: Path, criteria: Criteria, *, sensitivity: Sensitivity
) -> tuple[ComparedSeries, ...]:
    """Find where the levels of the series of a file moved."""
    found = []
    for each in series_file.read(file):
        better = each.measure.better(criteria.direction)
        judged = analyze_series(
            each.name,
            each.labels,
            each.values,
            sensitivity=sensitivity,
            direction=better.direction,
            margin=criteria.margin,
            alpha=criteria.alpha,
        )
        found.append(ComparedSeries(each, judged, better))
    return tuple(found)
