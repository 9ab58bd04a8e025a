"""Estimate the probability of an event from its number in trials, and the uncertainty of counts.

An e-value is valid at any look: it is the current worth of a stake of 1 in a fair bet against a
claim. If the claim is true, the probability that it ever reaches 1 / alpha is alpha at most (Ville,
*Étude critique de la notion de collectif*, 1939). The bets here are on Jeffreys' prior of the
probability, Beta(½, ½), so that no size of effect has to be guessed (Robbins, Annals of
Mathematical Statistics 41, 1970; Krichevsky and Trofimov, IEEE Transactions on Information Theory
27, 1981; for counts of monitored experiments: Lindon and Malek, "Anytime-Valid Inference for
Multinomial Count Data", NeurIPS 2022). A weighted mean of e-values is one, however they depend on
each other (Vovk and Wang, Annals of Statistics 49, 2021).

A count of independent events is Poisson's. The interval of its expectation is the exact one of
Garwood (Biometrika 28, 1936); that of a difference of two combines both ends of each (Zou and
Donner, Statistics in Medicine 27, 2008: the method of variance estimates recovery), which holds for
small counts where a normal approximation does not.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

_PRIOR = 0.5  # both parameters of the beta distribution
_MOST = 700.0  # a logarithm whose exponential is still a finite float


def proportion_limits(events: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return the lowest and highest probability consistent with ``events`` of ``trials``.

    The exact interval of Clopper and Pearson (Biometrika 26, 1934), which holds its confidence for
    any number of trials. Raises ValueError for fewer trials than events, or none.
    """
    if not 0 <= events <= trials or trials == 0:
        raise ValueError(f"{events} events of {trials} trials is not a proportion")
    tail = (1 - confidence) / 2
    low, high, others = 0.0, 1.0, trials - events
    if events:
        low = float(scipy.special.betaincinv(events, others + 1, tail))
    if others:
        high = float(scipy.special.betainccinv(events + 1, others, tail))
    return low, high


def sign_test(heads: int, tosses: int) -> float:
    """Return the p-value of the two-sided exact sign test for fair tosses; 1 without a toss.

    Source: Dixon and Mood, Journal of the American Statistical Association 41, 1946. Raises
    ValueError for more heads than tosses.
    """
    if not 0 <= heads <= tosses:
        raise ValueError(f"{heads} heads in {tosses} tosses are impossible")
    fewer = min(heads, tosses - heads)
    return min(1.0, 2 * float(scipy.special.bdtr(fewer, tosses, 0.5)))


def fair_coin_e_value(heads: int, tosses: int) -> float:
    """Return the e-value against fair tosses, valid at any look.

    7 heads of 7, 11 of 12 and 14 of 16 are the first with at least 20. Raises ValueError for more
    heads than tosses.
    """
    return math.exp(min(_log_odds(heads, tosses), _MOST))


def against_at_most_half(heads: int, tosses: int) -> float:
    """Return the e-value against heads of probability a half at most, valid at any look.

    It uses only the half of ``fair_coin_e_value``'s prior above a half: 6 heads of 6, 10 of 11 and
    12 of 14 are the first with at least 20. Raises ValueError for more heads than tosses.
    """
    odds = _log_odds(heads, tosses)
    # The posterior probability above a half, relative to the prior probability.
    share = 2 * float(scipy.special.betainc(_PRIOR + tosses - heads, _PRIOR + heads, 0.5))
    return share * math.exp(min(odds, _MOST))


def _log_odds(heads: int, tosses: int) -> float:
    """Return the log likelihood ratio of these tosses, in order: the prior against fair tosses."""
    if not 0 <= heads <= tosses:
        raise ValueError(f"{heads} heads in {tosses} tosses are impossible")
    seen = scipy.special.betaln(_PRIOR + heads, _PRIOR + tosses - heads)
    return float(seen - scipy.special.betaln(_PRIOR, _PRIOR)) + tosses * math.log(2)


_TAIL = 0.025  # on each side of a 95 % interval


@dataclass(frozen=True, eq=False)
class CountDifferences:
    """Differences B - A of scaled counts, with their intervals; all of shape (k,)."""

    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def count_limits(counts: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the 95 % limits of ``counts``, shape (k,); raise ValueError if one is negative."""
    seen = np.asarray(counts, dtype=np.float64)
    if (seen < 0).any():
        raise ValueError("a count must not be negative")
    low = np.where(seen > 0, scipy.special.gammaincinv(np.maximum(seen, 1), _TAIL), 0.0)
    high = np.asarray(scipy.special.gammainccinv(seen + 1, _TAIL), dtype=np.float64)
    return low, high


def count_differences(
    a_counts: ArrayLike, b_counts: ArrayLike, *, a_unit: float, b_unit: float
) -> CountDifferences:
    """Return ``b_counts * b_unit - a_counts * a_unit``, shape (k,), with 95 % intervals."""
    a, b = np.asarray(a_counts, dtype=np.float64), np.asarray(b_counts, dtype=np.float64)
    (a_low, a_high), (b_low, b_high) = count_limits(a), count_limits(b)
    difference = b * b_unit - a * a_unit
    below = np.hypot((b - b_low) * b_unit, (a_high - a) * a_unit)
    above = np.hypot((b_high - b) * b_unit, (a - a_low) * a_unit)
    return CountDifferences(difference, difference - below, difference + above)
