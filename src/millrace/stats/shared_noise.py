"""Estimate the ratios of all comparisons of a run, with shared evidence about their noise.

Three blocks give a poor estimate of their spread: Student's interval of three log-ratios, with 2
degrees of freedom, is 4.3 standard errors wide on each side. The other comparisons of the same
metric were measured on the same host in the same blocks, so their residuals improve the estimate.
Each comparison has a moderated t statistic, as in limma (Smyth, "Linear Models and Empirical Bayes
Methods for Assessing Differential Expression in Microarray Experiments", Statistical Applications
in Genetics and Molecular Biology 3, 2004): its variance is the mean of its own and of a prior,
weighted by their degrees of freedom, which add up. The estimate itself stays the paired one.

The prior comes from three sources.

* The comparison's group, which shares the base. A linear model of the group's logarithms (block +
  treatment) has residuals; what they hold beyond the comparison's own is the prior variance. These
  parts are orthogonal, so a shared base is not counted twice. Treatments of a group may differ in
  noise, so the prior has at most ``_GROUP_FREEDOM`` degrees of freedom, however many residuals.
* Other groups (other tests, other numbers of clients), at least three. The moments of
  their logarithms of variances give the prior's location and its degrees of freedom: few where the
  groups differ much. Assumed spreads (``_SPREAD``) of some groups more keep that cautious while the
  groups are few.
* Earlier runs of the group on the same host: the moments of their variances, in the same way. A
  single run lends a little, and all together lend ``_EARLIER_FREEDOM`` degrees of freedom at most,
  because the host may not be as it was.

None is trusted blindly. A variance that is an outlier borrows less, or nothing (Phipson, Lee,
Majewski, Alexander and Smyth, "Robust Hyperparameter Estimation Protects against Hypervariable
Genes and Improves Power to Detect Differential Expression", Annals of Applied Statistics 10, 2016,
do so for noisy variances; here quiet variances borrow less too). Within a group, the comparison's
variance is compared with the residuals of the other candidates alone, which do not depend on either
of its two sides; if only earlier runs lend, it is compared with their variances.

With fewer than three comparisons and no earlier run, each interval uses only its own blocks.

Intervals for any number of looks are those of ``sequential`` with the moderated spread. Since the
prior changes from look to look, their error rate is not proved but measured, on normal and on
recorded noise: it is that of the intervals with the spread of their own blocks
(``tests/unit/stats/test_shared_noise.py``, ``benchmarks/verdicts``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats.ratio import Looks, RatioEstimate, moderated_ratio, paired_ratio
from millrace.stats.sequential import Spread

FEWEST_COMPARISONS = 3

# Of treatments of one group: their noise differs by about a third (the standard deviation of a
# variance's logarithm is 0.6), as that of real servers does.
_GROUP_FREEDOM = 6.0
# Of earlier runs: the noise may have doubled since, unseen by three blocks. With 2, 94 % of such
# intervals still hold the truth, with 6 only 92 %.
_EARLIER_FREEDOM = 2.0
_FEWEST_OTHERS = 3  # groups
_SPREAD = 1.0  # variance of the logarithms of the groups' variances: a factor of 1.6 in noise
_ASSUMED_GROUPS = 2.0  # number of groups assumed to have that spread
_LEAST_SPREAD = 0.1
_OUTLIER = 0.05  # two-sided p-value below which a variance borrows less


class Variance(NamedTuple):
    """An estimated variance of log-ratios, with its degrees of freedom."""

    value: float
    freedom: float


@dataclass(frozen=True)
class GroupValues:
    """The values of treatments that share a base: by block, positive, in any one unit.

    ``earlier`` are the variances that earlier runs of the same group had, a run each.
    """

    base: Mapping[int, float]
    candidates: tuple[Mapping[int, float], ...]
    earlier: tuple[Variance, ...] = ()

    @property
    def variance(self) -> Variance | None:
        """The variance of log-ratios that blocks and treatments do not explain; None if unknown."""
        return _variance(*_residuals([self.base, *self.candidates]))


def shared_ratios(
    groups: Sequence[GroupValues], *, looks: Looks = "once"
) -> tuple[tuple[RatioEstimate | None, ...], ...]:
    """Estimate candidate / base of each group's candidates; None where no block has both.

    Raises ValueError for a value that is not positive and finite.
    """
    own = [[_Pairs.of(group, candidate) for candidate in group.candidates] for group in groups]
    known = sum(pairs.variance is not None for of_group in own for pairs in of_group)
    shares = known >= FEWEST_COMPARISONS
    if not shares and not any(group.earlier for group in groups):
        return tuple(tuple(pairs.estimate(looks) for pairs in of_group) for of_group in own)
    residuals = [_residuals([group.base, *group.candidates]) for group in groups]
    variances = [_variance(*each) for each in residuals]
    found: list[list[RatioEstimate | None]] = [[] for _ in groups]
    for place, (group, of_group) in enumerate(zip(groups, own, strict=True)):
        others = [each for at, each in enumerate(variances) if at != place]
        of_others = _across(others, _FEWEST_OTHERS) if shares else None
        earlier = _across(group.earlier, 1)
        of_earlier = _limited(earlier, _EARLIER_FREEDOM) if earlier is not None else None
        for number, pairs in enumerate(of_group):
            rest = _group_rest(pairs, *residuals[place]) if shares else None
            prior = _combined(rest, of_others, of_earlier)
            without = _variance(*_residuals(_without(group.candidates, number)))
            like = without if shares else earlier
            estimate = pairs.estimate(looks, prior, like)
            if estimate is not None and estimate.borrowed > 0:
                lends = rest is not None or of_others is not None
                runs = len(group.earlier)
                estimate = replace(estimate, shares=lends, earlier_runs=runs)
            found[place].append(estimate)
    return tuple(map(tuple, found))


def _without(
    candidates: tuple[Mapping[int, float], ...], number: int
) -> tuple[Mapping[int, float], ...]:
    return candidates[:number] + candidates[number + 1 :]


@dataclass(frozen=True)
class _Pairs:
    """The values of the blocks in which both were measured, and the variance of log-ratios."""

    base: list[float]
    candidate: list[float]
    variance: Variance | None

    @classmethod
    def of(cls, group: GroupValues, candidate: Mapping[int, float]) -> "_Pairs":
        blocks = sorted(group.base.keys() & candidate.keys())
        base, other = [group.base[each] for each in blocks], [candidate[each] for each in blocks]
        alone = paired_ratio(base, other) if blocks else None
        sd = None if alone is None else alone.log_sd
        return cls(base, other, None if sd is None else Variance(sd * sd, len(blocks) - 1.0))

    def estimate(
        self, looks: Looks, prior: Variance | None = None, others: Variance | None = None
    ) -> RatioEstimate | None:
        """Estimate the ratio; ``others`` is what the own variance is compared with (``prior``)."""
        if not self.base:
            return None
        if prior is None or self.variance is None:
            return paired_ratio(self.base, self.candidate, looks=looks)
        value, freedom = _moderated(
            self.variance,
            _limited(prior, _GROUP_FREEDOM),
            _limited(others, _GROUP_FREEDOM) if others else None,
        )
        return moderated_ratio(
            self.base,
            self.candidate,
            Spread(math.sqrt(value), freedom - self.variance.freedom),
            looks,
        )


def _group_rest(pairs: _Pairs, squares: float, freedom: float) -> Variance | None:
    """Return the group's evidence about a comparison's variance, without the comparison's pairs.

    ``squares`` and ``freedom`` are those of the group's residuals, the pairs' own included.
    """
    own = pairs.variance
    if own is None:
        return None
    return _variance(squares - own.value * own.freedom, freedom - own.freedom)


def _combined(*sources: Variance | None) -> Variance | None:
    """Return the combined variance of all sources; each source moderates those before it."""
    known = [source for source in sources if source is not None]
    return reduce(_moderated, known) if known else None


def _limited(prior: Variance, most: float) -> Variance:
    """Return the prior with fewer than ``most`` degrees of freedom, as the truth may differ."""
    return Variance(prior.value, 1 / (1 / prior.freedom + 1 / most))


def _variance(squares: float, freedom: float) -> Variance | None:
    return Variance(squares / freedom, freedom) if freedom > 0 and squares > 0 else None


def _moderated(own: Variance, prior: Variance, like: Variance | None = None) -> Variance:
    """Return the mean of both variances, weighted by degrees of freedom, which add up.

    The prior has less weight the less ``own`` looks like ``like``, by default the prior.
    """
    like = like or prior
    ratio = own.value / like.value
    tails = (
        float(tail(own.freedom, like.freedom, ratio))
        for tail in (scipy.special.fdtr, scipy.special.fdtrc)
    )
    lent = prior.freedom * min(1.0, 2 * min(tails) / _OUTLIER)
    freedom = own.freedom + lent
    return Variance((own.freedom * own.value + lent * prior.value) / freedom, freedom)


def _residuals(treatments: Sequence[Mapping[int, float]]) -> tuple[float, float]:
    """Return the sum of squares of the residuals of treatments, and their degrees of freedom.

    The model is block + treatment. Values are scaled so that the mean square estimates the variance
    of log-ratios, which is twice that of single values.
    """
    blocks = {block: at for at, block in enumerate(sorted(set().union(*treatments)))}
    rows = [(blocks[block], at) for at, values in enumerate(treatments) for block in values]
    if not rows:
        return 0.0, 0.0
    logs = np.log([value for values in treatments for value in values.values()])
    numbers = np.arange(len(rows))
    design = np.zeros((len(rows), len(blocks) + len(treatments)))
    design[numbers, [block for block, _ in rows]] = 1
    design[numbers, [len(blocks) + treatment for _, treatment in rows]] = 1
    fitted, _, rank, _ = np.linalg.lstsq(design, logs)
    left: NDArray[np.float64] = logs - design @ fitted
    return 2 * float(left @ left), float(len(rows) - rank)


def _across(groups: Sequence[Variance | None], fewest: int) -> Variance | None:
    """Return the prior of a group's variance from other groups, or from its earlier runs.

    None where fewer than ``fewest`` are known.
    """
    known = [each for each in groups if each is not None]
    if len(known) < fewest:
        return None
    values, freedom = (np.asarray(of) for of in zip(*known, strict=True))
    shapes = freedom / 2
    logs = np.log(values) - scipy.special.digamma(shapes) + np.log(shapes)
    chance = float(scipy.special.polygamma(1, shapes).mean())
    degrees = len(known) - 1
    squares = float(((logs - logs.mean()) ** 2).sum())
    spread = (squares - degrees * chance + _ASSUMED_GROUPS * _SPREAD) / (degrees + _ASSUMED_GROUPS)
    spread = max(spread, _LEAST_SPREAD)
    # The centre is itself an estimate.
    half = _inverse_trigamma(spread + (spread + chance) / len(known))
    centre = float(logs.mean()) + float(scipy.special.digamma(half)) - math.log(half)
    return Variance(math.exp(centre), 2 * half)


def _inverse_trigamma(value: float) -> float:
    """Return the argument at which the trigamma function has a positive ``value``."""

    def excess(log_argument: float) -> float:
        return float(scipy.special.polygamma(1, math.exp(log_argument))) - value

    return math.exp(float(scipy.optimize.brentq(excess, -20.0, 20.0)))
