"""Compute costs of call paths on two sides, and the tree they make.

Costs follow from the samples of profiles and the CPU time of an operation.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from millrace.analysis.explain.efficiency import server_cpu_s
from millrace.analysis.explain.observations import ObservedTrial, Profile
from millrace.analysis.explain.time_breakdown import ALPHA
from millrace.stats.mean import MeanEstimate, OwnError, mean_estimates
from millrace.stats.multiple_tests import HolmMark, holm_marks
from millrace.stats.proportions import count_differences

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


CONFIDENCE = 0.95
FEWEST_SAMPLES = 10  # of a function on both sides together, to ask whether it differs

T = TypeVar("T")


@dataclass(frozen=True)
class Profiled:
    """One trial's stacks, and the CPU time in µs per operation that they share."""

    profile: Profile
    cpu_us: float

    @property
    def user_only(self) -> bool:
        return self.profile.with_kernel is False

    @property
    def unit_us(self) -> float:
        """Return the CPU time that a sample stands for, in µs."""
        return self.cpu_us / self.profile.samples

    @cached_property
    def stacks(self) -> list[tuple[Path, int]]:
        return [(path_of(stack), count) for stack, count in self.profile.stacks.items()]

    def at(self, cpu_us: float) -> Profiled:
        """Return the same shares of another CPU time."""
        return Profiled(self.profile, cpu_us)


def profiled(trial: ObservedTrial) -> Profiled | None:
    """Return a trial's profile with its own CPU time."""
    profile = trial.observed.profile
    if profile is None:
        return None
    cpu_s = server_cpu_s(trial, user_only=profile.with_kernel is False)
    return None if cpu_s is None else Profiled(profile, trial.observed.us(cpu_s))


def of_treatment(
    trials: Sequence[ObservedTrial], measured: Sequence[ObservedTrial]
) -> list[Profiled]:
    """Return its profiles, of the mean CPU time of the ``measured`` trials where there is any."""
    found = [each for trial in trials if (each := profiled(trial)) is not None]
    if not found or len({each.user_only for each in found}) != 1:
        return []
    cpus_us = cpu_by_block(measured, user_only=found[0].user_only).values()
    return [each.at(sum(cpus_us) / len(cpus_us)) for each in found] if cpus_us else found


def cpu_by_block(trials: Sequence[ObservedTrial], *, user_only: bool) -> dict[int, float]:
    """Return CPU time of an operation of each trial that has it, in µs."""
    return {
        trial.block: trial.observed.us(cpu_s)
        for trial in trials
        if (cpu_s := server_cpu_s(trial, user_only=user_only)) is not None
    }


@dataclass(frozen=True)
class ProfiledSide:
    """One treatment's profiled trials by block, and the CPU time in measured blocks.

    The mean of the latter is the CPU time of the profiled trials too (None: theirs is their own).
    """

    trials: Sequence[Profiled]
    measured_us: NDArray[np.float64] | None

    @property
    def units(self) -> NDArray[np.float64]:
        return np.asarray([trial.unit_us for trial in self.trials])

    def paths(self) -> dict[Path, float]:
        """Return means over the blocks, µs per operation."""
        found: defaultdict[Path, float] = defaultdict(float)
        for trial in self.trials:
            for path, count in trial.stacks:
                found[path] += count * trial.unit_us / len(self.trials)
        return dict(found)

    def keyed(self) -> list[tuple[tuple[Key, ...], float]]:
        """Call paths by function, without the kind of thread."""
        return [
            (tuple(key_of(frame) for frame in path[1:]), us) for path, us in self.paths().items()
        ]

    def in_measured(self, us: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return k costs in each measured block, as if only the CPU time differed between blocks.

        ``us`` are means over the profiled blocks, shape (k,); the result has shape (k, blocks
        measured).
        """
        if self.measured_us is None:
            return None
        return np.outer(us, self.measured_us / self.measured_us.mean())


@dataclass(frozen=True)
class Compared:
    """Costs of k things on both sides: µs per operation, shape (k,), and B - A of each."""

    a_us: NDArray[np.float64]
    b_us: NDArray[np.float64]
    differences: tuple[MeanEstimate, ...]


def table(counts: Sequence[Counter[T]], keys: Sequence[T]) -> NDArray[np.float64]:
    """Return samples of each key in each block, shape (keys, blocks)."""
    table = [[each[key] for each in counts] for key in keys]
    return np.asarray(table, dtype=np.float64).reshape(len(keys), len(counts))


def compared(
    a: NDArray[np.float64], b: NDArray[np.float64], of_a: ProfiledSide, of_b: ProfiledSide
) -> Compared:
    """Return samples of k things in the blocks of both sides, shape (k, blocks), as costs."""
    a_us, b_us = a * of_a.units, b * of_b.units
    blocks = a.shape[1]
    if blocks > 1:
        counting = np.sqrt((a_us * of_a.units + b_us * of_b.units).sum(axis=1)) / blocks
        found = mean_estimates(
            b_us - a_us,
            least_errors=counting,
            further=_of_cpu(
                of_a.in_measured(a_us.mean(axis=1)), of_b.in_measured(b_us.mean(axis=1))
            ),
        )
    else:
        counted = count_differences(
            a[:, 0], b[:, 0], a_unit=float(of_a.units[0]), b_unit=float(of_b.units[0])
        )
        found = tuple(
            MeanEstimate(float(d), float(low), float(high), 1, CONFIDENCE, None)
            for d, low, high in zip(counted.difference, counted.low, counted.high, strict=True)
        )
    return Compared(a_us.mean(axis=1), b_us.mean(axis=1), found)


def _of_cpu(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> tuple[OwnError, ...]:
    """Return the error of k differences that is due to the CPU time."""
    if a is None or b is None or a.shape[1] < 2:
        return ()
    blocks = a.shape[1]
    return (OwnError((b - a).std(axis=1, ddof=1) / math.sqrt(blocks), blocks - 1),)


def marks(differences: Sequence[MeanEstimate], seen: Sequence[int]) -> tuple[HolmMark, ...]:
    """Return Holm's marks of the rows with enough samples, whichever side has more of them."""
    asked = [
        each.p_value if samples >= FEWEST_SAMPLES else None
        for each, samples in zip(differences, seen, strict=True)
    ]
    return holm_marks(asked, ALPHA)
