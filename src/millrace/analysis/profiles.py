"""Profiles as cost: what each function takes of an operation, and where two servers differ.

A trial's samples say how its CPU time divides, and its own clock how much of it an operation took;
their product is a function's cost in µs per operation. So a server that asks for twice the CPU time
shows it, where shares of a profile would look alike. *Self* is a function's own time, *inclusive*
that of all it calls too, each sample once however often the function is in its stack.

Differences are paired by block, as those of the account; where a single block was profiled, the
interval is Poisson's, of the samples alone, which knows nothing of what differs from trial to
trial. Functions are told apart by their names, those of the kernel from those of programs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from millrace.analysis import function_groups, renames
from millrace.analysis.account import ALPHA
from millrace.analysis.call_paths import CountedPaths, PathDifference
from millrace.analysis.call_tree import (
    UNKNOWN,
    CallNode,
    Key,
    Path,
    call_tree,
    key_of,
    path_of,
)
from millrace.analysis.efficiency import server_cpu_s
from millrace.analysis.observed import FOREGROUND, ObservedTrial, Profile
from millrace.stats import MeanEstimate, count_differences, holm, mean_estimate, mean_estimates

SPINNING = "spinning"
FEWEST_SAMPLES = 10  # of a function on both sides together, to ask whether it differs

By = Literal["blocks", "samples"]
T = TypeVar("T")


@dataclass(frozen=True)
class FlatLine:
    """A function's own samples, as profilers print them, and their cost in µs per operation."""

    samples: int
    percent: float
    library: str
    symbol: str
    us: float


@dataclass(frozen=True)
class FlatProfile:
    """All samples of a treatment's profiled trials, the largest function first.

    ``cpu_us`` is the server's CPU time of an operation, a mean over the trials; ``lost`` samples
    could not be kept.
    """

    trials: int
    event: str
    call_graph: str
    samples: int
    lost: int
    cpu_us: float
    lines: tuple[FlatLine, ...]


@dataclass(frozen=True)
class FunctionDifference:
    """A function's cost in A and B, and B - A, in µs per operation.

    ``adjusted_p`` is Holm's over the functions that were seen often enough to ask, None for others;
    ``significant`` ones differ although so many were looked at. ``shifted`` says where the code is
    on the other side, which makes the difference no gain and no loss.
    """

    name: str
    module: str
    kernel: bool
    group: str
    a_us: float
    b_us: float
    difference: MeanEstimate
    a_inclusive_us: float
    b_inclusive_us: float
    inclusive: MeanEstimate
    adjusted_p: float | None = None
    significant: bool = False
    shifted: str | None = None


@dataclass(frozen=True)
class GroupDifference:
    """Functions that serve one purpose: the sum of their own costs, in µs per operation.

    They are of all threads; ``a_foreground_us`` and ``b_foreground_us`` of those that serve
    clients.
    """

    name: str
    title: str
    kernel: bool
    a_us: float
    b_us: float
    a_foreground_us: float
    b_foreground_us: float
    difference: MeanEstimate
    adjusted_p: float | None = None
    significant: bool = False


@dataclass(frozen=True)
class ProfileComparison:
    """Two treatments' profiles over the ``blocks`` that both have.

    ``by`` says what the intervals are of. ``cpu`` is the server's CPU time of an operation, B - A.
    Functions and groups are ordered by how much they differ, as are ``paths``, of which there are
    the first so many.
    """

    blocks: tuple[int, ...]
    by: By
    a_cpu_us: float
    b_cpu_us: float
    cpu: MeanEstimate
    functions: tuple[FunctionDifference, ...]
    groups: tuple[GroupDifference, ...]
    tree: CallNode
    paths: tuple[PathDifference, ...] = ()

    def group(self, name: str) -> GroupDifference | None:
        """The group of that name; None where neither side had a sample in it."""
        return next((group for group in self.groups if group.name == name), None)


def flat_profile(trials: Sequence[ObservedTrial]) -> FlatProfile | None:
    """The functions of all profiled trials of a treatment; None where no trial has a profile."""
    found = [each for trial in trials if (each := _profiled(trial)) is not None]
    if not found:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    costs: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each in found:
        for frames, count in each.stacks:
            module, symbol = frames[-1] if len(frames) > 1 else (UNKNOWN, UNKNOWN)
            counts[module, symbol] += count
            costs[module, symbol] += count * each.unit_us / len(found)
    samples = counts.total()
    return FlatProfile(
        trials=len(found),
        event=found[0].profile.event,
        call_graph=found[0].profile.call_graph,
        samples=samples,
        lost=sum(each.profile.lost for each in found),
        cpu_us=sum(each.cpu_us for each in found) / len(found),
        lines=tuple(
            FlatLine(count, 100 * count / samples, module, symbol, costs[module, symbol])
            for (module, symbol), count in counts.most_common()
        ),
    )


