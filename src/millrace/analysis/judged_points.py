"""Change points of a history with what they mean: regression, improvement, or too small to matter.

A change point is a candidate: it was found in what was measured anyway, by looking for it. What
confirms it is a measurement of its own, of before and after in turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import special

from millrace.analysis.metrics import Direction
from millrace.analysis.model import Verdict
from millrace.analysis.verdict import decide_interval
from millrace.stats.change_points import change_points

Sensitivity = Literal["list", "page"]

_ALPHA = 0.05  # of the intervals of ``change_points``


@dataclass(frozen=True)
class JudgedPoint:
    """Where the level of a series moved.

    ``index`` (from 0) and ``label`` are those of the first point of the new level; ``ratio``,
    ``low`` and ``high`` are new / old level.
    """

    series: str
    index: int
    label: str
    ratio: float
    low: float
    high: float
    verdict: Verdict
    reason: str
    state: Literal["candidate"] = "candidate"


def judge_history(
    name: str,
    labels: Sequence[str],
    values: Sequence[float],
    *,
    sensitivity: Sensitivity,
    direction: Direction,
    margin: float,
    alpha: float,
) -> tuple[JudgedPoint, ...]:
    """The change points of one series, in its order.

    ``labels`` and ``values``, positive and in any one unit, have shape (n,); ``margin`` is a
    fraction; intervals have a confidence of ``1 - alpha``.
    """
    judged = []
    for point in change_points(values, sensitivity=sensitivity):
        low, high = (_moved(point.ratio, limit, alpha) for limit in (point.low, point.high))
        verdict, reason = decide_interval(point.ratio, low, high, direction, margin)
        label = labels[point.index]
        judged.append(
            JudgedPoint(name, point.index, label, point.ratio, low, high, verdict, reason)
        )
    return tuple(judged)


def _moved(ratio: float, limit: float, alpha: float) -> float:
    """A limit of 95 % confidence as one of ``1 - alpha``, as if the log-ratio were normal."""
    if alpha == _ALPHA:
        return limit
    scale = float(special.ndtri(alpha / 2) / special.ndtri(_ALPHA / 2))
    return ratio * math.exp(scale * math.log(limit / ratio))
