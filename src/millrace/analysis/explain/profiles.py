"""Compute profiles as cost: what each function takes of an operation, and where servers differ.

A profiled trial's samples say how CPU time divides, and the trials that were measured without a
profiler how much of it an operation took (without such, the profiled ones); their product is a
function's cost in µs per operation. All functions add up to the CPU time of the time breakdown; a
profile of user code alone divides the time in user code. *Self* is a function's own time,
*inclusive* that of all it calls too, each sample once however often the function is in its stack.

Differences are paired by block, and the error of the CPU time is added to that of the shares. Where
a single block was profiled, the interval is Poisson's, of the samples alone. A function is
identified by its name, and by whether it is the kernel's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from millrace.analysis.explain import function_groups
from millrace.analysis.explain.call_tree import (
    UNKNOWN,
    CallNode,
    Compared,
    CountedPaths,
    Key,
    Path,
    PathDifference,
    Profiled,
    ProfiledSide,
    call_tree,
    compared,
    cpu_by_block,
    key_of,
    marks,
    of_treatment,
    profiled,
    table,
)
from millrace.analysis.explain.observations import FOREGROUND, ObservedTrial
from millrace.analysis.explain.time_breakdown import ALPHA
from millrace.stats.mean import MeanEstimate, mean_estimate
from millrace.stats.multiple_tests import holm_marks

SPINNING = "spinning"

_LEAST_SHARE = 0.1  # of a difference in CPU time, for a function to be named
_MOST_OF_IT = 0.5
_MOST_LEADING = 3
_ENTRY = 0.9  # of all CPU time is in functions in which threads begin
# Times half a 95 % interval by samples: 3.5 errors. A profile has some hundred functions, and the
# largest difference of these by chance is 3 errors.
_BEYOND_CHANCE = 3.5 / 1.96

By = Literal["blocks", "samples"]


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

    ``runs`` says how often these did what they measure: short loads are repeated.

    ``cpu_us`` is the server's CPU time of an operation, a mean over the trials that were measured
    (``user_only``: in user code, the kernel was not sampled); ``lost`` samples could not be kept.
    """

    trials: int
    runs: int
    event: str
    call_graph: str
    user_only: bool
    samples: int
    lost: int
    cpu_us: float
    lines: tuple[FlatLine, ...]