def compare_profiles(
    a: Sequence[ObservedTrial],
    b: Sequence[ObservedTrial],
    *,
    confidence: float = 0.95,
    alpha: float = ALPHA,
) -> ProfileComparison | None:
    """What the profiled trials of two treatments differ in; None where no block has both."""
    of_a, of_b = (
        {t.block: each for t in trials if (each := _profiled(t)) is not None} for trials in (a, b)
    )
    blocks = sorted(of_a.keys() & of_b.keys())
    if not blocks:
        return None
    sides = (
        _Side([of_a[block] for block in blocks], confidence),
        _Side([of_b[block] for block in blocks], confidence),
    )
    functions = _Functions(*sides)
    cpu = [of_b[block].cpu_us - of_a[block].cpu_us for block in blocks]
    return ProfileComparison(
        blocks=tuple(blocks),
        by="blocks" if len(blocks) > 1 else "samples",
        a_cpu_us=float(np.mean([of_a[block].cpu_us for block in blocks])),
        b_cpu_us=float(np.mean([of_b[block].cpu_us for block in blocks])),
        cpu=mean_estimate(cpu, confidence=confidence),
        functions=functions.differences(alpha),
        groups=functions.groups(alpha),
        tree=call_tree(sides[0].paths(), sides[1].paths()),
        paths=_path_differences(sides[0], sides[1], alpha),
    )


def spinning_us(trials: Sequence[ObservedTrial]) -> float | None:
    """CPU time of an operation that threads which serve clients spent in loops that wait for a
    lock; None without a profile."""
    found = [each for trial in trials if (each := _profiled(trial)) is not None]
    if not found:
        return None
    spun = [
        each.unit_us * count
        for each in found
        for path, count in each.stacks
        if path[0][1] in FOREGROUND and function_groups.group_of(path[1:]).name == SPINNING
    ]
    return sum(spun) / len(found)


@dataclass(frozen=True)
class _Profiled:
    """One trial's stacks, and what a sample stands for in µs per operation."""

    profile: Profile
    cpu_us: float

    @property
    def unit_us(self) -> float:
        return self.cpu_us / self.profile.samples

    @cached_property
    def stacks(self) -> list[tuple[Path, int]]:
        return [(path_of(stack), count) for stack, count in self.profile.stacks.items()]


def _profiled(trial: ObservedTrial) -> _Profiled | None:
    profile, cpu_s = trial.observed.profile, server_cpu_s(trial)
    if profile is None or cpu_s is None:
        return None
    return _Profiled(profile, trial.observed.us(cpu_s))


@dataclass(frozen=True)
class _Side:
    """One treatment's profiled trials, one a block."""

    trials: Sequence[_Profiled]
    confidence: float

    @property
    def units(self) -> NDArray[np.float64]:
        return np.asarray([trial.unit_us for trial in self.trials])

    def paths(self) -> dict[Path, float]:
        """Means over the blocks, µs per operation."""
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


@dataclass(frozen=True)
class _Compared:
    """Costs of k things on both sides: µs per operation, shape (k,), and B - A of each."""

    a_us: NDArray[np.float64]
    b_us: NDArray[np.float64]
    differences: tuple[MeanEstimate, ...]


