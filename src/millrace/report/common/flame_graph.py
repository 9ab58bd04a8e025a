"""A differential flame graph: where CPU time goes in a graph of A and in one of B.

Both graphs have one scale and one order, root on top, so that widths compare between them. Colours
are the difference, B less A, of a function where it was called. Versions put other functions
between the same two, and would share hardly a call path for it: so paths are compared without the
functions that only one side has, and those have the colour of their own time alone. Functions
without a name are not compared at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from millrace.analysis.explain.call_tree import KERNEL, UNKNOWN, CallNode
from millrace.quantities import counted
from millrace.report.common.formatting import figure_text, percent_text
from millrace.report.common.pages import environment
from millrace.report.common.wording import short_symbol

NARROWEST = 0.001  # of the wider graph; narrower frames are left out
STEPS = 4  # shades on either side of the neutral one
ROW_PX = 18
_LABELLED = 2.5  # percent of the width that has room for a few letters of a name
_OUTLINED = 0.8  # percent of the width that has room for an outline


@dataclass(frozen=True)
class Scale:
    """The unit of costs, as it follows a figure, a whole graph's sum, and the word ``Width:``."""

    unit: str
    total: str
    width: str


MICROSECONDS = Scale("µs", "µs per operation", "microseconds per operation")

Letter = Literal["A", "B"]
Kind = Literal["both", "only", "unnamed"]  # of functions: which sides have it
Key = tuple[bool, str]  # whether of the kernel, and the name


@dataclass(frozen=True)
class Frame:
    """A call path in one graph: ``at`` and ``width`` in percent of the graph's width.

    ``number`` counts the graph's frames from the root down, and those of its callees go up to
    ``last``. ``counterpart`` is the same in both graphs for what is compared, None for what is not.
    ``shade`` is a class of the style, ``us`` what it took.
    """

    number: int
    last: int
    counterpart: int | None
    depth: int
    at: float
    width: float
    us: float
    label: str
    title: str
    shade: str
    kind: Kind

    @property
    def labelled(self) -> bool:
        """Return whether there is room for some of its name."""
        return self.width >= _LABELLED

    @property
    def slim(self) -> bool:
        """Return whether an outline does not fit."""
        return self.width < _OUTLINED


@dataclass(frozen=True)
class Graph:
    """The frames of one side, callers before what they call.

    ``left_out`` counts call paths that were too narrow (the outermost ones), ``left_out_us`` what
    they took in total.
    """

    side: Letter
    label: str
    total_us: float
    frames: tuple[Frame, ...]
    left_out: int
    left_out_us: float
    unit: str

    @property
    def height(self) -> int:
        return ROW_PX * (1 + max((frame.depth for frame in self.frames), default=0))

    @property
    def left_out_text(self) -> str:
        paths = counted(self.left_out, "call path")
        share = percent_text(self.left_out_us / self.total_us if self.total_us else 0.0)
        together = f"{figure_text(self.left_out_us)} {self.unit}"
        return f"{paths} of {self.side}, together {together} ({share})"


@dataclass(frozen=True)
class Shade:
    """A colour of the legend, the differences it stands for, and where the next one begins."""

    name: str
    title: str
    end: str


@dataclass(frozen=True)
class FlameGraph:
    """Both graphs, and what their colours mean."""

    heading: str
    scale: Scale
    graphs: tuple[Graph, Graph]
    shades: tuple[Shade, ...]

    @property
    def left_out_text(self) -> str:
        """Describe the frames that are not drawn; empty where everything is."""
        parts = [graph.left_out_text for graph in self.graphs if graph.left_out]
        if not parts:
            return ""
        return f"Left out, narrower than {percent_text(NARROWEST)}: {'; '.join(parts)}"


def flame_graph(
    root: CallNode, *, a: str, b: str, heading: str = "CPU profile", scale: Scale = MICROSECONDS
) -> FlameGraph:
    """Return the graphs of A and B (their labels) of a tree of call paths."""
    paths = _walk(root)
    edges = _edges(max((abs(path.difference_us) for path in paths), default=0.0))
    graphs = (_graph("A", a, paths, edges, scale.unit), _graph("B", b, paths, edges, scale.unit))
    return FlameGraph(
        heading=heading, scale=scale, graphs=graphs, shades=_shades(edges, scale.unit)
    )


