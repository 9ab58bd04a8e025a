"""Counts of instructions in words, which never call a count speed."""

from collections.abc import Iterator

from millrace.analysis.counts.model import CountComparison, CountGroup, TreatmentCount
from millrace.quantities import counted
from millrace.report.common.formatting import (
    amount_text,
    grouped_text,
    is_multiple,
    times_interval_text,
)
from millrace.stats.ratio import RatioEstimate

NOT_SPEED = (
    "Instructions are not speed: caches, branch prediction and the compiler decide how long each "
    "takes"
)
_LIMITS = (
    f"{NOT_SPEED}. A count sees neither the kernel, nor I/O, nor waits for locks; the threads of a "
    "server run one at a time"
)
_NARROW = 0.002  # of an interval, whose ends would look alike with one decimal


def fraction_text(fraction: float, *, is_exact: bool = False) -> str:
    """Return text such as ``6.5 %``, ``0.04 %``: two decimals below 1 %, or where it is exact."""
    percent = 100 * abs(fraction)
    return f"{percent:.{2 if is_exact or percent < 0.995 else 1}f} %"


def sentence(comparison: CountComparison) -> str:
    """Say how the instructions of a comparison differ."""
    a, b, ratio = comparison.base, comparison.candidate, comparison.ratio
    if ratio is None or a.mean is None or b.mean is None:
        without = [each for each in (a, b) if each.refusal is not None]
        return "; ".join(f"{each.label} has no count: {each.refusal}" for each in without)
    means = f"{grouped_text(b.mean)} and {grouped_text(a.mean)} per statement"
    return counts_sentence(a.label, b.label, ratio, means=means, evidence="start")


def counts_sentence(a: str, b: str, ratio: RatioEstimate, *, means: str, evidence: str) -> str:
    """Say how the instructions of B differ from A's; ``evidence`` is what a value is of."""
    if ratio.low is None or ratio.high is None:
        return (
            f"{b} executed {_change(ratio.ratio, a)} in a single {evidence} "
            f"({means}), which does not show how much {evidence}s differ"
        )
    if ratio.low == ratio.high == 1:
        return f"{b} executes exactly as many instructions as {a} ({means})"
    if not ratio.excludes_1:
        widest = max(ratio.high - 1, 1 - ratio.low)
        return (
            f"{b} executes as many instructions as {a}, to within {fraction_text(widest)} ({means})"
        )
    change, between = _interval(ratio.ratio, ratio.low, ratio.high, a)
    return f"{b} executes {change} ({between}; {means})"


def change_sentence(ratio: float, low: float, high: float) -> str:
    """Say how many more instructions a new level has than the one before."""
    change, between = _interval(ratio, low, high, "before")
    return f"{change} ({between})"


def _interval(ratio: float, low: float, high: float, base: str) -> tuple[str, str]:
    """Return ``6.5 % more instructions than A``, and the interval.

    That is text such as ``6.4 % to 6.6 %``, ``−0.1 % to 13.1 %``, ``4,300 to 4,700 times``.
    """
    is_exact = high - low < _NARROW
    if low == high:
        return _change(ratio, base, is_exact=is_exact), "all counts alike"
    if all(map(is_multiple, (low, ratio, high))):
        return _change(ratio, base), times_interval_text(low, high)
    sign = 1 if ratio > 1 else -1
    ends = sorted((sign * (low - 1), sign * (high - 1)))
    texts = (f"{'−' if end < 0 else ''}{fraction_text(end, is_exact=is_exact)}" for end in ends)
    return _change(ratio, base, is_exact=is_exact), " to ".join(texts)


def _change(ratio: float, base: str, *, is_exact: bool = False) -> str:
    """Return text such as ``6.5 % more instructions than A``."""
    if is_multiple(ratio):
        how, than = ("as many", "as") if ratio > 1 else ("fewer", "than")
        return f"{amount_text(ratio)} {how} instructions {than} {base}"
    size = fraction_text(ratio - 1, is_exact=is_exact)
    return f"{size} {'more' if ratio > 1 else 'fewer'} instructions than {base}"


def comparison_notes(comparison: CountComparison) -> Iterator[str]:
    """Yield what a reader of one comparison must know."""
    counts = (comparison.base, comparison.candidate)
    return notes((CountGroup("", counts, (comparison,)),))


def notes(groups: tuple[CountGroup, ...]) -> Iterator[str]:
    """Yield what a reader of the counts must know, each once."""
    said: dict[str, None] = {}
    for group in groups:
        for count in group.counts:
            said.update(dict.fromkeys(_of_count(count)))
        for comparison in group.comparisons:
            said.update(dict.fromkeys(comparison.notes))
    yield from said
    yield _LIMITS


def _of_count(count: TreatmentCount) -> Iterator[str]:
    if count.left_out and count.refusal is None:
        yield (
            f"{count.label}: {counted(count.left_out, 'start')} left out, which failed or whose "
            "repetitions of the same statements differ"
        )
