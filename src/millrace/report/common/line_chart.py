"""A chart of lines.

Positions are percentages of the chart's width and height, so that text never scales with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from millrace.report.common.axis import Tick

MOST_LINES = 8  # as many as there are signs and colours; more cannot be told apart


@dataclass(frozen=True)
class Mark:
    """A point of a line with its interval, where it has one; ``title`` says it in words."""

    x: float
    y: float
    low_y: float | None
    high_y: float | None
    title: str


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
    band: tuple[float, float] | None
    one: float | None
    lines: tuple[Line, ...]