@dataclass(frozen=True)
class FunctionDifference:
    """A function's cost in A and B, and B - A, in µs per operation.

    ``adjusted_p`` is Holm's over the functions with enough samples for a test, None for others;
    ``significant`` ones differ after that correction. ``shifted`` says where the code is on the
    other side, which makes the difference no gain and no loss.
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
class LeadingFunction:
    """A function that makes much of a difference in CPU time: ``us`` per operation, and its share.

    ``low`` and ``high`` are the 95 % limits of ``us``. It is the function's own time, or
    ``with_callees`` that of all it calls too.
    """

    name: str
    us: float
    low: float
    high: float
    share: float
    with_callees: bool = False


@dataclass(frozen=True)
class ProfileComparison:
    """Two treatments' profiles over the ``blocks`` that both have.

    ``by`` says what the intervals are of. ``cpu`` is the server's CPU time of an operation, B - A,
    in the trials that were measured (``user_only``: in user code). Functions, groups and ``paths``
    are ordered by how much they differ; ``paths`` are the first ``call_tree.MOST_PATHS``.
    """

    blocks: tuple[int, ...]
    by: By
    user_only: bool
    a_cpu_us: float
    b_cpu_us: float
    cpu: MeanEstimate
    functions: tuple[FunctionDifference, ...]
    groups: tuple[GroupDifference, ...]
    tree: CallNode
    paths: tuple[PathDifference, ...] = ()

    def group(self, name: str) -> GroupDifference | None:
        """Return the group with that name; None where neither side had a sample in it."""
        return next((group for group in self.groups if group.name == name), None)

    @cached_property
    def leading(self) -> tuple[LeadingFunction, ...]:
        """The functions that make most of the difference in CPU time, the largest first.

        Each makes a tenth or more of it, by more than its samples may by chance. Where their own
        times make less than half of it together, the innermost function follows that makes half of
        it with all that it calls. Empty where CPU time does not differ.
        """
        if not self.cpu.mean or not self.cpu.excludes_0:
            return ()
        own = [
            found
            for each in self.functions
            if each.shifted is None and (found := self._leading(each.name, each.difference))
        ]
        named = sorted(own, key=lambda each: -each.share)[:_MOST_LEADING]
        if sum(each.share for each in named) >= _MOST_OF_IT:
            return tuple(named)
        depths = dict(_depths(self.tree))
        most = [
            (max(each.a_inclusive_us, each.b_inclusive_us), -depths.get(each.name, 0), found)
            for each in self.functions
            if each.shifted is None
            and max(each.a_inclusive_us, each.b_inclusive_us) < _ENTRY * self._larger_cpu_us
            and (found := self._leading(each.name, each.inclusive)) is not None
            and found.share >= _MOST_OF_IT
        ]
        if not most:
            return tuple(named)
        *_, inner = min(most, key=lambda each: each[:2])
        return (*named, replace(inner, with_callees=True))

    @property
    def _larger_cpu_us(self) -> float:
        return max(self.a_cpu_us, self.b_cpu_us)

    def _leading(self, name: str, difference: MeanEstimate) -> LeadingFunction | None:
        """Return the function with its share of the difference in CPU time, if it leads."""
        if difference.low is None or difference.high is None:
            return None
        share = difference.mean / self.cpu.mean
        half_us = (difference.high - difference.low) / 2
        least_us = half_us * (_BEYOND_CHANCE if self.by == "samples" else 1.0)
        if share < _LEAST_SHARE or abs(difference.mean) <= least_us:
            return None
        return LeadingFunction(name, difference.mean, difference.low, difference.high, share)


def _depths(tree: CallNode) -> Iterator[tuple[str, int]]:
    """Yield the functions of a call tree with the number of their callers, the outermost first."""
    level, depth = [tree], 0
    while level:
        yield from ((node.name, depth) for node in level)
        level, depth = [callee for node in level for callee in node.children], depth + 1


def flat_profile(
    trials: Sequence[ObservedTrial], measured: Sequence[ObservedTrial] = ()
) -> FlatProfile | None:
    """Return the functions of profiled ``trials``, with the CPU time of ``measured`` ones."""
    found = of_treatment(trials, measured)
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
        runs=sum(each.profile.runs for each in found),
        event=found[0].profile.event,
        call_graph=found[0].profile.call_graph,
        user_only=found[0].user_only,
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
    measured: tuple[Sequence[ObservedTrial], Sequence[ObservedTrial]] = ((), ()),
) -> ProfileComparison | None:
    """Compare the CPU profiles of two treatments, with the CPU time of the ``measured`` trials.

    None where no block has both, or where only one profile includes the kernel.
    """
    of_a, of_b = (
        {trial.block: each for trial in trials if (each := profiled(trial)) is not None}
        for trials in (a, b)
    )
    blocks = sorted(of_a.keys() & of_b.keys())
    kinds = {side[block].user_only for side in (of_a, of_b) for block in blocks}
    if len(kinds) != 1:
        return None
    (user_only,) = kinds
    cpus = [cpu_by_block(trials, user_only=user_only) for trials in measured]
    measured_blocks = sorted(cpus[0].keys() & cpus[1].keys())
    if not measured_blocks:  # the CPU time is that of the profiled trials
        cpus = [{block: side[block].cpu_us for block in blocks} for side in (of_a, of_b)]
    a_us, b_us = ([cpu[block] for block in measured_blocks or blocks] for cpu in cpus)
    sides = tuple(
        ProfiledSide(
            [
                side[block].at(float(np.mean(us))) if measured_blocks else side[block]
                for block in blocks
            ],
            np.asarray(us) if measured_blocks else None,
        )
        for side, us in ((of_a, a_us), (of_b, b_us))
    )
    functions = _Functions(sides[0], sides[1])
    return ProfileComparison(
        blocks=tuple(blocks),
        by="blocks" if len(blocks) > 1 else "samples",
        user_only=user_only,
        a_cpu_us=float(np.mean(a_us)),
        b_cpu_us=float(np.mean(b_us)),
        cpu=mean_estimate([other - one for one, other in zip(a_us, b_us, strict=True)]),
        functions=functions.differences(),
        groups=functions.groups(),
        tree=call_tree(sides[0].paths(), sides[1].paths()),
        paths=_path_differences(sides[0], sides[1]),
    )


def spinning_us(
    trials: Sequence[ObservedTrial], measured: Sequence[ObservedTrial] = ()
) -> float | None:
    """Return foreground CPU time of an operation in loops that wait for a lock, if profiled."""
    found = of_treatment(trials, measured)
    if not found:
        return None
    spun = [
        each.unit_us * count
        for each in found
        for path, count in each.stacks
        if path[0][1] in FOREGROUND and function_groups.group_of(path[1:]).name == SPINNING
    ]
    return sum(spun) / len(found)


class _Functions:
    """The functions of two sides, numbered, with their samples in each block."""

    def __init__(self, a: ProfiledSide, b: ProfiledSide) -> None:
        self.a, self.b = a, b
        self.modules: dict[Key, str] = {}
        self._groups: dict[Path, function_groups.FunctionGroup] = {}
        self._own = [[self._counts(t, own=True) for t in side.trials] for side in (a, b)]
        self._all = [[self._counts(t, own=False) for t in side.trials] for side in (a, b)]
        self.keys = sorted({key for side in self._all for counts in side for key in counts})

    def _counts(self, trial: Profiled, *, own: bool) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for path, count in trial.stacks:
            for frame in path[1:]:
                self.modules.setdefault(key_of(frame), frame[0])
            frames = path[-1:] if own and len(path) > 1 else path[1:]
            for key in {key_of(frame) for frame in frames}:
                found[key] += count
        return found

    def differences(self) -> tuple[FunctionDifference, ...]:
        own, everything = self._compared(self._own), self._compared(self._all)
        shifted = function_groups.shifts(
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
        of_each = marks([each.difference for each in found], seen)
        marked = [
            replace(each, adjusted_p=mark.adjusted_p, significant=mark.significant)
            for each, mark in zip(found, of_each, strict=True)
        ]
        return tuple(sorted(marked, key=lambda each: -abs(each.difference.mean)))

    def groups(self) -> tuple[GroupDifference, ...]:
        """Return the groups that have any sample, by how much they differ."""
        sides = [[self._grouped(trial) for trial in side.trials] for side in (self.a, self.b)]
        known = [
            group
            for group in function_groups.groups()
            if any(counts[group.name] for side in sides for counts in side)
        ]
        names = [group.name for group in known]
        costs = compared(table(sides[0], names), table(sides[1], names), self.a, self.b)
        foreground = [self._foreground(side) for side in (self.a, self.b)]
        of_each = holm_marks([each.p_value for each in costs.differences], ALPHA)
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
                adjusted_p=of_each[number].adjusted_p,
                significant=of_each[number].significant,
            )
            for number, group in enumerate(known)
        ]
        return tuple(sorted(found, key=lambda each: -abs(each.difference.mean)))

    def _grouped(self, trial: Profiled) -> Counter[str]:
        found: Counter[str] = Counter()
        for path, count in trial.stacks:
            found[self._group(path[1:]).name] += count
        return found

    def _foreground(self, side: ProfiledSide) -> dict[str, float]:
        found: defaultdict[str, float] = defaultdict(float)
        for path, us in side.paths().items():
            if path[0][1] in FOREGROUND:
                found[self._group(path[1:]).name] += us
        return found

    def _group(self, path: Path) -> function_groups.FunctionGroup:
        if path not in self._groups:
            self._groups[path] = function_groups.group_of(path)
        return self._groups[path]

    def _main_groups(self) -> dict[Key, str]:
        """Return the group in which most of a function's own samples are, or its own by name."""
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

    def _compared(self, counts: Sequence[Sequence[Counter[Key]]]) -> Compared:
        tables = [table(side, self.keys) for side in counts]
        return compared(tables[0], tables[1], self.a, self.b)


def _path_differences(a: ProfiledSide, b: ProfiledSide) -> tuple[PathDifference, ...]:
    counted = CountedPaths(*([trial.stacks for trial in side.trials] for side in (a, b)))
    costs = compared(table(counted.a, counted.keys), table(counted.b, counted.keys), a, b)
    marked = marks(costs.differences, counted.samples())
    return counted.differing(costs.a_us, costs.b_us, costs.differences, marked)
