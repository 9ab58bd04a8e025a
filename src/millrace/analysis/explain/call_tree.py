"""Call paths with their costs on two sides, and the tree they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.stats.mean import MeanEstimate
from millrace.stats.multiple_tests import HolmMark

KERNEL = "[kernel]"
UNKNOWN = "[unknown]"

# perf follows 127 calls unless the kernel is configured otherwise. An import may have any number,
# with any names, whose patterns take time by the square of their length.
_DEEPEST = 1024
_LONGEST_NAME = 2048

Frame = tuple[str, str]  # module, symbol; of the outermost one the symbol is a kind of thread
Path = tuple[Frame, ...]
Key = tuple[bool, str]  # whether of the kernel, and the name


@dataclass(frozen=True)
class CallNode:
    """A function in a call path, with its callees; the root is the server.

    Costs are in µs per operation, or in the one of a ``report.common.flame_graph.Scale``.
    """

    name: str
    module: str
    a_us: float
    b_us: float
    children: tuple[CallNode, ...] = ()


def path_of(stack: str) -> Path:
    """Return the frames of a folded stack, root first: the thread's kind has no module.

    Names that are too long are cut, and calls that are too deep are part of the last one.
    """
    kind, *frames = stack.split(";", _DEEPEST)
    split = (frame[:_LONGEST_NAME].partition("`") for frame in frames)
    return (("", kind), *((module, symbol) if tick else ("", module)
                          for module, tick, symbol in split))  # fmt: skip


def key_of(frame: Frame) -> Key:
    """Return a function's name, marked for functions of the kernel."""
    module, symbol = frame
    if symbol == UNKNOWN and module != KERNEL:
        return False, f"{UNKNOWN} in {module}"  # not the same function in two libraries
    return module == KERNEL, symbol


def call_tree(a: Mapping[Path, float], b: Mapping[Path, float]) -> CallNode:
    """Return call paths and their own costs on both sides as a tree, callees by name."""
    root = _Node("all", "")
    for side, paths in enumerate((a, b)):
        for path, us in paths.items():
            root.add(path, side, us)
    return root.frozen()


class _Node:
    def __init__(self, name: str, module: str) -> None:
        self.name, self.module = name, module
        self.us = [0.0, 0.0]
        self.callees: dict[Key, _Node] = {}

    def add(self, path: Iterable[Frame], side: int, us: float) -> None:
        node = self
        node.us[side] += us
        for frame in path:
            key = key_of(frame)
            if key not in node.callees:
                node.callees[key] = _Node(frame[1], frame[0])
            node = node.callees[key]
            node.us[side] += us

    def frozen(self) -> CallNode:
        """Freeze the tree, callees first and without recursion: stacks are deep."""
        order = [self]
        for node in order:
            order.extend(node.callees.values())
        done: dict[int, CallNode] = {}
        for node in reversed(order):
            callees = [done.pop(id(callee)) for _, callee in sorted(node.callees.items())]
            done[id(node)] = CallNode(
                node.name, node.module, node.us[0], node.us[1], tuple(callees)
            )
        return done[id(self)]


MOST_PATHS = 100
PathKey = tuple[Key, ...]
Stacks = Iterable[tuple[Path, int]]


@dataclass(frozen=True)
class PathDifference:
    """A call path's own cost in A and B, and B - A, in µs per operation; marked as functions."""

    path: tuple[str, ...]
    a_us: float
    b_us: float
    difference: MeanEstimate
    adjusted_p: float | None
    significant: bool


class CountedPaths:
    """The samples of each call path in each trial of A and B."""

    def __init__(self, a: Sequence[Stacks], b: Sequence[Stacks]) -> None:
        self._names: dict[PathKey, Path] = {}
        self.a, self.b = ([self._counted(stacks) for stacks in side] for side in (a, b))
        self.keys = sorted(self._names)

    def _counted(self, stacks: Stacks) -> Counter[PathKey]:
        found: Counter[PathKey] = Counter()
        for path, count in stacks:
            key = tuple(map(key_of, path))
            self._names.setdefault(key, path)
            found[key] += count
        return found

    def samples(self) -> list[int]:
        """Count the samples of each path, on both sides together."""
        return [sum(each[key] for each in (*self.a, *self.b)) for key in self.keys]

    def differing(
        self,
        a_us: NDArray[np.float64],
        b_us: NDArray[np.float64],
        differences: Sequence[MeanEstimate],
        marks: Sequence[HolmMark],
    ) -> tuple[PathDifference, ...]:
        """Return those that differ most, of all paths' costs and marks in the keys' order."""
        order = sorted(range(len(self.keys)), key=lambda n: -abs(differences[n].mean))
        return tuple(
            PathDifference(
                path=tuple(map(_text, self._names[self.keys[n]])),
                a_us=float(a_us[n]),
                b_us=float(b_us[n]),
                difference=differences[n],
                adjusted_p=marks[n].adjusted_p,
                significant=marks[n].significant,
            )
            for n in order[:MOST_PATHS]
        )


def _text(frame: Frame) -> str:
    module, symbol = frame
    return f"{module}`{symbol}" if module else symbol
