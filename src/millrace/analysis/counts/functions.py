"""Find the functions that make a difference between two trees of calls.

Versions rename functions and put others between the same two, so that flat lists of names differ
in hundreds of places. Functions are compared as in the flame graphs: below the callers that both
sides have. A function that only one side has differs by its own instructions, and by those of
callees that are not called there on the other side; where another function in its caller, or the
caller itself, makes up for that, it was only renamed or inlined.

A function whose difference is that of one of its callees is not listed: the callee says more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from millrace.analysis.counts.model import FunctionDifference
from millrace.model.instruction_counts import UNKNOWN, CallPath

_PASSED_ON = 0.8  # of a difference: from then on it is the callee's
_MADE_UP_FOR = 0.5  # of a difference: the rest, if less, does not count as one
_SMALLEST = 0.001  # of a statement
_MOST = 20


def function_differences(
    a: Mapping[CallPath, float], b: Mapping[CallPath, float], files: Mapping[str, str]
) -> tuple[FunctionDifference, ...]:
    """Return the functions that make the difference, the largest first.

    ``a`` and ``b`` are the instructions of each path's last function itself. All paths begin with
    the same function, which is not listed.
    """
    root = _compared(a, b)
    least = _SMALLEST * max(sum(root.total), 1.0) / 2
    places: defaultdict[str, list[_Node]] = defaultdict(list)
    for node in _origins(root):
        if node.name not in node.callers:  # else it is in its own caller's place
            places[node.name].append(node)
    found = [_in_all_places(nodes, files.get(name)) for name, nodes in places.items()]
    # The outer function first, where it differs by as much as what it calls.
    found.sort(key=lambda each: (-abs(each.difference), len(each.callers)))
    return tuple(each for each in found[:_MOST] if abs(each.difference) >= least)


def _in_all_places(nodes: Sequence[_Node], file: str | None) -> FunctionDifference:
    """Return the sum of a function's differences: one that moved to another caller has none."""
    largest = max(nodes, key=lambda node: abs(node.difference))
    return FunctionDifference(
        name=largest.name,
        file=file,
        callers=largest.callers,
        a=sum(node.total[0] for node in nodes),
        b=sum(node.total[1] for node in nodes),
        difference=sum(node.difference for node in nodes),
        only=largest.only,
        places=len(nodes),
    )


@dataclass(eq=False)
class _Node:
    """A function below its callers, with instructions of A and of B, of itself and of all.

    ``callees`` are those that both sides have, ``alone`` those of one side. ``through`` are, of a
    function of one side, the functions of both sides that it leads to, with what they take there.
    """

    name: str
    callers: tuple[str, ...] = ()
    only: Literal["A", "B"] | None = None
    own: list[float] = field(default_factory=lambda: [0.0, 0.0])
    total: list[float] = field(default_factory=lambda: [0.0, 0.0])
    callees: dict[str, _Node] = field(default_factory=dict)
    alone: dict[str, _Node] = field(default_factory=dict)
    through: dict[_Node, list[float]] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        if self.only is None:
            return self.total[1] - self.total[0]
        return self.rest + sum(map(self.part_of, self.through))

    def part_of(self, callee: _Node) -> float:
        """Return the part that this function, of one side, has in a difference below it.

        It is what the callee takes here and did not take on the other side. Where the callee only
        moved here from its caller, the difference is its own.
        """
        taken = self.through[callee][self.side]
        elsewhere = callee.total[self.side] - taken
        moved = max(callee.total[1 - self.side] - elsewhere, 0.0)
        part = taken - moved if moved < _MADE_UP_FOR * taken else 0.0
        return part if self.only == "B" else -part

    @property
    def side(self) -> int:
        return 1 if self.only == "B" else 0

    @property
    def rest(self) -> float:
        """The difference of its own instructions and of functions of one side together."""
        alone = sum(each.difference for each in self.alone.values())
        return self.own[1] - self.own[0] + alone


def _compared(a: Mapping[CallPath, float], b: Mapping[CallPath, float]) -> _Node:
    names = [{name for path in paths for name in path} for paths in (a, b)]
    shared = names[0] & names[1]
    root = _Node("")
    for side, paths in enumerate((a, b)):
        for path, instructions in paths.items():
            _add(root, path, side, instructions, shared)
    return next(iter(root.callees.values())) if len(root.callees) == 1 else root


def _add(root: _Node, path: CallPath, side: int, instructions: float, shared: set[str]) -> None:
    """Add a call path: its last function's instructions, and those of all its callers."""
    node, alone = root, None
    root.total[side] += instructions
    for name in path:
        if name == UNKNOWN:
            continue  # part of its caller: other addresses in another build say nothing
        if name in shared:
            if name not in node.callees:
                node.callees[name] = _Node(name, _callers_below(node))
            node, before = node.callees[name], alone
            if before is not None:
                before.through.setdefault(node, [0.0, 0.0])[side] += instructions
            alone = None
            node.total[side] += instructions
            continue
        within = node if alone is None else alone
        if name not in within.alone:
            within.alone[name] = _Node(name, _callers_below(within), "B" if side else "A")
        alone = within.alone[name]
        alone.total[side] += instructions
    (node if alone is None else alone).own[side] += instructions


def _callers_below(node: _Node) -> tuple[str, ...]:
    return (*node.callers, node.name) if node.name else ()


def _origins(root: _Node) -> Iterator[_Node]:
    """Yield the functions in which a difference originates."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        rest = node.rest  # computed from all of them
        alone = [each for each in node.alone.values() if _is_part(each.difference, rest)]
        explained = {
            through
            for each in alone
            for through in each.through
            if _is_most(each.part_of(through), through.difference)
        }
        callees = list(node.callees.values())
        inner = (each.difference for each in (*alone, *callees))
        is_passed_on = any(_is_most(each, node.difference) for each in inner)
        if node is not root and not is_passed_on:
            yield node
        yield from alone
        waiting += [each for each in callees if each not in explained]


def _is_most(part: float, whole: float) -> bool:
    return part * whole > 0 and abs(part) >= _PASSED_ON * abs(whole)


def _is_part(part: float, whole: float) -> bool:
    """Return whether a difference is not made up for in the whole that it belongs to."""
    return part * whole > 0 and abs(whole) >= _MADE_UP_FOR * abs(part)
