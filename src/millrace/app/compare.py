"""Compare results of other benchmarks: paired treatments, and series."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from millrace.analysis.compare.paired import PairedComparison
from millrace.analysis.compare.paired import compare_paired as analyze_paired
from millrace.analysis.history.series_verdicts import AnalyzedSeries, analyze_series
from millrace.importers import paired
from millrace.importers import series as series_file
from millrace.importers.csv_reader import called
from millrace.importers.units import Better
from millrace.model.measurements import Direction
from millrace.stats.change_points import Sensitivity


@dataclass(frozen=True)
class Criteria:
    """The criteria of verdicts: margin (a fraction), error rate, direction (None: the file's)."""

    margin: float
    alpha: float
    direction: Direction | None


class ComparedPairs(NamedTuple):
    """Comparisons with the base, and the better direction of their values."""

    comparisons: Sequence[PairedComparison]
    base: str
    better: Better


def compare_paired(file: Path, criteria: Criteria, *, base: str | None) -> ComparedPairs:
    """Compare treatments that were interleaved in blocks; None for ``base`` takes the first one."""
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
    return ComparedPairs(found, chosen, better)


def compare_series(
    file: Path, criteria: Criteria, *, sensitivity: Sensitivity
) -> list[tuple[AnalyzedSeries, Better]]:
    """Find the level changes in the series of a file; return also their better directions."""
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
        found.append((judged, better))
    return found
