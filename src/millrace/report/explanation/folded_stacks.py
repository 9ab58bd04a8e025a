"""Call paths as folded text, a line a path: what flame graph tools read.

Weights are whole nanoseconds per operation: some readers take no fractions. Frames are joined by
``;`` and named ``library`symbol``.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, Literal

from millrace import __version__
from millrace.analysis.explain.call_tree import CallNode
from millrace.report.common.flame_graph import own_us
from millrace.shown_text import shown_json


def as_folded(root: CallNode, side: Literal["A", "B"]) -> str:
    """Return one side: ``connection;mysqld`main;mysqld`insert 1203``."""
    chosen = 0 if side == "A" else 1
    return "".join(
        f"{path} {weights[chosen]}\n" for path, weights in _weighed(root) if weights[chosen]
    )


def as_differential(root: CallNode) -> str:
    """Return both sides in one text: ``connection;mysqld`insert 1203 1410``."""
    return "".join(f"{path} {a} {b}\n" for path, (a, b) in _weighed(root) if a or b)


def paths(root: CallNode) -> Iterator[tuple[tuple[CallNode, ...], float, float]]:
    """Yield each call path with its last function's own time in A and in B, in µs."""
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


SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def as_speedscope(root: CallNode, *, a: str, b: str, heading: str) -> str:
    """Return the document as JSON text; ``a`` and ``b`` name the profiles."""
    numbers: dict[tuple[str, str], int] = {}
    sides: list[tuple[list[list[int]], list[float]]] = [([], []), ([], [])]
    for path, *weights in paths(root):
        stack = [numbers.setdefault((node.name, node.module), len(numbers)) for node in path]
        for (samples, kept), weight in zip(sides, weights, strict=True):
            if weight > 0:
                samples.append(stack)
                kept.append(weight)
    document = {
        "$schema": SCHEMA,
        "name": heading,
        "exporter": f"millrace {__version__}",
        "activeProfileIndex": 0,
        "shared": {
            "frames": [
                {"name": name, "file": module} if module else {"name": name}
                for name, module in numbers
            ]
        },
        "profiles": [
            _profile(name, samples, weights)
            for name, (samples, weights) in zip((a, b), sides, strict=True)
        ],
    }
    return shown_json(json.dumps(document, ensure_ascii=False)) + "\n"


def _profile(name: str, samples: list[list[int]], weights: list[float]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "microseconds",
        "startValue": 0,
        "endValue": math.fsum(weights),
        "samples": samples,
        "weights": weights,
    }
