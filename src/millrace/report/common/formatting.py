"""Numbers as text: one place for digits, units and thousands."""

import math
from collections.abc import Callable
from typing import TypeVar

from millrace.analysis.compare.metrics import Metric

MISSING = "–"
_NEXT_TO_NOTHING = 1e-6
_FEWEST_TIMES = 3.0  # nobody reads a larger ratio as a percentage
_MOST_DECIMALS = 9
_HARDLY_VISIBLE = 1.0  # a change that is only seen where something doubles
_FAR_APART = 5.0  # times: one figure does not describe two comparisons that differ by more
_WITHOUT_EXPONENT = 1e15  # what is larger has more digits than anybody counts

# A verdict has a sign as well as a colour.
GLYPHS = {
    "regression": "▼",
    "improvement": "▲",
    "equivalent": "=",
    "inconclusive": "?",
    "may be chance": "~",
    "failed": "✕",
    "base failed": "✕",
    "no verdict": "·",
}

# The same for differences of an explanation: B takes more than A, less, or nobody can tell.
FINDING_GLYPHS = {"more": "+", "less": "−", "not sure": "?", "?": ""}

T = TypeVar("T")


def known_text(value: T | None, text: Callable[[T], str]) -> str:
    """Return a value formatted by ``text``; a dash if the value is None."""
    return MISSING if value is None else text(value)


def grouped_text(value: float, decimals: int = 0) -> str:
    """Return text such as ``241,709``, ``1,193.4``; ``1.23e+300`` for a long row of digits."""
    return f"{value:,.{decimals}f}" if abs(value) < _WITHOUT_EXPONENT else f"{value:.3g}"


def ratio_text(ratio: float) -> str:
    """Return text such as ``0.902``, ``1.010``, ``12.30``; ``0.000311`` where that is small."""
    if 0 < ratio < 0.1:
        return _three_digits(ratio)
    return grouped_text(ratio, 3 if ratio < 10 else 2 if ratio < 100 else 0)


def interval_text(low: float | None, high: float | None) -> str:
    """Return text such as ``0.887 to 0.917``; a dash where there is none."""
    if low is None or high is None:
        return MISSING
    return f"{ratio_text(low)} to {ratio_text(high)}"


def change_text(ratio: float) -> str:
    """Return text such as ``9.8 % lower``, ``0.3 % higher``, ``as high``, ``4.5 times lower``."""
    if is_multiple(ratio):
        return f"{amount_text(ratio)} {'as high' if ratio > 1 else 'lower'}"
    size = percent_text(abs(ratio - 1))
    if size == percent_text(0.0):
        return "as high"
    return f"{size} {'higher' if ratio > 1 else 'lower'}"


def percent_text(fraction: float, *, signed: bool = False) -> str:
    """Return text such as ``9.8 %``; ``+9.8 %`` or ``−9.8 %`` when signed, and never ``−0.0 %``."""
    percent = round(fraction * 100, 1)
    sign = ("−" if percent < 0 else "+" if percent > 0 else "±") if signed else ""
    return f"{sign}{grouped_text(abs(percent) if signed else percent + 0.0, 1)} %"


def size_text(ratio: float) -> str:
    """Return the size of a difference: ``9.8 %``; from three times on ``a factor of 33.6``."""
    return f"a factor of {times_text(ratio)}" if is_multiple(ratio) else amount_text(ratio)


def amount_text(ratio: float) -> str:
    """Return a difference without its direction: ``9.8 %``; from three times on ``33.6 times``."""
    return f"{times_text(ratio)} times" if is_multiple(ratio) else percent_text(abs(ratio - 1))


def difference_text(ratio: float) -> str:
    """Return a difference with a sign: ``+9.8 %``, ``−9.8 %``, ``×33.6``, ``÷4,500``."""
    if is_multiple(ratio):
        return f"{'×' if ratio > 1 else '÷'}{times_text(ratio)}"
    return percent_text(ratio - 1, signed=True)


def times_text(ratio: float) -> str:
    """Return the ratio of the larger to the smaller value, such as ``33.6``, with three digits."""
    times = max(ratio, 1 / ratio) if ratio > 0 else math.inf
    return count_text(float(f"{times:.3g}")) if math.isfinite(times) else "∞"


def times_interval_text(low: float, high: float) -> str:
    """Return the interval of a ratio of the larger to the smaller: ``4,300 to 4,700 times``."""
    ends = (low, high) if low > 1 else (high, low)
    return f"{' to '.join(map(times_text, ends))} times"


def is_multiple(ratio: float) -> bool:
    """Return whether a difference, upwards or downwards, is shown as a multiple."""
    return ratio >= _FEWEST_TIMES or ratio <= 1 / _FEWEST_TIMES


def is_hardly_visible(smallest: float) -> bool:
    """Return whether only changes by a factor of 2 or more can be detected."""
    return smallest >= _HARDLY_VISIBLE