def as_svg(graph: FlameGraph) -> str:
    """Return the graphs as one SVG file of its own, script and styles inside."""
    template = environment(()).get_template("flame_graph.svg.j2")
    return template.render(graph=graph, row=ROW_PX)


def own_us(node: CallNode) -> tuple[float, float]:
    """Return a function's own time in A and in B, without what it calls."""
    return (
        max(0.0, node.a_us - math.fsum(child.a_us for child in node.children)),
        max(0.0, node.b_us - math.fsum(child.b_us for child in node.children)),
    )


@dataclass(eq=False)
class _Compared:
    """A function below the same shared callers: its costs on both sides, in µs per operation."""

    number: int
    a_us: float = 0.0
    b_us: float = 0.0
    own_a_us: float = 0.0
    own_b_us: float = 0.0
    callees: dict[Key, _Compared] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Path:
    """A node of the tree, ``parent`` an index (-1: root), ``compared`` else its caller's."""

    node: CallNode
    parent: int
    depth: int
    compared: _Compared
    kind: Kind

    @property
    def difference_us(self) -> float:
        if self.kind == "both":
            return self.compared.b_us - self.compared.a_us
        a_us, b_us = own_us(self.node)
        return b_us - a_us if self.kind == "only" else 0.0


def _walk(root: CallNode) -> list[_Path]:
    """Return every call path, callers first, callees by size; by hand, since stacks are deep."""
    shared = _shared(root)
    top = _Compared(0)
    count = 1
    paths: list[_Path] = []
    waiting = [(root, -1, 0, top)]
    while waiting:
        node, parent, depth, above = waiting.pop()
        kind: Kind = "both" if parent < 0 or _key(node) in shared else "only"
        if parent >= 0 and node.name == UNKNOWN:
            kind = "unnamed"
        compared = above
        if parent >= 0 and kind == "both":
            compared = above.callees.setdefault(_key(node), _Compared(count))
            count += compared.number == count
        if kind == "both":
            own = own_us(node)
            compared.a_us += node.a_us
            compared.b_us += node.b_us
            compared.own_a_us += own[0]
            compared.own_b_us += own[1]
        index = len(paths)
        paths.append(_Path(node, parent, depth, compared, kind))
        smallest_first = sorted(node.children, key=lambda child: max(child.a_us, child.b_us))
        waiting += [(child, index, depth + 1, compared) for child in smallest_first]
    return paths


def _shared(root: CallNode) -> set[Key]:
    """Return the functions that both sides have, wherever they were called."""
    sides: tuple[set[Key], set[Key]] = (set(), set())
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for us, found in zip((node.a_us, node.b_us), sides, strict=True):
            if us > 0:
                found.add(_key(node))
        waiting += node.children
    return sides[0] & sides[1]


def _key(node: CallNode) -> Key:
    """Return the key of a function without its arguments, which versions change."""
    return node.module == KERNEL, short_symbol(node.name)


def _graph(
    side: Letter, label: str, paths: Sequence[_Path], edges: Sequence[float], unit: str
) -> Graph:
    root = paths[0].node
    totals = (root.a_us, root.b_us)
    widest = max(totals)
    limit = widest * NARROWEST
    drawn: dict[int, int] = {}  # the number of its frame, by index of a path
    ends: dict[int, float] = {}  # how far a frame is filled with callees, µs
    frames: list[Frame] = []
    narrow: list[float] = []
    for index, path in enumerate(paths):
        us = path.node.a_us if side == "A" else path.node.b_us
        if us <= 0 or (path.parent >= 0 and path.parent not in drawn):
            continue
        if us < limit:
            narrow.append(us)
            continue
        at = ends.get(path.parent, 0.0)
        ends[path.parent] = at + us
        ends[index] = at
        drawn[index] = len(frames)
        frames.append(
            Frame(
                number=len(frames),
                last=len(frames),
                counterpart=path.compared.number if path.kind == "both" else None,
                depth=path.depth,
                at=100 * (at / widest),
                width=100 * (us / widest),
                us=us,
                label=short_symbol(path.node.name),
                title=_title(path, side, us, totals, unit),
                shade=_shade(path.difference_us, edges),
                kind=path.kind,
            )
        )
    total_us = totals[0 if side == "A" else 1]
    drawn_frames = tuple(_with_last(frames))
    return Graph(side, label, total_us, drawn_frames, len(narrow), math.fsum(narrow), unit)


