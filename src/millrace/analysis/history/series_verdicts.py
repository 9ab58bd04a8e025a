"""Judge change points of a history: regression, improvement, or too small to matter.

A change point is a candidate, until a measurement of its own confirms it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.analysis.compare.model import Verdict
from millrace.analysis.compare.verdict import decide_interval
from millrace.model.measurements import Direction
from millrace.stats.change_points import FEWEST_TO_TELL, Sensitivity, change_points, follows_trend

Outcome = Literal["moved", "not moved", "trend", "too few points"]


@dataclass(frozen=True)
class AnalyzedPoint:
    """A point at which the level of a series moved.

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


@dataclass(frozen=True)
class AnalyzedSeries:
    """The change ``points`` of one series of ``n_points``, and what the series allows to say."""

    name: str
    n_points: int
    direction: Direction
    outcome: Outcome
    points: tuple[AnalyzedPoint, ...]


def analyze_series(
    name: str,
    labels: Sequence[str],
    values: Sequence[float],
    *,
    sensitivity: Sensitivity,
    direction: Direction,
    margin: float,
    alpha: float,
    unit_of_last_digit: float = 0.0,
) -> AnalyzedSeries:
    """Judge the change points of one series, in its order.

    ``labels`` and ``values``, positive, in any one unit and rounded to ``unit_of_last_digit``, have
    shape (n,); ``margin`` is a fraction; intervals have a confidence of ``1 - alpha``.
    """
    judged = []
    for point in change_points(
        values, sensitivity=sensitivity, confidence=1 - alpha, unit_of_last_digit=unit_of_last_digit
    ):
        ratio, low, high = point.ratio, point.low, point.high
        verdict, reason = decide_interval(ratio, low, high, direction, margin)
        label = labels[point.index]
        judged.append(AnalyzedPoint(name, point.index, label, ratio, low, high, verdict, reason))
    outcome: Outcome = "not moved"
    if judged:
        outcome = "moved"
    elif len(values) < FEWEST_TO_TELL:
        outcome = "too few points"
    elif follows_trend(values, sensitivity=sensitivity):
        outcome = "trend"
    return AnalyzedSeries(name, len(values), direction, outcome, tuple(judged))