def changes_text(smallest: float, largest: float) -> str:
    """Return ``changes of 0.8 % or more``, with ``(at worst 1.2 %)`` where comparisons differ.

    Where the least and the most noise are far apart, or a comparison would show nothing but
    multiples, words say so, because a range of that width does not forecast anything.
    """
    least, worst = percent_text(smallest), percent_text(largest)
    if is_hardly_visible(smallest):
        return "only changes by a factor of 2 or more, for there is too much noise"
    if largest >= _HARDLY_VISIBLE:
        return (
            f"changes of {least} or more in the comparison with the least noise, and in the "
            "noisiest only those by a factor of 2 or more"
        )
    if largest > _FAR_APART * smallest:
        return (
            f"changes of {least} or more in the comparison with the least noise, and of {worst} "
            "or more in the noisiest"
        )
    of_each = "" if least == worst else f" (at worst {worst})"
    return f"changes of {least}{of_each} or more"


def whole_percent_text(fraction: float) -> str:
    """Return text such as ``24 %``, ``−3 %``; never ``−0 %``."""
    percent = round(fraction * 100, 0)
    digits = f"{abs(percent):.0f}" if abs(percent) < _WITHOUT_EXPONENT else f"{abs(percent):.3g}"
    return f"{'−' if percent < 0 else ''}{digits} %"


def percent_of_base_text(ratio: float) -> str:
    """Return text such as ``90.2``: without the sign, for a column that is headed with it.

    Three digits where that is small, such as ``0.0222``.
    """
    if 0 < ratio < 0.1:
        return _three_digits(100 * ratio)
    return grouped_text(ratio * 100, 1)


def _three_digits(value: float) -> str:
    """Return text such as ``0.0123``, ``0.000222``; ``1.23e-09`` for a long row of zeros."""
    decimals = 2 - math.floor(math.log10(value))
    return f"{value:.{decimals}f}" if decimals <= _MOST_DECIMALS else f"{value:.3g}"


def value_text(value: float, metric: Metric) -> str:
    """Return a value in the metric's unit, without the unit."""
    return seconds_text(value) if metric.unit == "s" else count_text(value)


def count_text(value: float) -> str:
    """Return text such as ``241,709``; a few significant digits below 100."""
    return grouped_text(value) if value >= 100 else f"{value:.3g}"


def seconds_text(seconds: float) -> str:
    """Return text such as ``193.4``, ``8.31``, ``0.0421``: about three digits, without the unit."""
    if seconds >= 10:
        return grouped_text(seconds, 1)
    if seconds >= 1:
        return f"{seconds:.2f}"
    if seconds <= 0:
        return "0"
    decimals = min(2 - math.floor(math.log10(seconds)), 6)
    return f"{seconds:.{decimals}f}"


def latency_text(seconds: float) -> str:
    """Return text such as ``42.1 µs``, ``1.24 ms``, ``2.5 s``: three digits, with the unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        # A value that would be rounded up to the next unit is shown in that.
        if seconds >= factor * 0.9995:
            return f"{float(f'{seconds / factor:.3g}'):,g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def figure_text(value: float, *, signed: bool = False) -> str:
    """Return text such as ``14.2``, ``0.83``, ``1,203``: three digits, more before the point only.

    Signed: ``+2.2``, ``−0.3`` or ``±0``; small: ``0.00031``, and ``≈0`` below a millionth.
    """
    size = abs(value)
    if size < 0.0005:
        return _small_text(value, signed=signed)
    digits = grouped_text(size) if size >= 999.5 else f"{float(f'{size:.3g}'):g}"
    return ("−" if value < 0 else "+" if signed else "") + digits


def _small_text(value: float, *, signed: bool) -> str:
    size = abs(value)
    if size < _NEXT_TO_NOTHING:
        return "≈0" if size > 0 else "±0" if signed else "0"
    digits = f"{size:.{1 - math.floor(math.log10(size))}f}".rstrip("0")
    return ("−" if value < 0 else "+" if signed else "") + digits


def us_decimals(largest: float) -> int:
    """Return the decimals for a column of microseconds, so that its values line up."""
    return 0 if largest >= 1000 else 1 if largest >= 10 else 2 if largest >= 1 else 3


def fixed_text(value: float, decimals: int, *, signed: bool = False) -> str:
    """Return text such as ``3.1``; ``+3.1``, ``−0.4`` or ``±0.0`` when signed; never ``−0.0``."""
    rounded = round(value, decimals) + 0.0
    sign = "−" if rounded < 0 else ("+" if rounded > 0 else "±") if signed else ""
    return f"{sign}{grouped_text(abs(rounded), decimals)}"


def range_text(difference: float, beside: float, metric: Metric) -> str:
    """Return a difference of values with as many decimals as the value next to it."""
    decimals = len(value_text(beside, metric).partition(".")[2])
    return grouped_text(difference, decimals)


def bytes_text(size: float) -> str:
    """Return text such as ``128.0 MB``: SI units, as everywhere."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{grouped_text(size / factor, 1)} {unit}"
    return f"{size:,.0f} B"