def _with_last(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Yield the frames, each with the number of its last callee."""
    lasts = [0] * len(frames)
    open_frames: list[Frame] = []
    for frame in frames:
        while open_frames and open_frames[-1].depth >= frame.depth:
            lasts[open_frames.pop().number] = frame.number - 1
        open_frames.append(frame)
    for frame in open_frames:
        lasts[frame.number] = len(frames) - 1
    for frame, last in zip(frames, lasts, strict=True):
        yield Frame(**{**vars(frame), "last": last})


def _title(path: _Path, side: Letter, us: float, totals: tuple[float, float], unit: str) -> str:
    """Return function, library and figures, a line each; the script reads them from there."""
    node, compared = path.node, path.compared
    if path.kind != "both":
        own = own_us(node)[0 if side == "A" else 1]
        share = percent_text(us / totals[0 if side == "A" else 1])
        where = f"only in {side}:" if path.kind == "only" else f"not compared, in {side}"
        figures = f"{where} {figure_text(us)} {unit}, {share}"
        without = f"without what it calls {figure_text(own)} {unit}"
    else:
        figures = " · ".join(
            f"{letter} {figure_text(cost)} {unit}, {percent_text(cost / total if total else 0.0)}"
            for letter, cost, total in zip(
                "AB", (compared.a_us, compared.b_us), totals, strict=True
            )
        )
        difference = figure_text(compared.b_us - compared.a_us, signed=True)
        figures += f" · difference {difference} {unit}"
        if us < 0.999 * (compared.a_us if side == "A" else compared.b_us):
            figures += f" · here {figure_text(us)} {unit}"
        without = (
            f"without what it calls: A {figure_text(compared.own_a_us)} {unit} · "
            f"B {figure_text(compared.own_b_us)} {unit}"
        )
    lines = [node.name, node.module, figures]
    return "\n".join([*lines, without] if node.children else lines)


def _edges(largest: float) -> tuple[float, ...]:
    """Return the differences at which shades begin, in µs: 1, 3 and 10 times powers of ten."""
    if largest <= 0:
        return ()
    steps = range(2 * math.floor(math.log10(largest)) + 1, -700, -1)
    rounded = (10.0 ** (step // 2) * (3 if step % 2 else 1) for step in steps)
    below = (edge for edge in rounded if edge <= largest)
    return tuple(reversed([next(below) for _ in range(STEPS)]))


def _shade(difference: float, edges: Sequence[float]) -> str:
    step = sum(abs(difference) >= edge for edge in edges)
    return "same" if step == 0 else f"{'more' if difference > 0 else 'less'}-{step}"


def _shades(edges: Sequence[float], unit: str) -> tuple[Shade, ...]:
    """Return the legend, from much less to much more."""
    if not edges:
        return (Shade("same", "no difference", ""),)
    less, more = [], []
    for step, edge in enumerate(edges, start=1):
        last = step == len(edges)
        size = (
            f"{figure_text(edge)} {'and more' if last else 'to ' + figure_text(edges[step])} {unit}"
        )
        end = "" if last else figure_text(edges[step], signed=True)
        less.append(Shade(f"less-{step}", f"B less by {size}", figure_text(-edge)))
        more.append(Shade(f"more-{step}", f"B more by {size}", end))
    first = edges[0]
    same = Shade(
        "same", f"differ by less than {figure_text(first)} {unit}", figure_text(first, signed=True)
    )
    return (*reversed(less), same, *more)
