"""Comparisons of treatments' values that took turns in blocks, whoever measured them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.analysis.metrics import Direction
from millrace.analysis.model import Verdict
from millrace.analysis.verdict import Reach, decide, reach
from millrace.stats import (
    FEWEST_BLOCKS,
    RatioEstimate,
    benjamini_yekutieli,
    log_ratios,
    paired_ratio,
)
from millrace.stats.sequential import p_value


@dataclass(frozen=True)
class PairComparison:
    """A candidate's values against the base's: effect, interval, verdict.

    ``estimate`` is candidate / base with an interval that holds however often one looked,
    ``fixed`` with that for a number of blocks fixed beforehand; None without a block that has both,
    of which there are ``n_blocks``. ``reach`` is None where there are too few for a verdict.
    ``adjusted_p`` takes into account how many comparisons were made with this one (Benjamini and
    Yekutieli); None without an interval.
    """

    base: str
    candidate: str
    estimate: RatioEstimate | None
    fixed: RatioEstimate | None
    n_blocks: int
    dropped: int
    verdict: Verdict
    reason: str
    reach: Reach | None
    adjusted_p: float | None


def judge_pairs(
    values: Mapping[str, Mapping[str, float]],
    *,
    base: str,
    direction: Direction,
    margin: float,
    alpha: float,
) -> tuple[PairComparison, ...]:
    """Every other treatment against ``base``, in the order of ``values``.

    ``values`` holds for each treatment its positive values by block, in any one unit; ``margin`` is
    a fraction. A block that lacks one of the two is dropped from their comparison. The verdict goes
    by the interval that holds for any number of looks.
    """
    candidates = [name for name in values if name != base]
    paired = [_pairs(values[base], values[name]) for name in candidates]
    p_values = [p_value(log_ratios(*pair)) if pair[0] else None for pair in paired]
    adjusted = iter(benjamini_yekutieli([p for p in p_values if p is not None]))
    return tuple(
        _compare(
            base,
            candidate,
            *pair,
            blocks=len(values[base].keys() | values[candidate].keys()),
            direction=direction,
            margin=margin,
            alpha=alpha,
            adjusted_p=None if p is None else next(adjusted),
        )
        for candidate, pair, p in zip(candidates, paired, p_values, strict=True)
    )


def _pairs(
    base: Mapping[str, float], candidate: Mapping[str, float]
) -> tuple[list[float], list[float]]:
    blocks = [block for block in base if block in candidate]
    return [base[block] for block in blocks], [candidate[block] for block in blocks]


def _compare(
    base: str,
    candidate: str,
    base_values: list[float],
    candidate_values: list[float],
    *,
    blocks: int,
    direction: Direction,
    margin: float,
    alpha: float,
    adjusted_p: float | None,
) -> PairComparison:
    n_blocks = len(base_values)
    estimate = fixed = found = None
    verdict: Verdict | None = None
    reason = f"no block has both; at least {FEWEST_BLOCKS} are wanted"
    if n_blocks:
        confidence = 1 - alpha
        fixed = paired_ratio(base_values, candidate_values, confidence=confidence)
        estimate = paired_ratio(base_values, candidate_values, confidence=confidence, looks="any")
        verdict, reason = decide(estimate, direction, margin)
        found = reach(estimate, margin)
    return PairComparison(
        base=base,
        candidate=candidate,
        estimate=estimate,
        fixed=fixed,
        n_blocks=n_blocks,
        dropped=blocks - n_blocks,
        verdict=verdict or "inconclusive",
        reason=reason,
        reach=found,
        adjusted_p=adjusted_p,
    )
