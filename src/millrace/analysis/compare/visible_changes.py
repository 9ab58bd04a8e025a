"""Foresee the changes that a number of blocks would show, by the noise of comparisons so far."""

from collections.abc import Iterable

from millrace.analysis.compare.model import Comparison
from millrace.stats.power import minimum_detectable_ratio
from millrace.stats.ratio import Looks


def visible_changes(
    comparisons: Iterable[Comparison], blocks: int, looks: Looks
) -> tuple[float, float] | None:
    """Return the changes that ``blocks`` would show with a probability of 80 %, as fractions.

    These are of the comparison with the least noise and of the one with the most; None where the
    noise of none is known. Raise ValueError for fewer blocks than an interval needs.
    """
    noises = [
        estimate.log_sd
        for each in comparisons
        if (estimate := each.estimate) is not None and estimate.log_sd
    ]
    if not noises:
        return None
    least, most = (
        minimum_detectable_ratio(noise, blocks, looks=looks) - 1
        for noise in (min(noises), max(noises))
    )
    return least, most
