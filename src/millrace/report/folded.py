"""Call paths as folded text, a line a path: what flame graph tools read.

Weights are whole nanoseconds per operation: some readers take no fractions. Frames are joined by
``;`` and named ``library`symbol``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from millrace.report.flame_graph import FlameNode


def as_folded(root: FlameNode, side: Literal["A", "B"]) -> str:
    """One side: ``connection;mysqld`main;mysqld`insert 1203``."""
    chosen = 0 if side == "A" else 1
    return "".join(
        f"{path} {weights[chosen]}\n" for path, weights in _weighed(root) if weights[chosen]
    )


def as_differential(root: FlameNode) -> str:
    """Both sides, as tools for differences take them: ``connection;mysqld`insert 1203 1410``."""
    return "".join(f"{path} {a} {b}\n" for path, (a, b) in _weighed(root) if a or b)


def own_us(node: FlameNode) -> tuple[float, float]:
    """A function's own time in A and in B, without what it calls."""
    return (
        max(0.0, node.a_us - math.fsum(child.a_us for child in node.children)),
        max(0.0, node.b_us - math.fsum(child.b_us for child in node.children)),
    )


def paths(
    root: FlameNode, above: tuple[FlameNode, ...] = ()
) -> Iterator[tuple[tuple[FlameNode, ...], float, float]]:
    """Each call path below the root with its last function's own time in A and in B."""
    for child in root.children:
        path = (*above, child)
        yield path, *own_us(child)
        yield from paths(child, path)


def _weighed(root: FlameNode) -> Iterator[tuple[str, tuple[int, int]]]:
    for path, a_us, b_us in paths(root):
        yield ";".join(map(_frame, path)), (round(1000 * a_us), round(1000 * b_us))


def _frame(node: FlameNode) -> str:
    """A frame's text; what would end it is replaced."""
    name = f"{node.module}`{node.name}" if node.module else node.name
    return " ".join(name.replace(";", ":").split())
