"""A differential flame graph of instructions, which is exact: every instruction is in it."""

from collections.abc import Mapping

from millrace.analysis.counts.model import CountComparison, TreatmentCount
from millrace.analysis.explain.call_tree import Path, call_tree
from millrace.report.common.flame_graph import FlameGraph, Scale, flame_graph

_INSTRUCTIONS = Scale("instructions", "instructions per statement", "instructions per statement")


def count_graph(comparison: CountComparison) -> FlameGraph:
    """Return the graphs of a base (A) and its candidate (B)."""
    return flame_graph(
        call_tree(_paths(comparison.base), _paths(comparison.candidate)),
        a=comparison.base.label,
        b=comparison.candidate.label,
        heading="Instructions",
        scale=_INSTRUCTIONS,
    )


def _paths(count: TreatmentCount) -> Mapping[Path, float]:
    """Return the call paths with the program or library of each function."""
    return {
        tuple((count.files.get(name, ""), name) for name in path): max(instructions, 0.0)
        for path, instructions in count.paths.items()
    }
