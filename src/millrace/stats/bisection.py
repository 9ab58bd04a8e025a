"""Locate a level change in an ordered list when every measurement of a member is noisy.

One unlucky run sends plain bisection to the wrong half permanently. Here every measurement updates
a probability distribution over all positions of the change (Burnashev and Zigangirov, Problems of
Information Transmission 10, 1974, for known levels), and the next member to measure is the one
whose value has the highest expected information about the position (Lindley, Annals of Mathematical
Statistics 27, 1956). The same measurements give the same answer.

The unknown levels and noise are integrated out: values are normal around the level of their side,
the prior is flat for the level and for the logarithm of the variance, and normal for the change in
units of the noise (Zellner's g-prior, in *Bayesian Inference and Decision Techniques*, 1986), with
one of six standard deviations (a mixture, as in Liang et al., JASA 103, 2008). Before any
measurement, change and no change are equally likely. By Ville's inequality (*Étude critique de la
notion de collectif*, 1939) the probability of reporting a change where there is none is then at
most (1 - confidence) / confidence, for any number of looks. Spikes beyond Tukey's fences
(*Exploratory Data Analysis*, 1977, ch. 2) are moved to the fence, which is the same for all
members.

Measured by `benchmarks/bisection`, with 64 members and a confidence of 0.95: for a change of 0.5, 1
and 2 standard deviations of a run, 0.97, 0.98 and 1.00 of the searches found the right member, with
428, 104 and 34 runs on average. With t noise of 3 degrees of freedom as many were right, with 0.6
to 0.8 of the runs. Without a change, 1 of 375 searches of 400 runs reported a change. The interval
contains the true ratio in 0.89 to 0.96 of the searches that found the change, because a search that
ends early overestimates the change.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from millrace.stats.bisection_model import (
    Found,
    Measured,
    Next,
    NoChange,
    Posterior,
    Search,
    Skipped,
)

FIRST_RUNS = 4  # measurements of each end before the first inference
RUNS_BESIDE = 3  # measurements of both members next to the change, against single spikes
END_EVERY = 12  # measurements; then an end is measured again, because of drift
NONE_PRIOR = 0.5
SIZE_VARIANCES = np.asarray([1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0])

Floats = NDArray[np.float64]


def next_step(search: Search, seen: Sequence[Measured | Skipped]) -> Next | Found | NoChange:
    """Return the next step of a search from the measurements ``seen``, in their order.

    The search ends when one position has the claimed confidence and both members next to it were
    measured three times, or when a change beyond the margin is equally improbable. Until then the
    step names the member with the highest expected information; of members within a hundredth of
    it, the one with the most measurements, because another one has to be built. Earlier values of a
    skipped member are left out.

    Raises ValueError for a member that is not in the list, a value that is not finite, or a skipped
    end, which would leave no level to compare with.
    """
    sample = _sample(search, seen)
    ends = (0, len(sample.usable) - 1)
    fewer = min(ends, key=lambda end: sample.counts[end])
    if sample.counts[fewer] < FIRST_RUNS:
        return Next(int(sample.usable[fewer]), None)
    fit = _fit(search, sample)
    gaps = fit.weights.sum(axis=1)
    best = int(np.argmax(gaps))
    beside = min((best, best + 1), key=lambda member: sample.counts[member])
    negligible = _negligible(fit, math.log1p(search.margin))
    if negligible >= search.confidence:
        ratio, low, high = _ratio(fit, search.confidence)
        return NoChange(negligible, ratio, low, high)
    if gaps[best] >= search.confidence and sample.counts[beside] >= RUNS_BESIDE:
        return _found(search, sample, fit, best)
    if gaps[best] >= search.confidence:
        member = beside
    elif not any(index in search.ends for index in sample.order[1 - END_EVERY :]):
        member = fewer
    else:
        member = _most_telling(fit, sample)
    return Next(int(sample.usable[member]), _posterior(sample, fit))


def posterior(search: Search, seen: Sequence[Measured | Skipped]) -> Posterior | None:
    """Return the posterior; None before the first runs. Raise ValueError as ``next_step`` does."""
    sample = _sample(search, seen)
    if min(sample.counts[0], sample.counts[-1]) < FIRST_RUNS:
        return None
    return _posterior(sample, _fit(search, sample))


@dataclass(frozen=True)
class _Sample:
    """The measurements of the usable members, summed by member: arrays of shape (members,).

    Values are clipped to the fences, and their mean is subtracted; ``order`` is the order of the
    measurements.
    """

    usable: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: Floats
    squares: Floats
    order: tuple[int, ...]


def _sample(search: Search, seen: Sequence[Measured | Skipped]) -> _Sample:
    if any(not 0 <= each.index < search.n_members for each in seen):
        raise ValueError(f"the index of a member must be from 0 to {search.n_members - 1}")
    skipped = {each.index for each in seen if isinstance(each, Skipped)}
    if skipped & set(search.ends):
        raise ValueError(
            "a skipped end leaves nothing to compare with: both ends must have a level"
        )
    measured = [each for each in seen if isinstance(each, Measured) and each.index not in skipped]
    usable = np.asarray([i for i in range(search.n_members) if i not in skipped])
    order = tuple(each.index for each in measured)
    values = np.asarray([each.value for each in measured], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a measurement must be finite")
    places = np.searchsorted(usable, np.asarray(order, dtype=np.int64))
    if len(values):
        values = _within_fences(places, values, len(usable) - 1)
        values = values - values.mean()
    size = len(usable)
    return _Sample(
        usable=usable,
        counts=np.bincount(places, minlength=size),
        sums=np.bincount(places, values, size).astype(np.float64),
        squares=np.bincount(places, values**2, size).astype(np.float64),
        order=order,
    )


def _within_fences(places: NDArray[np.int64], values: Floats, last: int) -> Floats:
    """Clip values to Tukey's fences."""
    lower, upper = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (upper - lower)
    if reach == 0:  # most values are equal, so the size of a spike is unknown
        return values
    # All quartiles may belong to one side, so the fences include the levels of both ends.
    levels = [np.median(values[places == end]) for end in (0, last) if (places == end).any()]
    return np.clip(values, min(lower, *levels) - reach, max(upper, *levels) + reach)


