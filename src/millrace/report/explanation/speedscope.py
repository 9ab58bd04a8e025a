"""Call paths in speedscope's file format: a profile of A and one of B.

Each is of the type ``sampled``: a sample a call path, weighing microseconds per operation.
"""

from __future__ import annotations

import json
import math
from typing import Any

from millrace import __version__
from millrace.analysis.explain.call_tree import CallNode
from millrace.report.explanation.folded_stacks import paths
from millrace.shown_text import shown_json

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
        "shared": {"frames": [_frame(name, module) for name, module in numbers]},
        "profiles": [
            _profile(name, samples, weights)
            for name, (samples, weights) in zip((a, b), sides, strict=True)
        ],
    }
    return shown_json(json.dumps(document, ensure_ascii=False)) + "\n"


def _frame(name: str, module: str) -> dict[str, str]:
    return {"name": name, "file": module} if module else {"name": name}


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
