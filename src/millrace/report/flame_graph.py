"""A differential flame graph: where a call path goes in a graph of A and in one of B.

Both graphs have one scale and one order, root on top, so that widths compare between them; a path
that only one of them has is missing in the other. Colours are the difference, B less A.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.report.formatting import percent_text, us_text
from millrace.report.pages import environment
from millrace.report.symbols import short_symbol

NARROWEST = 0.001  # of the wider graph; what is narrower in both is left out
STEPS = 4  # shades on either side of the neutral one
ROW_PX = 18
_LABELLED = 2.5  # percent of the width that has room for a few letters of a name


@dataclass(frozen=True)
class FlameNode:
    """A function in a call path, in microseconds per operation with all that it calls.

    ``a_us`` and ``b_us`` are 0 where a side does not have the path; children's sums do not exceed
    their parent's, and what is left is the function's own.
    """

    name: str
    module: str
    a_us: float
    b_us: float
    children: tuple[FlameNode, ...] = ()


@dataclass(frozen=True)
class Frame:
    """A call path in one graph: ``at`` and ``width`` in percent of the graph's width.

    ``number`` counts call paths from the root down, the same in both graphs, and those of its
    callees go up to ``last``. ``shade`` is a class of the style; ``only`` marks a path that the
    other graph lacks.
    """

    number: int
    last: int
    depth: int
    at: float
    width: float
    a_us: float
    b_us: float
    label: str
    title: str
    shade: str
    only: bool

    @property
    def labelled(self) -> bool:
        """Whether there is room for some of its name."""
        return self.width >= _LABELLED


@dataclass(frozen=True)
class Graph:
    """The frames of one side, callers before what they call."""

    side: Literal["A", "B"]
    label: str
    total_us: float
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class Shade:
    """A colour of the legend, the differences it stands for, and where the next one begins."""

    name: str
    title: str
    end: str


@dataclass(frozen=True)
class FlameGraph:
    """Both graphs, ``rows`` deep, and what their colours mean.

    ``left_out`` counts call paths that were too narrow for both graphs (the outermost ones), which
    took ``left_out_a_us`` and ``left_out_b_us`` in total.
    """

    heading: str
    unit: str
    graphs: tuple[Graph, Graph]
    rows: int
    shades: tuple[Shade, ...]
    left_out: int
    left_out_a_us: float
    left_out_b_us: float

    @property
    def height(self) -> int:
        """Of each graph, in pixels."""
        return self.rows * ROW_PX

    @property
    def left_out_text(self) -> str:
        """What is not drawn, in words; empty where everything is."""
        if not self.left_out:
            return ""
        paths = "1 call path" if self.left_out == 1 else f"{self.left_out:,} call paths"
        return (
            f"Left out: {paths} narrower than {percent_text(NARROWEST)} of the wider graph in "
            f"both, together {us_text(self.left_out_a_us)} µs of A and "
            f"{us_text(self.left_out_b_us)} µs of B"
        )


@dataclass(frozen=True)
class _Placed:
    """A node that is drawn, numbered from the root down; ``a_at`` and ``b_at`` in microseconds."""

    node: FlameNode
    number: int
    last: int
    depth: int
    a_at: float
    b_at: float


def flame_graph(
    root: FlameNode, *, a: str, b: str, heading: str = "CPU profile", unit: str = "µs per operation"
) -> FlameGraph:
    """The graphs of A and B (their labels) of a tree of call paths."""
    widest = max(root.a_us, root.b_us)
    limit = widest * NARROWEST
    placed = _place(root, limit)
    edges = _edges(max((abs(p.node.b_us - p.node.a_us) for p in placed), default=0.0))
    left_out = list(_narrow(root, limit))
    graphs = (
        Graph("A", a, root.a_us, _frames("A", placed, root, edges)),
        Graph("B", b, root.b_us, _frames("B", placed, root, edges)),
    )
    return FlameGraph(
        heading=heading,
        unit=unit,
        graphs=graphs,
        rows=1 + max((p.depth for p in placed), default=0),
        shades=_shades(edges),
        left_out=len(left_out),
        left_out_a_us=math.fsum(node.a_us for node in left_out),
        left_out_b_us=math.fsum(node.b_us for node in left_out),
    )


def as_svg(graph: FlameGraph) -> str:
    """The graphs as one SVG file of its own, script and styles inside."""
    template = environment(()).get_template("flame_graph.svg.j2")
    return template.render(graph=graph, row=ROW_PX)


def _is_drawn(node: FlameNode, limit: float) -> bool:
    size = max(node.a_us, node.b_us)
    return size > 0 and size >= limit


def _place(root: FlameNode, limit: float) -> list[_Placed]:
    """What is drawn, callers first, children by size; a function's own time is right of them."""
    placed: list[_Placed] = []

    def add(node: FlameNode, depth: int, a_at: float, b_at: float) -> None:
        number = len(placed)
        placed.append(_Placed(node, number, number, depth, a_at, b_at))
        for child in sorted(node.children, key=lambda child: -max(child.a_us, child.b_us)):
            if _is_drawn(child, limit):
                add(child, depth + 1, a_at, b_at)
                a_at += child.a_us
                b_at += child.b_us
        own = placed[number]
        placed[number] = _Placed(node, number, len(placed) - 1, depth, own.a_at, own.b_at)

    if _is_drawn(root, limit):
        add(root, 0, 0.0, 0.0)
    return placed