@dataclass(frozen=True)
class _Fit:
    """The posterior over gaps between neighbouring usable members and sizes of change.

    ``weights`` (gaps, sizes) and ``none`` are probabilities. Given a gap and a size, the change is
    Student's t around ``changes`` with scale ``scales`` and ``freedom`` degrees. ``variances`` are
    those of the noise, and ``sizes`` the probabilities of the sizes in a gap, all (gaps, sizes).
    """

    weights: Floats
    none: float
    changes: Floats
    scales: Floats
    variances: Floats
    sizes: Floats
    freedom: int
    none_variance: float


def _fit(search: Search, sample: _Sample) -> _Fit:
    # The priors of the old side's level and of the variance do not depend on a unit. They are the
    # same with and without a change, so that the ratios of evidence are proper.
    total = int(sample.counts.sum())
    freedom = total - 1
    n_old = np.cumsum(sample.counts)[:-1]
    n_new = total - n_old
    sum_old = np.cumsum(sample.sums)[:-1]
    sum_new = sample.sums.sum() - sum_old
    difference = (sum_new / n_new - sum_old / n_old)[:, None]
    spread = (1 / n_old + 1 / n_new)[:, None]
    around_mean = float(sample.squares.sum() - sample.sums.sum() ** 2 / total)
    within = np.maximum(around_mean - difference**2 / spread, 0.0)
    shrunk = SIZE_VARIANCES / (SIZE_VARIANCES + spread)
    residual = within + difference**2 / (SIZE_VARIANCES + spread)
    evidence = 0.5 * np.log1p(-shrunk)
    if around_mean > 0:
        evidence = evidence - freedom / 2 * np.log(residual / around_mean)
    # Each member after the first is equally likely to be the first of the new level.
    prior = np.log(np.diff(sample.usable) / (search.n_members - 1) / len(SIZE_VARIANCES))
    joint = evidence + prior[:, None] + math.log(1 - NONE_PRIOR)
    highest = max(float(joint.max()), math.log(NONE_PRIOR))
    weights = np.exp(joint - highest)
    none = math.exp(math.log(NONE_PRIOR) - highest)
    everything = float(weights.sum()) + none
    variances = residual / freedom
    return _Fit(
        weights=weights / everything,
        none=none / everything,
        changes=shrunk * difference,
        scales=np.sqrt(variances * shrunk * spread),
        variances=variances,
        sizes=scipy.special.softmax(evidence, axis=1),
        freedom=freedom,
        none_variance=around_mean / freedom,
    )


def _posterior(sample: _Sample, fit: _Fit) -> Posterior:
    """Return the posterior over members; skipped members of a gap share its probability equally."""
    members = np.diff(sample.usable)
    first = np.repeat(fit.weights.sum(axis=1) / members, members)
    return Posterior((0.0, *first.tolist()), fit.none)


def _most_telling(fit: _Fit, sample: _Sample) -> int:
    information = _information(fit, sample)
    alike = information >= 0.99 * information.max()
    return int(np.argmax(np.where(alike, sample.counts, -1)))


