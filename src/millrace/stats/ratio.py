"""How much one treatment differs from another, when they took turns in blocks.

Whatever disturbs a whole block (a hotter CPU, a busier host) multiplies both of its trials, so it
cancels in the block's own ratio. The unit of evidence is therefore the block: one log-ratio each.
A block design with pairs is described by Box, Hunter and Hunter, *Statistics for Experimenters*
(2nd ed., 2005, ch. 3); averaging ratios by their geometric mean, so that it does not matter which
side is called the base, by Fleming and Wallace (CACM 29(3), 1986).

The interval holds for a number of blocks that was fixed beforehand. A method that may look after
every block replaces ``_t_half_width`` only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class RatioEstimate:
    """A ratio candidate / base with its confidence interval.

    ``low`` and ``high`` are None for a single pair, which says nothing about its own uncertainty;
    ``log_sd`` is the standard deviation of the log-ratios (0.01 is about 1 %), None likewise.
    """

    ratio: float
    low: float | None
    high: float | None
    n_pairs: int
    confidence: float
    log_sd: float | None


def paired_ratio(
    base: Sequence[float], candidate: Sequence[float], *, confidence: float = 0.95
) -> RatioEstimate:
    """Geometric-mean ratio candidate / base over blocks, with Student's t interval of its log.

    ``base`` and ``candidate`` have shape (n_blocks,), in any one positive unit; element *i* of both
    is from the same block. The t interval is Student's ("The Probable Error of a Mean", Biometrika
    6, 1908) on ``log(candidate / base)``, taken back through ``exp``.

    Raises ValueError for unequal lengths, no pair, or a value that is not positive and finite.
    """
    if len(base) != len(candidate):
        raise ValueError(f"{len(base)} base values, but {len(candidate)} candidate values")
    if not base:
        raise ValueError("no pair of values")
    pairs = np.asarray([base, candidate], dtype=np.float64)
    if not (np.isfinite(pairs).all() and (pairs > 0).all()):
        raise ValueError("a ratio needs values that are positive and finite")
    log_ratios = np.log(pairs[1]) - np.log(pairs[0])
    centre = float(np.mean(log_ratios))
    n_pairs = len(log_ratios)
    if n_pairs == 1:
        return RatioEstimate(math.exp(centre), None, None, 1, confidence, None)
    log_sd = float(np.std(log_ratios, ddof=1))
    half_width = _t_half_width(log_sd, n_pairs, confidence)
    return RatioEstimate(
        ratio=math.exp(centre),
        low=math.exp(centre - half_width),
        high=math.exp(centre + half_width),
        n_pairs=n_pairs,
        confidence=confidence,
        log_sd=log_sd,
    )


def _t_half_width(log_sd: float, n_pairs: int, confidence: float) -> float:
    critical = float(stats.t.ppf((1 + confidence) / 2, n_pairs - 1))
    return critical * log_sd / math.sqrt(n_pairs)