def _narrow(node: FlameNode, limit: float) -> Iterator[FlameNode]:
    """The outermost call paths below ``node`` that are too narrow for both graphs."""
    for child in node.children:
        if _is_drawn(child, limit):
            yield from _narrow(child, limit)
        elif child.a_us > 0 or child.b_us > 0:
            yield child


def _frames(
    side: Literal["A", "B"], placed: Sequence[_Placed], root: FlameNode, edges: Sequence[float]
) -> tuple[Frame, ...]:
    percent = 100 / max(root.a_us, root.b_us, 1e-300)
    frames = []
    for each in placed:
        node = each.node
        size, other = (node.a_us, node.b_us) if side == "A" else (node.b_us, node.a_us)
        if size <= 0:
            continue
        frames.append(
            Frame(
                number=each.number,
                last=each.last,
                depth=each.depth,
                at=percent * (each.a_at if side == "A" else each.b_at),
                width=percent * size,
                a_us=node.a_us,
                b_us=node.b_us,
                label=short_symbol(node.name),
                title=_title(node, root),
                shade=_shade(node.b_us - node.a_us, edges),
                only=other <= 0,
            )
        )
    return tuple(frames)


def _title(node: FlameNode, root: FlameNode) -> str:
    """Function, library and figures, a line each; the script reads them from there."""
    sides = [
        f"{side} {us_text(us)} µs, {percent_text(us / total if total else 0.0)}"
        for side, us, total in (("A", node.a_us, root.a_us), ("B", node.b_us, root.b_us))
    ]
    figures = f"{' · '.join(sides)} · difference {us_text(node.b_us - node.a_us, signed=True)} µs"
    if node.children:
        own = [
            max(0.0, total - math.fsum(parts))
            for total, parts in (
                (node.a_us, [child.a_us for child in node.children]),
                (node.b_us, [child.b_us for child in node.children]),
            )
        ]
        figures += f"\nwithout what it calls: A {us_text(own[0])} µs · B {us_text(own[1])} µs"
    return f"{node.name}\n{node.module}\n{figures}"


def _edges(largest: float) -> tuple[float, ...]:
    """Where shades begin, in microseconds of difference: 1, 3 and 10 times powers of ten, the last
    one below the largest difference."""
    if largest <= 0:
        return ()
    steps = range(2 * math.floor(math.log10(largest)) + 1, -700, -1)
    rounded = (10.0 ** (step // 2) * (3 if step % 2 else 1) for step in steps)
    below = (edge for edge in rounded if edge <= largest)
    return tuple(reversed([next(below) for _ in range(STEPS)]))


def _shade(difference: float, edges: Sequence[float]) -> str:
    step = sum(abs(difference) >= edge for edge in edges)
    return "same" if step == 0 else f"{'more' if difference > 0 else 'less'}-{step}"


def _shades(edges: Sequence[float]) -> tuple[Shade, ...]:
    """The legend, from much less to much more."""
    if not edges:
        return (Shade("same", "no difference", ""),)
    less, more = [], []
    for step, edge in enumerate(edges, start=1):
        last = step == len(edges)
        size = f"{us_text(edge)} {'and more' if last else 'to ' + us_text(edges[step])} µs"
        end = "" if last else us_text(edges[step], signed=True)
        less.append(Shade(f"less-{step}", f"B less by {size}", us_text(-edge)))
        more.append(Shade(f"more-{step}", f"B more by {size}", end))
    first = edges[0]
    same = Shade("same", f"differ by less than {us_text(first)} µs", us_text(first, signed=True))
    return (*reversed(less), same, *more)
