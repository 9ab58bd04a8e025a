"""Two accounts as stacked bars of one scale; positions are in percent of the width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from millrace.report.common.charts import Tick, linear_ticks
from millrace.report.common.formatting import figure_text

EXCESS = "counted twice"

_LABELLED = 9.0  # percent of the width that has room for a title
_VISIBLE = 0.3  # percent of the width


@dataclass(frozen=True)
class Segment:
    """A part of a bar; ``key`` chooses its colour."""

    key: str
    title: str
    at: float
    width: float
    us: float

    @property
    def labelled(self) -> bool:
        """Return whether there is room for its title."""
        return self.width >= _LABELLED

    @property
    def description(self) -> str:
        return f"{self.title}: {figure_text(self.us)} µs"


@dataclass(frozen=True)
class Bar:
    """One side, the whole up to ``total_at``; ``excess`` is what the parts exceed it by, if so."""

    label: str
    total_us: float
    total_at: float
    segments: tuple[Segment, ...]
    excess: Segment | None

    @property
    def description(self) -> str:
        shown = (*self.segments, *((self.excess,) if self.excess is not None else ()))
        parts = ", ".join(segment.description for segment in shown)
        return f"{self.label}, {figure_text(self.total_us)} µs: {parts}"


@dataclass(frozen=True)
class Link:
    """The same part in both bars, as the corners of a polygon in percent: "x,y x,y ..."."""

    key: str
    points: str


@dataclass(frozen=True)
class StackedBars:
    """Two bars, what joins their parts, and an axis in µs."""

    bars: tuple[Bar, Bar]
    links: tuple[Link, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, str], ...]

    @property
    def exceeds(self) -> bool:
        """Return whether the parts of either exceed the whole."""
        return any(bar.excess is not None for bar in self.bars)


def stacked_bars(
    labels: tuple[str, str],
    totals_us: tuple[float, float],
    titles: Mapping[str, str],
    parts_us: Sequence[tuple[str, float, float]],
) -> StackedBars | None:
    """Return the bars of A and B from parts (key, µs of A, µs of B), drawn in that order.

    A part that is negative, which noise can make it, is not drawn; by how much the others exceed
    the whole then is. None where nothing is left.
    """
    shown = [(key, max(0.0, a), max(0.0, b)) for key, a, b in parts_us if a > 0 or b > 0]
    widest = max(sum(a for _, a, _ in shown), sum(b for _, _, b in shown), *totals_us)
    if not shown or widest <= 0:
        return None
    percent = 100 / widest
    sides = [[a for _, a, _ in shown], [b for _, _, b in shown]]
    names = [(key, titles[key]) for key, _, _ in shown]
    bars = []
    for label, total, us in zip(labels, totals_us, sides, strict=True):
        segments = tuple(
            Segment(key, title, percent * at, percent * width, width)
            for (key, title), width, at in zip(names, us, accumulate(us, initial=0.0), strict=False)
        )
        excess = _excess(total, sum(us), percent)
        bars.append(Bar(label, total, percent * total, segments, excess))
    return StackedBars(
        (bars[0], bars[1]),
        tuple(map(_link, bars[0].segments, bars[1].segments)),
        tuple(Tick(percent * step, figure_text(step)) for step in linear_ticks(widest)),
        tuple(names),
    )


def _excess(total_us: float, parts_us: float, percent: float) -> Segment | None:
    us = parts_us - total_us
    if percent * us < _VISIBLE:
        return None
    return Segment("excess", EXCESS, percent * total_us, percent * us, us)


def _link(a: Segment, b: Segment) -> Link:
    corners = ((a.at, 0), (a.at + a.width, 0), (b.at + b.width, 100), (b.at, 100))
    return Link(a.key, " ".join(f"{x:.2f},{y}" for x, y in corners))
