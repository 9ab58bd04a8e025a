"""Comparisons of numbers that were measured elsewhere: table, sentences, JSON."""

from collections.abc import Sequence
from typing import Annotated, Any

from millrace.analysis.compare.model import Verdict
from millrace.analysis.compare.paired import PairedComparison
from millrace.analysis.compare.verdict import margin_text
from millrace.model.measurements import Direction
from millrace.quantities import counted
from millrace.report.common import formatting
from millrace.report.common.json_parts import From, JsonPart, part
from millrace.report.common.tables import Column, Row, Table, plain_table, text_columns
from millrace.report.counts import counts_sentence

_PLAIN = ("instruction", "instructions")  # units that say nothing beside the sentence


class ComparisonPart(JsonPart):
    """Candidate / base; differences are fractions. Null: not known.

    `low` and `high` hold for any number of looks, `fixed_low` and `fixed_high` for a number of
    blocks fixed beforehand.
    """

    WITHIN = "estimate"

    base: str
    candidate: str
    ratio: float | None
    low: float | None
    high: float | None
    fixed_low: Annotated[float | None, From("fixed.low")]
    fixed_high: Annotated[float | None, From("fixed.high")]
    verdict: Verdict
    reason: str
    n_blocks: int
    dropped_blocks: Annotated[int, From("dropped")]
    minimum_detectable_effect: Annotated[float | None, From("power.minimum_detectable")]
    more_blocks: Annotated[int | None, From("power.more_blocks")]
    adjusted_p: float | None
    sentence: str


class PairsDocument(JsonPart):
    """Comparisons of treatments that were interleaved in blocks."""

    base: str
    direction: Direction
    direction_from: str
    unit: str
    margin: float
    alpha: float
    comparisons: list[ComparisonPart]


def table(comparisons: Sequence[PairedComparison], alpha: float) -> Table:
    """Return a row a candidate."""
    if any(each.instructions is not None for each in comparisons):
        return _counts_table(comparisons, alpha)
    titles = ("ratio", f"{(1 - alpha) * 100:g} % interval", "blocks")
    others = (*map(Column, titles), Column("can show", drop=1), *text_columns("verdict"))
    return plain_table("comparisons", (*text_columns("candidate"), *others), map(_row, comparisons))


def _counts_table(comparisons: Sequence[PairedComparison], alpha: float) -> Table:
    titles = ("instructions", "ratio", f"{(1 - alpha) * 100:g} % interval")
    columns = (*text_columns("candidate"), *map(Column, titles), Column("counts", drop=1))
    rows = (_counts_row(each) for each in comparisons)
    return plain_table("comparisons", (*columns, *text_columns("verdict")), rows)


def _counts_row(comparison: PairedComparison) -> Row:
    name, ratio, interval, counts, _power, verdict = _row(comparison).cells
    mean = formatting.known_text(comparison.instructions, lambda of: formatting.grouped_text(of[1]))
    return Row((name, mean, ratio, interval, counts, verdict), comparison.verdict)


def sentence(comparison: PairedComparison, margin: float, unit: str) -> str:
    """Return a comparison in full: change, verdict with reason, and what would decide it."""
    if comparison.instructions is not None and comparison.estimate is not None:
        a, b = map(formatting.grouped_text, comparison.instructions)
        means = f"{b} and {a}" + ("" if unit.strip().lower() in _PLAIN else f" {unit}")
        said = counts_sentence(
            comparison.base,
            comparison.candidate,
            comparison.estimate,
            means=means,
            evidence="count",
        )
        return f"{said}: {comparison.verdict}, {comparison.reason}."
    text = f"{comparison.candidate} against {comparison.base}: "
    if comparison.estimate is not None:
        text += f"{formatting.change_text(comparison.estimate.ratio)}, "
    text += f"{comparison.verdict}, {comparison.reason}"
    if comparison.verdict == "inconclusive":
        text += _still_needed(comparison, margin)
    if comparison.dropped:
        were = "was" if comparison.dropped == 1 else "were"
        blocks = counted(comparison.dropped, "block")
        text += f"; {blocks} without one of the two {were} dropped"
    return f"{text}."


def family_sentence(comparisons: Sequence[PairedComparison], alpha: float) -> str | None:
    """Count the differences that survive the FDR correction, among several comparisons."""
    different = [each for each in comparisons if each.estimate and each.estimate.excludes_1]
    if len(comparisons) == 1 or not different:
        return None
    kept = sum(each.adjusted_p is not None and each.adjusted_p <= alpha for each in different)
    exclude = "excludes" if len(different) == 1 else "exclude"
    do = "does" if kept == 1 else "do"
    return (
        f"{len(different)} of {len(comparisons)} intervals {exclude} 1; {kept} still {do} when "
        f"their number is taken into account (false discovery rate {alpha * 100:g} %)."
    )


def as_json(
    comparisons: Sequence[PairedComparison],
    *,
    direction: Direction,
    direction_from: str,
    unit: str,
    margin: float,
    alpha: float,
) -> dict[str, Any]:
    """Return the comparisons as one document."""
    document = PairsDocument(
        base=comparisons[0].base,
        direction=direction,
        direction_from=direction_from,
        unit=unit,
        margin=margin,
        alpha=alpha,
        comparisons=[
            part(ComparisonPart, each, sentence=sentence(each, margin, unit))
            for each in comparisons
        ],
    )
    return document.model_dump(mode="json")


def _row(comparison: PairedComparison) -> Row:
    estimate, found = comparison.estimate, comparison.power
    cells = (
        comparison.candidate,
        formatting.known_text(estimate, lambda each: formatting.ratio_text(each.ratio)),
        formatting.known_text(estimate, lambda each: formatting.interval_text(each.low, each.high)),
        f"{comparison.n_blocks}",
        formatting.known_text(found, lambda each: formatting.percent_text(each.minimum_detectable)),
        f"{formatting.GLYPHS[comparison.verdict]} {comparison.verdict}",
    )
    return Row(cells, comparison.verdict)


def _still_needed(comparison: PairedComparison, margin: float) -> str:
    found = comparison.power
    if found is None:
        return ""
    difference = formatting.percent_text(found.minimum_detectable)
    seen = f"; these blocks can show a difference of {difference}"
    if found.more_blocks is None:
        return (
            f"{seen}, and even thousands more would not decide: the spread is large, or the "
            f"difference very close to {margin_text(margin)}"
        )
    return f"{seen}, and about {counted(found.more_blocks, 'more block')} would decide"
