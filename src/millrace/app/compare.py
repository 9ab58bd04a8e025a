"""Compare results of other benchmarks: paired treatments and series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from millrace.analysis.compare.comparability import TrialWork
from millrace.analysis.compare.paired import PairedComparison, Work, compare_counted
from millrace.analysis.compare.paired import compare_paired as analyze_paired
from millrace.analysis.history.series_verdicts import AnalyzedSeries, analyze_series
from millrace.importers import paired
from millrace.importers import series as series_file
from millrace.importers.csv_reader import called
from millrace.importers.paired import Counts
from millrace.importers.units import Better, counts_instructions
from millrace.model.instruction_counts import MARGIN as INSTRUCTIONS_MARGIN
from millrace.model.measurements import Direction
from millrace.stats.change_points import Sensitivity

MARGIN = 0.02
"""The default margin, except for instruction counts."""


@dataclass(frozen=True)
class Criteria:
    """The criteria of verdicts.

    ``margin`` is a fraction, None for the default of the unit. ``alpha`` is the error rate.
    ``direction`` is the better one, None for the file's.
    """

    margin: float | None
    alpha: float
    direction: Direction | None

    def margin_of(self, unit: str) -> float:
        """Return the margin for values in this unit."""
        if self.margin is not None:
            return self.margin
        return INSTRUCTIONS_MARGIN if counts_instructions(unit) else MARGIN


class ComparedPairs(NamedTuple):
    """Comparisons with the base, the better direction of their values, and their margin."""

    comparisons: Sequence[PairedComparison]
    base: str
    better: Better
    margin: float


class ComparedSeries(NamedTuple):
    """The changes of a series, the better direction of its values, and their margin.

    ``is_sorted``: whether the rows had to be sorted by time.
    """

    analyzed: AnalyzedSeries
    better: Better
    margin: float
    is_sorted: bool


def compare_paired(file: Path, criteria: Criteria, *, base: str | None) -> ComparedPairs:
    """Compare treatments that were interleaved in blocks; ``base`` None is the first one."""
    pairs = paired.read(file)
    chosen = paired.base_of(called(file), pairs.values, base)
    better = pairs.measure.better(criteria.direction)
    margin = criteria.margin_of(pairs.measure.unit)
    if counts_instructions(pairs.measure.unit):
        found = compare_counted(
            pairs.values,
            base=chosen,
            direction=better.direction,
            margin=margin,
            alpha=criteria.alpha,
        )
    else:
        found = analyze_paired(
            pairs.values,
            base=chosen,
            direction=better.direction,
            margin=margin,
            alpha=criteria.alpha,
            work=_work(pairs.work),
            unit_of_last_digit=pairs.unit_of_last_digit,
        )
    return ComparedPairs(found, chosen, better, margin)


def _work(counts: Mapping[str, Mapping[str, Counts]]) -> Work:
    # Only open-loop trials skip operations, and either all trials of a file are open-loop or none.
    is_open = any(each.skipped for of_blocks in counts.values() for each in of_blocks.values())
    return {
        treatment: {block: _trial_work(each, is_open=is_open) for block, each in of_blocks.items()}
        for treatment, of_blocks in counts.items()
    }


def _trial_work(counts: Counts, *, is_open: bool) -> TrialWork:
    operations, errors, retries, skipped = (count or 0 for count in counts)
    return TrialWork(
        block=0,
        transactions=operations,
        errors=errors,
        retries=retries,
        skipped=skipped,
        scheduled=operations + errors + skipped if is_open else 0,
    )


def compare_series(
    file: Path, criteria: Criteria, *, sensitivity: Sensitivity
) -> list[ComparedSeries]:
    """Find the level changes in the series of a file."""
    found = []
    for each in series_file.read(file):
        better = each.measure.better(criteria.direction)
        margin = criteria.margin_of(each.measure.unit)
        judged = analyze_series(
            each.name,
            each.labels,
            each.values,
            sensitivity=sensitivity,
            direction=better.direction,
            margin=margin,
            alpha=criteria.alpha,
            unit_of_last_digit=(
                0.0 if counts_instructions(each.measure.unit) else each.unit_of_last_digit
            ),
        )
        found.append(ComparedSeries(judged, better, margin, each.is_sorted))
    return found