def _information(fit: _Fit, sample: _Sample) -> Floats:
    """Return the expected information of a value of each usable member about the gap, if any.

    It is the entropy of a value less the mean of its entropies under each gap and under no change;
    in each, the value is modelled as normal around its side's level.
    """
    total = int(sample.counts.sum())
    n_old = np.cumsum(sample.counts)[:-1]
    n_new = total - n_old
    change = (fit.sizes * fit.changes).sum(axis=1)
    noise = (fit.sizes * fit.variances).sum(axis=1)
    uncertain = (fit.sizes * fit.scales**2).sum(axis=1)
    means = np.concatenate([-n_new / total * change, n_old / total * change, [0.0]])
    variances = np.concatenate(
        [
            noise * (1 + 1 / total) + (n_new / total) ** 2 * uncertain,
            noise * (1 + 1 / total) + (n_old / total) ** 2 * uncertain,
            [fit.none_variance * (1 + 1 / total)],
        ]
    )
    # Without noise one measurement decides; the grid still needs a width.
    sds = np.maximum(np.sqrt(variances), max(np.ptp(means) / 40, 1e-12))
    grid = np.linspace((means - 4 * sds).min(), (means + 4 * sds).max(), 129)
    densities = np.exp(-0.5 * ((grid - means[:, None]) / sds[:, None]) ** 2) / sds[:, None]
    entropies = np.log(sds)[:, None]  # less that of the standard normal, in both terms
    probabilities = np.concatenate([fit.weights.sum(axis=1)] * 2 + [[fit.none]])[:, None]
    mixture = _of_members(probabilities * densities / math.sqrt(2 * math.pi))
    given = _of_members(probabilities * entropies)[:, 0]
    whole = -scipy.special.xlogy(mixture, mixture).sum(axis=1) * (grid[1] - grid[0])
    return np.asarray(whole - 0.5 * math.log(2 * math.pi * math.e) - given)


def _of_members(parts: Floats) -> Floats:
    """Return for each member the sum over gaps of its side's part, plus the part of no change.

    ``parts`` are the gaps' old sides, their new sides, and that of no change, shape (2 * gaps + 1,
    any); member *i* is on the new side of the gaps before it.
    """
    n_gaps = len(parts) // 2
    old, new, none = parts[:n_gaps], parts[n_gaps:-1], parts[-1]
    nothing = np.zeros((1, parts.shape[1]))
    before = np.concatenate([nothing, np.cumsum(new, axis=0)])
    after = np.concatenate([np.cumsum(old[::-1], axis=0)[::-1], nothing])
    return np.asarray(before + after + none)


def _found(search: Search, sample: _Sample, fit: _Fit, gap: int) -> Found:
    weights = fit.weights[gap]
    ratio, low, high = _quantiles(
        weights / weights.sum(), fit.changes[gap], fit.scales[gap], fit.freedom, search.confidence
    )
    return Found(
        first=int(sample.usable[gap]) + 1,
        last=int(sample.usable[gap + 1]),
        probability=float(weights.sum()),
        ratio=ratio,
        low=low,
        high=high,
    )


def _negligible(fit: _Fit, margin: float) -> float:
    """Return the probability that the ends' levels differ by ``margin`` (a logarithm) at most."""
    scales = np.maximum(fit.scales, 1e-200)
    upper, lower = ((side * margin - fit.changes) / scales for side in (1, -1))
    inside = scipy.special.stdtr(fit.freedom, upper) - scipy.special.stdtr(fit.freedom, lower)
    return min(fit.none + float((fit.weights * inside).sum()), 1.0)


def _ratio(fit: _Fit, confidence: float) -> tuple[float, float, float]:
    """Return the ratio of the ends' levels with its interval, averaged over all positions."""
    return _quantiles(
        np.append(fit.weights.ravel(), fit.none),
        np.append(fit.changes.ravel(), 0.0),
        np.append(fit.scales.ravel(), 0.0),
        fit.freedom,
        confidence,
    )


def _quantiles(
    weights: Floats, centres: Floats, scales: Floats, freedom: int, confidence: float
) -> tuple[float, float, float]:
    """Return ``exp`` of the median and the interval of a mixture of Student's t distributions."""
    scales = np.maximum(scales, 1e-200)
    reach = 1e3 * float(scales.max()) + 1e-9

    def quantile(probability: float) -> float:
        def excess(change: float) -> float:
            below = scipy.special.stdtr(freedom, (change - centres) / scales)
            return float((weights * below).sum()) - probability

        lowest, highest = float(centres.min()) - reach, float(centres.max()) + reach
        return math.exp(scipy.optimize.brentq(excess, lowest, highest))

    tail = (1 - confidence) / 2
    return quantile(0.5), quantile(tail), quantile(1 - tail)
