"""Charts: ticks, lines and positions, all in percent, so that text never scales with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millrace.report.common.formatting import grouped_text
from millrace.stats.ratio import RatioEstimate
from millrace.store.history_records import PointRecord

WIDE = 2.5  # an axis of ratios that spans more has its ticks at powers of two


@dataclass(frozen=True)
class Tick:
    """A labelled position of an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class LogAxis:
    """Ratios on a logarithmic axis from ``low`` to ``high``."""

    low: float
    high: float

    @classmethod
    def around(cls, estimates: Sequence[RatioEstimate | PointRecord], margin: float) -> LogAxis:
        """Return an axis for all ratios and intervals; cut intervals far wider than the ratios."""
        core = [1 / (1 + margin), 1 + margin, *(e.ratio for e in estimates)]
        reach = 2 * (math.log(max(core)) - math.log(min(core)))
        lows = [e.low for e in estimates if e.low is not None]
        highs = [e.high for e in estimates if e.high is not None]
        low = max(min(core + lows), min(core) * math.exp(-reach))
        high = min(max(core + highs), max(core) * math.exp(reach))
        edge = 0.06 * (math.log(high) - math.log(low))
        return cls(low * math.exp(-edge), high * math.exp(edge))

    def at(self, ratio: float) -> float:
        """Return the position of ``ratio`` in percent of the width, limited to 0 to 100."""
        span = math.log(self.high) - math.log(self.low)
        return min(100.0, max(0.0, 100 * (math.log(ratio) - math.log(self.low)) / span))

    def mark(self, x: float, found: RatioEstimate | PointRecord, title: str) -> Mark:
        """Return the mark of a ratio with its interval; larger ones stand higher."""
        low, high = (None if end is None else 100 - self.at(end) for end in (found.low, found.high))
        return Mark(x, 100 - self.at(found.ratio), title, low, high)

    def chart(
        self,
        margin: float,
        *,
        heading: str,
        description: str,
        across: Iterable[Tick],
        lines: Iterable[Line],
    ) -> LineChart:
        """Return a chart with this axis upright; larger ratios stand higher."""
        return LineChart(
            heading=heading,
            description=description,
            across=tuple(across),
            up=tuple(Tick(100 - tick.at, tick.label) for tick in self.ticks()),
            lines=tuple(lines),
            band=(100 - self.at(1 + margin), 100 - self.at(1 / (1 + margin))),
            one=100 - self.at(1.0),
        )

    def ticks(self) -> tuple[Tick, ...]:
        """Return ticks at even differences; on a wide axis, at powers of two."""
        if self.high / self.low > WIDE:
            first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
            stride = max(1, math.ceil((last - first) / 6))
            ratios = [2.0**power for power in range(first, last + 1) if power % stride == 0]
        else:
            step = nice((self.high - self.low) / 5)
            first, last = math.ceil((self.low - 1) / step), math.floor((self.high - 1) / step)
            ratios = [1 + number * step for number in range(first, last + 1)]
        return tuple(Tick(self.at(r), _difference(r)) for r in ratios if self.low < r < self.high)


def _difference(ratio: float) -> str:
    """Return a tick's difference from 1 as short text: ``−10 %``, ``+0.5 %``, ``×8``, ``÷8``."""
    if ratio >= 8:
        return f"×{grouped_text(ratio)}"
    if ratio <= 1 / 8:
        return f"÷{grouped_text(1 / ratio)}"
    percent = round((ratio - 1) * 100, 3)
    if percent == 0:
        return "0"
    return f"{'−' if percent < 0 else '+'}{abs(percent):.3g} %"


def nice(step: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def linear_ticks(longest: float) -> Sequence[float]:
    """Return round values from 0 to ``longest``."""
    step = nice(longest / 5)
    return [number * step for number in range(math.floor(longest / step + 1e-9) + 1)]


MOST_LINES = 8  # the number of signs and colours


@dataclass(frozen=True)
class Mark:
    """A point of a line with its interval, where it has one; ``title`` says it in words."""

    x: float
    y: float
    title: str
    low_y: float | None = None
    high_y: float | None = None


@dataclass(frozen=True)
class Line:
    """``number`` (from 0) chooses colour and sign; ``path`` are its pieces, each "x,y x,y ..."."""

    number: int
    label: str
    marks: tuple[Mark, ...]
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class LineChart:
    """Lines over labelled places (``across``) and values (``up``); the band is the margin."""

    heading: str
    description: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[Line, ...]
    band: tuple[float, float] | None = None
    one: float | None = None


def path_text(points: Iterable[tuple[float, float]]) -> str:
    """Return the text of a piece of a line: "x,y x,y ..."."""
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
