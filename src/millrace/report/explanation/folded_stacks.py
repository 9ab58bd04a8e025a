"""Call paths as folded text, a line a path: what flame graph tools read.

Weights are whole nanoseconds per operation: some readers take no fractions. Frames are joined by
``;`` and named ``library`symbol``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from millrace.analysis.explain.call_tree import CallNode
from millrace.report.explanation.flame_graph import own_us


def as_folded(root: CallNode, side: Literal["A", "B"]) -> str:
    """Return one side: ``connection;mysqld`main;mysqld`insert 1203``."""
    chosen = 0 if side == "A" else 1
    return "".join(
        f"{path} {weights[chosen]}\n" for path, weights in _weighed(root) if weights[chosen]
    )


def as_differential(root: CallNode) -> str:
    """Return both sides, as tools for differences take them: ``connection;mysqld`insert 1203
    1410``."""
    return "".join(f"{path} {a} {b}\n" for path, (a, b) in _weighed(root) if a or b)


def paths(root: CallNode) -> Iterator[tuple[tuple[CallNode, ...], float, float]]:
    """Yield each call path below the root with its last function's own time in A and in B, µs; by
    hand, since stacks are deep."""
    waiting: list[tuple[CallNode, ...]] = [(child,) for child in reversed(root.children)]
    while waiting:
        path = waiting.pop()
        yield path, *own_us(path[-1])
        waiting += [(*path, child) for child in reversed(path[-1].children)]


def _weighed(root: CallNode) -> Iterator[tuple[str, tuple[int, int]]]:
    for path, a_us, b_us in paths(root):
        yield ";".join(map(_frame, path)), (round(1000 * a_us), round(1000 * b_us))


def _frame(node: CallNode) -> str:
    """Return a frame's text; what would end it is replaced."""
    name = f"{node.module}`{node.name}" if node.module else node.name
    return " ".join(name.replace(";", ":").split())
