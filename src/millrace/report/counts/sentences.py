"""Counts of instructions in words, which never call a count speed."""

from collections.abc import Iterator

from millrace.analysis.counts.model import CountComparison, CountGroup, TreatmentCount
from millrace.report.common.formatting import counted, grouped_text

_LIMITS = (
    "Instructions are not speed: caches, branch prediction and the compiler decide how long each "
    "takes. A count sees neither the kernel, nor I/O, nor waits for locks; the threads of a server "
    "run one at a time"
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
    of = f"{grouped_text(b.mean)} and {grouped_text(a.mean)} per statement"
    if ratio.low is None or ratio.high is None:
        return (
            f"{b.label} executed {_change(ratio.ratio)} instructions than {a.label} in a single "
            f"start ({of}), which does not show how much starts differ"
        )
    if not ratio.excludes_1:
        widest = max(ratio.high - 1, 1 - ratio.low)
        return (
            f"{b.label} executes as many instructions as {a.label}, to within "
            f"{fraction_text(widest)} ({of})"
        )
    is_exact = ratio.high - ratio.low < _NARROW
    ends = sorted((abs(ratio.low - 1), abs(ratio.high - 1)))
    between = " to ".join(fraction_text(end, is_exact=is_exact) for end in ends)
    return (
        f"{b.label} executes {_change(ratio.ratio, is_exact=is_exact)} instructions than "
        f"{a.label} ({between}; {of})"
    )


def _change(ratio: float, *, is_exact: bool = False) -> str:
    return f"{fraction_text(ratio - 1, is_exact=is_exact)} {'more' if ratio > 1 else 'fewer'}"


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
