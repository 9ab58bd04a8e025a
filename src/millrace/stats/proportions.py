"""What a number of events in so many trials says about how probable they are."""

from __future__ import annotations

from scipy import stats


def proportion_limits(events: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """The lowest and highest probability that ``events`` of ``trials`` are in accord with.

    The exact interval of Clopper and Pearson (Biometrika 26, 1934), which holds its confidence for
    any number of trials. Raises ValueError for fewer trials than events, or none.
    """
    if not 0 <= events <= trials or trials == 0:
        raise ValueError(f"{events} events of {trials} trials")
    tail = (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, events, trials - events + 1)) if events else 0.0
    high = float(stats.beta.isf(tail, events + 1, trials - events)) if events < trials else 1.0
    return low, high


def as_many_or_more(events: int, trials: int, rate: float) -> float:
    """The probability that ``events`` or more of ``trials`` happen, if each does with a probability
    of ``rate``: the p-value of the one-sided exact binomial test.

    Raises ValueError for more events than trials.
    """
    if not 0 <= events <= trials:
        raise ValueError(f"{events} events of {trials} trials")
    return float(stats.binom.sf(events - 1, trials, rate))


def even_odds(heads: int, tosses: int) -> float:
    """How probable a number of heads as uneven as this is, if each toss is even: the two-sided
    exact sign test (Dixon and Mood, Journal of the American Statistical Association 41, 1946).

    1 without a toss. Raises ValueError for more heads than tosses.
    """
    if not 0 <= heads <= tosses:
        raise ValueError(f"{heads} heads of {tosses} tosses")
    fewer = min(heads, tosses - heads)
    return min(1.0, 2 * float(stats.binom.cdf(fewer, tosses, 0.5)))
