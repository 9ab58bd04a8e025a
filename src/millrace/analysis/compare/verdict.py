"""Decide verdicts from an estimate alone.

A difference is *real* when the interval excludes 1, and *matters* when the estimate is beyond the
margin; a verdict of regression or improvement wants both. Equivalence wants the whole interval
inside the margin (the two one-sided tests of Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987, with
an interval of 95 % instead of 90 %, which is the stricter). The margin is symmetric in the
logarithm, 1 / (1 + m) to 1 + m, so that rows/s and seconds of the same trials agree.
"""

from dataclasses import dataclass

from millrace.analysis.compare.model import Verdict
from millrace.model.measurements import Direction
from millrace.model.run_spec import FEWEST_BLOCKS
from millrace.quantities import counted
from millrace.stats.power import blocks_to_decide, minimum_detectable_ratio
from millrace.stats.ratio import RatioEstimate

NEARLY_EVEN = 0.1  # up to this margin, 1 / (1 + m) is about 1 - m and goes without saying


@dataclass(frozen=True)
class Power:
    """The smallest difference that an estimate's blocks can show, and how many more would decide.

    ``minimum_detectable`` is the smallest relative difference (a fraction) that these blocks detect
    with power 0.8. ``more_blocks`` is None where more than 10 000 would be wanted.
    """

    minimum_detectable: float
    more_blocks: int | None


def margin_text(margin: float) -> str:
    """Return text such as ``2 %``; above 10 % with bounds: ``60 % (−37.5 % to +60 %)``."""
    text = f"{margin * 100:g} %"
    if margin <= NEARLY_EVEN:
        return text
    return f"{text} (−{(1 - 1 / (1 + margin)) * 100:.1f} % to +{text})"


def decide(
    estimate: RatioEstimate, direction: Direction, margin: float
) -> tuple[Verdict | None, str]:
    """Return the verdict on candidate / base, and the reason in words; None for too few blocks."""
    low, high = estimate.low, estimate.high
    if estimate.n_pairs < FEWEST_BLOCKS or low is None or high is None:
        return None, f"{counted(estimate.n_pairs, 'block')}; at least {FEWEST_BLOCKS} are needed"
    return decide_interval(estimate.ratio, low, high, direction, margin)


def decide_interval(
    ratio: float, low: float, high: float, direction: Direction, margin: float
) -> tuple[Verdict, str]:
    """Return the verdict on a ratio that lies between ``low`` and ``high``, and why."""
    least, most = 1 / (1 + margin), 1 + margin
    limit = margin_text(margin)
    excludes_1 = low > 1 or high < 1
    beyond = ratio > most or ratio < least
    if excludes_1 and beyond:
        better = (ratio > 1) == (direction == "higher")
        verdict: Verdict = "improvement" if better else "regression"
        return verdict, f"the interval excludes 1 and the estimate is beyond {limit}"
    if least < low and high < most:
        inside = f"the interval lies inside {limit}"
        return "equivalent", f"{inside}, though it excludes 1" if excludes_1 else inside
    if excludes_1:
        return "inconclusive", (
            f"a real difference, since the interval excludes 1, but the estimate is within "
            f"{limit} and the interval reaches beyond"
        )
    return "inconclusive", f"the interval includes no difference and differences beyond {limit}"


def power(estimate: RatioEstimate, margin: float) -> Power | None:
    """Compute the smallest visible difference, and how many more blocks would decide, if known."""
    detectable = smallest_detectable(estimate)
    if detectable is None:
        return None
    is_decided = decide(estimate, "higher", margin)[0] != "inconclusive"
    return Power(detectable, 0 if is_decided else blocks_to_decide(estimate, margin))


def smallest_detectable(estimate: RatioEstimate) -> float | None:
    """Return the smallest difference that as many blocks detect with power 0.8, if known."""
    if estimate.log_sd is None or estimate.n_pairs < FEWEST_BLOCKS:
        return None
    ratio = minimum_detectable_ratio(
        estimate.log_sd,
        estimate.n_pairs,
        alpha=1 - estimate.confidence,
        looks=estimate.looks,
        borrowed=estimate.borrowed,
    )
    return ratio - 1
