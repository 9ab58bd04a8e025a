"""Classify the seconds of a trial's measured part as steady or as one of several trends.

Two things bias the mean of a measured part. First, it may begin before the warm-up has ended: the
truncation that MSER finds (``stats.steady``) reaches into it, moves its mean by more than the
margin, and the start lies apart from the rest. Second, the whole part may move by more than twice
the margin, which biases its mean; this is decided by the test of ``stats.steady`` on all of it,
with nothing cut away, since a cut would take half of any trend with it. Each of the two tests has
half of ``alpha``.

A start lies apart where its lower median does, so that a stall of one second, after which MSER
tends to cut, does not count as a warm-up. The median's error is the normal distribution's, with as
many seconds as those of a first-order autoregression are worth (Bayley and Hammersley, Supplement
to the Journal of the Royal Statistical Society 8, 1946), against Student's t at ``alpha`` / 2 over
the number of such starts (Bonferroni).

A spectrum cannot distinguish a step from strong correlation. A gross step is detected separately:
two levels of three points or more that are eight residual standard deviations apart. The best step
in 2,000 autoregressions is as large in none of 20, 30, 60 and 300 points, with any correlation up
to 0.95, and in 0.25 % of 8 points and 0.15 % of 10 where it is 0.8 or more.

One series of 30 points has little power: a fall by 7 % under noise of 2 % is found in 18 to 24 % of
them. Several series measured one after another have more (``detect_shared_drift``): for five that
fall so, a comparison is refused in 98 % and more, for five that do not in none
(``benchmarks/steady_state``).

An unsteady series gets the simplest description: a start apart from a steady rest is a warm-up; a
series that ends about where it began is a wave, as checkpoints cause; anything else is a drift, or
a shift where a step fits better than a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats.mean import mean_limits
from millrace.stats.ratio import Looks
from millrace.stats.steady import Steady, steady_state

TrendClass = Literal["steady", "warm-up", "drift", "shift", "wave", "too short to tell"]

_MEDIAN_ERROR = 1.2533  # standard error of a median / of a mean: sqrt(pi / 2)
_FEWEST_APART = 2  # points; a single point may be a spike
_FEWEST_ALIKE = 3  # series
_FEWEST_OF_LEVEL = 3  # points
_GROSS = 8.0  # residual standard deviations around two levels
_BETTER = 0.8  # largest residual sum of squares of a step, relative to that of a line
_RETURNS = 0.5  # share of the swing by which the ends of a wave may differ

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trend:
    """The trend of a series.

    ``change`` is a fraction: the warm-up's mean relative to the rest, the rise of a drift or a
    shift, the swing of a wave; None where the series is steady or too short. ``at`` is the number
    of points before the rest or the shift. ``rise`` is the rise of a straight line through the
    whole series as a fraction of the mean, None where the series is too short.
    """

    kind: TrendClass
    change: float | None = None
    at: int | None = None
    rise: float | None = None


def classify_trend(series: Sequence[float], *, margin: float = 0.02, alpha: float = 0.02) -> Trend:
    """Classify ``series``, shape (n,), values at equal distances in any one unit.

    A steady series is called anything else with a probability of about ``alpha`` (more where
    neighbours depend on each other strongly, see ``stats.steady``), and never where its mean is off
    by less than the fraction ``margin``. Raises ValueError for no value, or one that is not finite.
    """
    values = np.asarray(series, dtype=np.float64)
    whole = steady_state(series, margin=2 * margin, alpha=alpha / 2, cut=0)
    if whole.reason == "too short to tell":
        return Trend("too short to tell")
    later = steady_state(series, margin=2 * margin, alpha=alpha / 2)
    begins_early = (
        later.correlation is not None
        and abs(whole.mean / later.mean - 1) > margin
        and _apart(values, later.cut, later.correlation, alpha / 2)
    )
    line_left, slope = _line(values)
    rise = slope * (len(values) - 1)
    found = _jump(values, margin)
    if found is None:
        found = Trend("steady")
        if begins_early or not whole.steady:
            found = _described(values, whole, later, line_left, rise)
    return replace(found, rise=rise / whole.mean)


def detect_shared_drift(
    courses: Sequence[Trend], *, margin: float = 0.02, alpha: float = 0.01, looks: Looks = "once"
) -> tuple[Trend, ...]:
    """Classify series measured one after another, and detect drift that they share.

    Series that rise (or fall) alike are drifts even where each one may be chance.

    The test is Student's t on the series' rises, whose mean must exceed twice the margin; for any
    number of ``looks`` at a growing number of series it is the interval of ``sequential``.
    Dependence between seconds does not matter because the series is the unit. Fewer than three
    series have no usable spread.
    """
    rises = np.asarray([course.rise for course in courses if course.rise is not None])
    mean = float(rises.mean()) if len(rises) else 0.0
    if len(rises) < _FEWEST_ALIKE or abs(mean) <= 2 * margin:
        return tuple(courses)
    low, high = mean_limits(rises, alpha, looks)
    if low <= 0 <= high:
        return tuple(courses)
    return tuple(
        replace(course, kind="drift", change=course.rise)
        if course.kind == "steady"
        and course.rise is not None
        and np.sign(course.rise) == np.sign(mean)
        and abs(course.rise) > 2 * margin
        else course
        for course in courses
    )


def _apart(values: Floats, cut: int, correlation: float, alpha: float) -> bool:
    """Return whether the start of a series lies apart from all after the cut.

    A start is the first one or more of the ``cut`` points; lower medians are compared.
    """
    rest = values[cut:]
    distances = values[:cut] - rest.mean()
    seconds_worth = (1 - correlation) / (1 + correlation)
    variance = float(rest.var(ddof=1)) / seconds_worth
    n_starts = max(len(values) // 2, 1)
    limit = float(-scipy.special.stdtrit(len(rest) - 1, alpha / n_starts / 2))
    for length in range(_FEWEST_APART, cut + 1):
        start = distances[:length]
        distance = float(np.sort(np.abs(start))[(length - 1) // 2])
        error = (variance * (_MEDIAN_ERROR**2 / length + 1 / len(rest))) ** 0.5
        if abs(np.sign(start).sum()) >= length / 2 and distance > limit * error:
            return True
    return False


def _jump(values: Floats, margin: float) -> Trend | None:
    """Return the gross step to another level, if any; it needs no spectrum."""
    lengths = slice(_FEWEST_OF_LEVEL - 1, len(values) - _FEWEST_OF_LEVEL)
    left = _left_by_steps(values)[lengths]
    at = int(np.argmin(left)) + _FEWEST_OF_LEVEL
    before, after = float(values[:at].mean()), float(values[at:].mean())
    spread = max(float(left.min()), 0.0) / (len(values) - 2)
    level = after if at <= len(values) / 2 else before
    matters = abs(float(values.mean()) - level) > margin * abs(level)
    if not matters or abs(after - before) <= _GROSS * spread**0.5:
        return None
    if at <= len(values) / 2:
        return Trend("warm-up", before / after - 1 if after else None, at)
    return Trend("shift", _grown(before, after), at)


def _described(
    values: Floats, whole: Steady, later: Steady, line_left: float, rise: float
) -> Trend:
    """Describe values that are not steady."""
    left = _left_by_steps(values)
    if later.cut and later.reason == "steady":
        at = int(np.argmin(left[: later.cut])) + 1
        if left[at - 1] < line_left:
            return Trend("warm-up", float(values[:at].mean()) / later.mean - 1, later.cut)
    tenth = max(len(values) // 10, 2)
    between_ends = abs(float(values[-tenth:].mean() - values[:tenth].mean()))
    assert whole.swing is not None  # it is long enough
    if between_ends < _RETURNS * whole.swing * abs(whole.mean):
        return Trend("wave", whole.swing)
    at = int(np.argmin(left)) + 1
    if left[at - 1] < _BETTER * line_left:
        return Trend("shift", _grown(float(values[:at].mean()), float(values[at:].mean())), at)
    return Trend("drift", _grown(whole.mean - rise / 2, whole.mean + rise / 2))


def _grown(before: float, after: float) -> float | None:
    """Return the relative growth; None if ``before`` is not positive."""
    return after / before - 1 if before > 0 else None


def _line(values: Floats) -> tuple[float, float]:
    """Return the residual sum of squares of a straight line, and its slope per point."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = float(time @ values / (time @ time))
    left = values - values.mean() - slope * time
    return float(left @ left), slope


def _left_by_steps(values: Floats) -> Floats:
    """Return the residual sums of squares of two levels, the second starting at 1, 2, ... n - 1."""
    centred = values - values.mean()
    before = np.arange(1, len(values))
    sums = np.cumsum(centred)[:-1]
    explained = sums**2 * (1 / before + 1 / (len(values) - before))
    return np.asarray(centred @ centred - explained)
