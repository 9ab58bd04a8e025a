"""What a number of events in so many trials says about how probable they are.

Who looks after every trial, and stops when they seem too many, finds too many too often. What holds
at any look is an e-value: what a fair bet against a claim has made of a stake of 1 so far. If the
claim is true it ever reaches 1 / alpha with a probability of alpha at most (Ville, *Étude critique
de la notion de collectif*, 1939). The bets here are on Jeffreys' prior of the probability, Beta(½,
½), by which no size of effect is to be guessed beforehand (Robbins, "Statistical Methods Related to
the Law of the Iterated Logarithm", Annals of Mathematical Statistics 41, 1970; Krichevsky and
Trofimov, IEEE Transactions on Information Theory 27, 1981; for counts of experiments that one
watches: Lindon and Malek, "Anytime-Valid Inference for Multinomial Count Data", NeurIPS 2022).
Shares of a stake may be bet on several things: a weighted mean of e-values is one, however they
depend on each other (Vovk and Wang, Annals of Statistics 49, 2021).
"""

from __future__ import annotations

import math

import scipy

_PRIOR = 0.5  # both parameters of the beta distribution
_MOST = 700.0  # of a logarithm that a floating-point number has room for


def proportion_limits(events: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """The lowest and highest probability that ``events`` of ``trials`` are in accord with.

    The exact interval of Clopper and Pearson (Biometrika 26, 1934), which holds its confidence for
    any number of trials. Raises ValueError for fewer trials than events, or none.
    """
    if not 0 <= events <= trials or trials == 0:
        raise ValueError(f"{events} events of {trials} trials")
    tail = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(events, trials - events + 1, tail)) if events else 0.0
    high = (
        float(scipy.special.betainccinv(events + 1, trials - events, tail))
        if events < trials
        else 1.0
    )
    return low, high


def binomial_upper_tail(events: int, trials: int, rate: float) -> float:
    """The probability that ``events`` or more of ``trials`` happen, if each does with a probability
    of ``rate``: the p-value of the one-sided exact binomial test.

    Raises ValueError for more events than trials.
    """
    if not 0 <= events <= trials:
        raise ValueError(f"{events} events of {trials} trials")
    return float(scipy.special.bdtrc(events - 1, trials, rate))


def sign_test(heads: int, tosses: int) -> float:
    """How probable a number of heads as uneven as this is, if each toss is even: the two-sided
    exact sign test (Dixon and Mood, Journal of the American Statistical Association 41, 1946).

    1 without a toss. Raises ValueError for more heads than tosses.
    """
    if not 0 <= heads <= tosses:
        raise ValueError(f"{heads} heads of {tosses} tosses")
    fewer = min(heads, tosses - heads)
    return min(1.0, 2 * float(scipy.special.bdtr(fewer, tosses, 0.5)))


def fair_coin_e_value(heads: int, tosses: int) -> float:
    """The e-value against tosses that are even, after these: it holds at any look.

    7 heads of 7, 11 of 12 and 14 of 16 are the first with 20. Raises ValueError for more heads than
    tosses.
    """
    return math.exp(min(_log_odds(heads, tosses), _MOST))


def against_at_most_half(heads: int, tosses: int) -> float:
    """The e-value against heads that are no more probable than a half, whatever came before each
    toss: it holds at any look.

    It is the bet of ``fair_coin_e_value`` on that side of the prior alone, so that 6 heads of 6, 10
    of 11 and 12 of 14 are the first with 20. Raises ValueError for more heads than tosses.
    """
    odds = _log_odds(heads, tosses)
    # The share of the posterior above a half, of that of the prior.
    share = 2 * float(scipy.special.betainc(_PRIOR + tosses - heads, _PRIOR + heads, 0.5))
    return share * math.exp(min(odds, _MOST))


def _log_odds(heads: int, tosses: int) -> float:
    """The logarithm of how much more probable tosses are in this order, under the prior, than even
    ones."""
    if not 0 <= heads <= tosses:
        raise ValueError(f"{heads} heads of {tosses} tosses")
    seen = scipy.special.betaln(_PRIOR + heads, _PRIOR + tosses - heads)
    return float(seen - scipy.special.betaln(_PRIOR, _PRIOR)) + tosses * math.log(2)
