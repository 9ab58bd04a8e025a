"""Draw small pictures as SVG text.

They are readable on light and on dark pages, in any browser, without a script.

Coordinates are rounded, so that a redrawn picture is the same file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Points = Sequence[tuple[float, float]]

# The picture has a background of its own, since a page may be dark on a light screen.
STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; fill: #1d2125; }
.paper { fill: #ffffff; stroke: #dde1e5; }
.head { font-weight: 600; font-size: 14px; }
.muted { fill: #5b636c; font-size: 12px; }
.grid { stroke: #e8ebee; }
.rule { stroke: #5b636c; }
.dashed { stroke: #5b636c; stroke-dasharray: 5 4; }
.band { fill: #eceff2; }
.a { stroke: #2a5d8f; } .b { stroke: #b85c00; } .bad { stroke: #b3331b; } .good { stroke: #0b6a85; }
.plain { stroke: #5b636c; } .unsure { stroke: #835c00; }
.fill-a { fill: #2a5d8f; } .fill-b { fill: #b85c00; } .fill-bad { fill: #b3331b; }
.fill-good { fill: #0b6a85; } .fill-plain { fill: #5b636c; } .fill-unsure { fill: #835c00; }
line, polyline { fill: none; stroke-width: 1.6; }
.grid { stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7ea; }
  .paper { fill: #15181b; stroke: #333a41; }
  .muted { fill: #9ca5ae; }
  .grid { stroke: #272d33; }
  .rule, .dashed, .plain { stroke: #9ca5ae; }
  .band { fill: #23292f; }
  .a { stroke: #8fbbe4; } .b { stroke: #f0a35e; } .bad { stroke: #ff947c; }
  .good { stroke: #6fc8e2; }
  .unsure { stroke: #e2b65a; }
  .fill-a { fill: #8fbbe4; } .fill-b { fill: #f0a35e; } .fill-bad { fill: #ff947c; }
  .fill-good { fill: #6fc8e2; } .fill-plain { fill: #9ca5ae; } .fill-unsure { fill: #e2b65a; }
}
"""


@dataclass
class Picture:
    """Marks in pixels from the upper left corner.

    ``title`` is for readers who cannot see the picture."""

    width: int
    height: int
    title: str
    marks: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, said: str, *, of: str = "", anchor: Anchor = "start"
    ) -> None:
        self.marks.append(
            f'<text x="{_round(x)}" y="{_round(y)}" class="{of}" text-anchor="{anchor}">'
            f"{escape(said)}</text>"
        )

    def line(self, points: Points, of: str) -> None:
        coordinates = " ".join(f"{_round(x)},{_round(y)}" for x, y in points)
        self.marks.append(f'<polyline points="{coordinates}" class="{of}"/>')

    def dot(self, x: float, y: float, of: str, *, radius: float = 3.0) -> None:
        self.marks.append(
            f'<circle cx="{_round(x)}" cy="{_round(y)}" r="{radius:g}" class="fill-{of}"/>'
        )

    def box(self, x: float, y: float, width: float, height: float, of: str) -> None:
        self.marks.append(
            f'<rect x="{_round(x)}" y="{_round(y)}" width="{_round(width)}" '
            f'height="{_round(height)}" class="{of}"/>'
        )

    def as_text(self) -> str:
        paper = f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="6" '
        marks = "\n".join(self.marks)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n"
            f'{paper}class="paper"/>\n{marks}\n</svg>\n'
        )


@dataclass(frozen=True)
class Plot:
    """A part of a picture with axes: ``x`` and ``y`` are the values at its ends."""

    picture: Picture
    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + across * self.width, self.top + (1 - up) * self.height

    def head(self, said: str, *, below: str = "") -> None:
        """Draw a heading over the plot, with a line of explanation."""
        self.picture.text(self.left, self.top - (26 if below else 10), said, of="head")
        if below:
            self.picture.text(self.left, self.top - 9, below, of="muted")

    def across(self, ticks: Sequence[tuple[float, str]], name: str = "") -> None:
        """Draw the lower axis; ``name`` stands below its middle."""
        bottom = self.top + self.height
        for value, label in ticks:
            x, _ = self.at(value, self.y[0])
            self.picture.line([(x, self.top), (x, bottom)], "grid")
            self.picture.text(x, bottom + 17, label, of="muted", anchor="middle")
        if name:
            middle = self.left + self.width / 2
            self.picture.text(middle, bottom + 35, name, of="muted", anchor="middle")

    def up(self, ticks: Sequence[tuple[float, str]]) -> None:
        for value, label in ticks:
            _, y = self.at(self.x[0], value)
            self.picture.line([(self.left, y), (self.left + self.width, y)], "grid")
            self.picture.text(self.left - 7, y + 4, label, of="muted", anchor="end")

    def line(self, points: Points, of: str) -> None:
        self.picture.line([self.at(x, y) for x, y in points], of)

    def dot(self, x: float, y: float, of: str, *, radius: float = 3.0) -> None:
        self.picture.dot(*self.at(x, y), of, radius=radius)

    def band(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        left, top = self.at(x[0], y[1])
        right, bottom = self.at(x[1], y[0])
        self.picture.box(left, top, right - left, bottom - top, "band")

    def text(
        self, x: float, y: float, said: str, *, of: str = "", anchor: Anchor = "start"
    ) -> None:
        self.picture.text(*self.at(x, y), said, of=of, anchor=anchor)


def percent_ticks(values: Sequence[float]) -> list[tuple[float, str]]:
    """Format fractions as ``5 %``."""
    return [(value, f"{value * 100:g} %") for value in values]


def _round(value: float) -> str:
    rounded = round(value, 1) + 0.0
    return f"{rounded:g}" if math.isfinite(rounded) else "0"
