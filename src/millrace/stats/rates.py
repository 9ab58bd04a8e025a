"""Compare the failure rates of two treatments that took turns, from counts of few blocks.

Errors come in bursts (a deadlock breeds another), so a test that assumes independent draws finds
differences in A/A comparisons. The unit of evidence is therefore the block: Student's t on the
blocks' differences of rates.

Rates are not equal because no difference was found: few blocks have little power. Equality
therefore needs positive evidence: both rates are negligible by their upper bounds (that of Clopper
and Pearson, Biometrika 26, 1934, on the sums, and Student's on the blocks, whichever is higher), or
the interval of their difference lies inside a tolerance (the two one-sided tests of Schuirmann, J.
Pharmacokinet. Biopharm. 15, 1987, with an interval of 95 % instead of 90 %, which is stricter, and
never narrower than for independent draws, since rates of few tries agree by chance). Rates that
differ significantly are not equal either, however close they are.

Differences are tested by Student's t, which holds for any rates drawn from the same distribution on
both sides, since their differences are then symmetric about 0 (heavier tails make it more
conservative). A single outlying block defeats that test, so gross differences are also tested by
Fisher's exact test (*The Design of Experiments*, 1935) on the sums: whatever the cause, trials that
differ by a hundredth of their requests did not do the same work.

If the user looks after every block, intervals that are valid at any look (``sequential``; 90 % for
equality) replace Student's. The upper bound of the sums is then also valid at any look (Robbins,
"Statistical Methods Related to the Law of the Iterated Logarithm", Annals of Mathematical
Statistics 41, 1970: the probability that a count is ever less probable than ``alpha / (n + 1)``, at
any number of draws ``n``, is at most ``alpha``). Fisher's test is not used, because rates with
bursts of errors differ grossly at some look. Such rates are not called equal: more blocks decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats.mean import mean_limits
from millrace.stats.proportions import proportion_limits
from millrace.stats.ratio import Looks

NEGLIGIBLE = 0.001  # a twentieth of the usual margin
GROSS = 0.01

Side = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class RateComparison:
    """Mean rates of base and candidate over the blocks, and the conclusion about them."""

    base: float
    candidate: float
    shown: Literal["equal", "different", "neither"]


def compare_rates(
    base: Side, candidate: Side, *, tolerance: float, alpha: float = 0.05, looks: Looks = "once"
) -> RateComparison:
    """Compare hits / tries; element *i* of both is the (hits, tries) of the same block.

    Rates are equal without a single hit, if the upper bounds of both are below 0.1 %, or if
    the interval of their difference lies inside ``tolerance`` and they are not called different.
    Rates that differ by the tolerance are called equal with a probability of at most ``alpha``,
    once there is a hit.

    Rates are different if their means differ by more than 0.1 percentage points, and either the
    interval of that difference over the blocks excludes 0, or the means differ by more than 1
    percentage point and Fisher's test of all hits and tries rejects equality. Each test has half of
    ``alpha``, so that equal rates are called different with a probability of ``alpha`` at most. For
    any number of ``looks`` only the interval is used; both error probabilities then hold for all
    looks together. Trials without tries have a rate of 0.

    Raises ValueError for unequal lengths, no block, more hits than tries, or a tolerance below
    0.1 %, within which a difference does not matter anyway.
    """
    if len(base) != len(candidate) or not base:
        raise ValueError(f"{len(base)} blocks of the base, {len(candidate)} of the candidate")
    if any(not 0 <= hits <= tries for hits, tries in (*base, *candidate)):
        raise ValueError("hits must be between 0 and the number of tries")
    if tolerance < NEGLIGIBLE:
        raise ValueError(f"the tolerance must be at least {NEGLIGIBLE:g}, not {tolerance:g}")
    shown: Literal["equal", "different", "neither"] = "neither"
    sides = (base, candidate)
    if not any(hits for side in sides for hits, _ in side) or all(
        _upper_bound(side, alpha / 2, looks) < NEGLIGIBLE for side in sides
    ):
        shown = "equal"
    elif _told_apart(base, candidate, alpha, looks):
        shown = "different"
    elif _within(base, candidate, tolerance, alpha, looks):
        shown = "equal"
    return RateComparison(_mean(base), _mean(candidate), shown)


def _rates(side: Side) -> NDArray[np.float64]:
    return np.asarray([hits / tries if tries else 0.0 for hits, tries in side])


def _mean(side: Side) -> float:
    return float(np.mean(_rates(side)))


def _sums(side: Side) -> tuple[int, int]:
    return sum(hits for hits, _ in side), sum(tries for _, tries in side)


def _upper_bound(side: Side, alpha: float, looks: Looks) -> float:
    """Return the upper confidence bound of the rate, with error probability ``alpha``."""
    hits, tries = _sums(side)
    tail = alpha if looks == "once" else alpha / (tries + 1)
    drawn = proportion_limits(hits, tries, confidence=1 - 2 * tail)[1] if tries else 1.0
    return max(drawn, mean_limits(_rates(side), 2 * alpha, looks)[1])


def _told_apart(base: Side, candidate: Side, alpha: float, looks: Looks) -> bool:
    differences = _rates(candidate) - _rates(base)
    difference = abs(float(np.mean(differences)))
    if difference <= NEGLIGIBLE:
        return False
    low, high = mean_limits(differences, alpha if looks == "any" else alpha / 2, looks)
    if low > 0 or high < 0:
        return True
    return (
        looks == "once" and difference > GROSS and fisher(_sums(base), _sums(candidate)) < alpha / 2
    )


def _within(base: Side, candidate: Side, tolerance: float, alpha: float, looks: Looks) -> bool:
    """Return whether the whole interval of the rates' difference is inside the tolerance."""
    differences = _rates(candidate) - _rates(base)
    variance = 0.0
    for hits, tries in map(_sums, (base, candidate)):
        variance += hits * (tries - hits) / tries**3 if tries else 0.0
    # Only one end of the interval can be wrong, which is half as likely. For one look the stricter
    # usual interval is used; for any number of looks it would need too many blocks.
    of_both = alpha if looks == "once" else 2 * alpha
    low, high = mean_limits(differences, of_both, looks, least_error=math.sqrt(variance))
    return -tolerance < low and high < tolerance


def fisher(base: tuple[int, int], candidate: tuple[int, int]) -> float:
    """Return the two-sided p-value of Fisher's exact test for the (hits, tries) of both sides."""
    table = [(hits, tries - hits) for hits, tries in (base, candidate)]
    return float(scipy.stats.fisher_exact(np.asarray(table)).pvalue)