@dataclass
class _Functions:
    """The functions of two sides, numbered, with their samples in each block."""

    a: _Side
    b: _Side
    keys: list[Key] = field(init=False)
    modules: dict[Key, str] = field(init=False, default_factory=dict)
    _groups: dict[Path, function_groups.Group] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._own = [[self._counts(t, own=True) for t in side.trials] for side in (self.a, self.b)]
        self._all = [[self._counts(t, own=False) for t in side.trials] for side in (self.a, self.b)]
        self.keys = sorted({key for side in self._all for counts in side for key in counts})

    def _counts(self, trial: _Profiled, *, own: bool) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for path, count in trial.stacks:
            for frame in path[1:]:
                self.modules.setdefault(key_of(frame), frame[0])
            frames = path[-1:] if own and len(path) > 1 else path[1:]
            for key in {key_of(frame) for frame in frames}:
                found[key] += count
        return found

    def differences(self, alpha: float) -> tuple[FunctionDifference, ...]:
        own, everything = self._compared(self._own), self._compared(self._all)
        shifted = renames.shifts(
            self.a.keyed(),
            self.b.keyed(),
            inclusive=dict(zip(self.keys, everything.differences, strict=True)),
            units=(float(self.a.units.mean()), float(self.b.units.mean())),
            own=dict(zip(self.keys, own.differences, strict=True)),
        )
        groups = self._main_groups()
        found = [
            FunctionDifference(
                name=key[1],
                module=self.modules[key],
                kernel=key[0],
                group=groups[key],
                a_us=float(own.a_us[number]),
                b_us=float(own.b_us[number]),
                difference=own.differences[number],
                a_inclusive_us=float(everything.a_us[number]),
                b_inclusive_us=float(everything.b_us[number]),
                inclusive=everything.differences[number],
                shifted=shifted.get(key),
            )
            for number, key in enumerate(self.keys)
        ]
        seen = [sum(counts[key] for side in self._own for counts in side) for key in self.keys]
        p_values = _adjusted([each.difference for each in found], seen)
        marked = [
            replace(each, adjusted_p=p, significant=p is not None and p <= alpha)
            for each, p in zip(found, p_values, strict=True)
        ]
        return tuple(sorted(marked, key=lambda each: -abs(each.difference.mean)))

    def groups(self, alpha: float) -> tuple[GroupDifference, ...]:
        """The groups that have any sample, by how much they differ."""
        sides = [[self._grouped(trial) for trial in side.trials] for side in (self.a, self.b)]
        known = [
            group
            for group in function_groups.groups()
            if any(counts[group.name] for side in sides for counts in side)
        ]
        names = [group.name for group in known]
        costs = _compared(_table(sides[0], names), _table(sides[1], names), self.a, self.b)
        foreground = [self._foreground(side) for side in (self.a, self.b)]
        p_values = _adjusted(costs.differences, [FEWEST_SAMPLES] * len(known))
        found = [
            GroupDifference(
                name=group.name,
                title=group.title,
                kernel=group.kernel,
                a_us=float(costs.a_us[number]),
                b_us=float(costs.b_us[number]),
                a_foreground_us=foreground[0].get(group.name, 0.0),
                b_foreground_us=foreground[1].get(group.name, 0.0),
                difference=costs.differences[number],
                adjusted_p=p_values[number],
                significant=(p := p_values[number]) is not None and p <= alpha,
            )
            for number, group in enumerate(known)
        ]
        return tuple(sorted(found, key=lambda each: -abs(each.difference.mean)))

    def _grouped(self, trial: _Profiled) -> Counter[str]:
        found: Counter[str] = Counter()
        for path, count in trial.stacks:
            found[self._group(path[1:]).name] += count
        return found

    def _foreground(self, side: _Side) -> dict[str, float]:
        """What each group takes of the threads that serve clients."""
        found: defaultdict[str, float] = defaultdict(float)
        for path, us in side.paths().items():
            if path[0][1] in FOREGROUND:
                found[self._group(path[1:]).name] += us
        return found

    def _group(self, path: Path) -> function_groups.Group:
        if path not in self._groups:
            self._groups[path] = function_groups.group_of(path)
        return self._groups[path]

    def _main_groups(self) -> dict[Key, str]:
        """The group in which most of a function's own samples are, or its own by name."""
        found: dict[Key, Counter[str]] = {}
        for trial in (*self.a.trials, *self.b.trials):
            for path, count in trial.stacks:
                if len(path) > 1:
                    own = found.setdefault(key_of(path[-1]), Counter())
                    own[self._group(path[1:]).name] += count
        return {
            key: found[key].most_common(1)[0][0]
            if key in found
            else self._group(((self.modules[key], key[1]),)).name
            for key in self.keys
        }

    def _compared(self, counts: Sequence[Sequence[Counter[Key]]]) -> _Compared:
        tables = [_table(side, self.keys) for side in counts]
        return _compared(tables[0], tables[1], self.a, self.b)


def _path_differences(a: _Side, b: _Side, alpha: float) -> tuple[PathDifference, ...]:
    """The call paths that differ most."""
    counted = CountedPaths(*([trial.stacks for trial in side.trials] for side in (a, b)))
    costs = _compared(_table(counted.a, counted.keys), _table(counted.b, counted.keys), a, b)
    p_values = _adjusted(costs.differences, counted.samples())
    return counted.differing(costs.a_us, costs.b_us, costs.differences, p_values, alpha)


def _table(counts: Sequence[Counter[T]], keys: Sequence[T]) -> NDArray[np.float64]:
    """Samples of each key in each block, shape (keys, blocks)."""
    table = [[each[key] for each in counts] for key in keys]
    return np.asarray(table, dtype=np.float64).reshape(len(keys), len(counts))


def _compared(
    a: NDArray[np.float64], b: NDArray[np.float64], of_a: _Side, of_b: _Side
) -> _Compared:
    """Samples of k things in the blocks of both sides, shape (k, blocks), as costs."""
    a_us, b_us = a * of_a.units, b * of_b.units
    blocks = a.shape[1]
    if blocks > 1:
        counting = np.sqrt((a_us * of_a.units + b_us * of_b.units).sum(axis=1)) / blocks
        found = mean_estimates(b_us - a_us, confidence=of_a.confidence, least_errors=counting)
    else:
        told = count_differences(
            a[:, 0],
            b[:, 0],
            a_unit=float(of_a.units[0]),
            b_unit=float(of_b.units[0]),
            confidence=of_a.confidence,
        )
        found = tuple(
            MeanEstimate(float(d), float(low), float(high), 1, of_a.confidence, None)
            for d, low, high in zip(told.difference, told.low, told.high, strict=True)
        )
    return _Compared(a_us.mean(axis=1), b_us.mean(axis=1), found)


def _adjusted(differences: Sequence[MeanEstimate], seen: Sequence[int]) -> list[float | None]:
    """Holm's p-values of those that were seen often enough, which says nothing about which side
    has more."""
    asked = {
        number: each.p_value
        for number, each in enumerate(differences)
        if each.p_value is not None and seen[number] >= FEWEST_SAMPLES
    }
    adjusted = dict(zip(asked, holm(list(asked.values())), strict=True))
    return [adjusted.get(number) for number in range(len(differences))]
