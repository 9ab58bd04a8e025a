"""Compare treatments by the instructions of a statement, from the starts of their servers.

A start counts by the median of its repetitions, each without what its statements take more than
others in all starts. The server does not cause the remaining differences between repetitions: a
start whose repetitions differ is left out, as is one that failed. Where that is half of them, or
where each repetition takes more than the one before, as where tables grow, the count is refused.

Versions rename functions and put others between the same two, so that flat lists of names differ
in hundreds of places. Functions are compared as in the flame graphs: below the callers that both
sides have. A function that only one side has differs by its own instructions, and by those of
callees that are not called there on the other side; where another function in its caller, or the
caller itself, makes up for that, it was only renamed or inlined. A function whose difference is
that of one of its callees is not listed: the callee says more.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from millrace.analysis.counts import model
from millrace.levels import CLIENTS, Level, level_text, without_clients
from millrace.model.instruction_counts import (
    UNKNOWN,
    CallPath,
    CountedStart,
    Program,
    TreatmentStarts,
)
from millrace.stats.ratio import RatioEstimate, unpaired_ratio
from millrace.store.records import RunRecord, StoredAttempt, StoredRun, TreatmentRecord

RUN_PREFIX = "count-"
"""The beginning of the name of a run that counts and measures nothing else."""


@dataclass(frozen=True)
class CountedRun:
    """A run that counts and measures nothing else; ``starts`` are those of each server."""

    run: RunRecord
    starts: int
    groups: tuple[model.CountGroup, ...]

    @property
    def experiment(self) -> str:
        return self.run.name.removeprefix(RUN_PREFIX)


def counted_run(stored: StoredRun, base: Level | None = None) -> CountedRun:
    """Compare all treatments of a run that counts with ``base``, by default the run's own.

    ``stored`` has its observations.
    """
    compare = stored.run.spec.compare
    ended = _ended(stored)
    in_order = sorted(stored.treatments, key=lambda each: each.position)
    found = [_starts(ended, each) for each in in_order]
    return CountedRun(
        run=stored.run,
        starts=len({trial.block for trial in stored.trials if trial.purpose == "count"}),
        groups=compare_counts(found, compare.factor, compare.base if base is None else base),
    )


def compare_stored(
    stored: StoredRun, factor: str, base: TreatmentRecord, candidate: TreatmentRecord
) -> model.CountComparison | None:
    """Return the comparison of two treatments' counts; None where neither was counted.

    ``stored`` has its observations.
    """
    ended = _ended(stored)
    a, b = (_starts(ended, each) for each in (base, candidate))
    if factor == CLIENTS or not any((a.starts, a.failure, b.starts, b.failure)):
        return None
    return comparison(treatment_count(a, factor), treatment_count(b, factor))


_Levels = frozenset[tuple[str, Level]]


def _key(treatment: TreatmentRecord) -> _Levels:
    """Return the levels of all factors but the clients, who share a count."""
    return frozenset(without_clients(treatment.levels).items())


def _ended(stored: StoredRun) -> dict[_Levels, list[StoredAttempt]]:
    """Return the last attempts of counted trials that ended, by the levels of their treatments."""
    keys = {each.id: _key(each) for each in stored.treatments}
    last = stored.last_attempts()
    found: dict[_Levels, list[StoredAttempt]] = {}
    for trial in stored.trials:
        if trial.purpose == "count" and trial.id in last:
            found.setdefault(keys[trial.treatment_id], []).append(last[trial.id])
    return found


def _starts(
    ended: Mapping[_Levels, Sequence[StoredAttempt]], treatment: TreatmentRecord
) -> TreatmentStarts:
    """Return the counted starts of a treatment, or of one with other clients."""
    of_treatment = ended.get(_key(treatment), ())
    counts = [each.observations.instructions for each in of_treatment]
    found = [each for each in counts if each is not None]
    programs: list[Program | None] = [each.program for each in found]
    failed = [each for each in of_treatment if each.outcome == "failed"]
    return TreatmentStarts(
        levels=without_clients(treatment.levels),
        starts=tuple(each.start() for each in found),
        program=programs[-1] if programs else None,
        failure=_reason(failed[0]) if failed else None,
        failed=len(failed),
    )


def _reason(attempt: StoredAttempt) -> str:
    return attempt.reason or f"a start failed at step {attempt.failed_step}"


UNEQUAL, UNEQUAL_ALONE = 0.005, 0.02
"""The largest range of a start's repetitions, as a fraction of their median.

The second is for a single start, which does not show how much of it is due to the statements.
"""

_COMPILER = re.compile(r"(?i)\b(gcc|clang|icc)\b\D*(\d+(?:\.\d+)+)")
_FLAT = 0.0005  # of a step from repetition to repetition, which is none
_FEWEST_STEPS = 2  # from repetition to repetition, that show a trend
_FEWEST_BESIDE_FAILED = 3  # starts that count
_FEWEST_WHOLE = 2  # starts with all repetitions, that show how these differ

Effects = Mapping[int, float]
"""The difference of a repetition's number from the others, as a logarithm."""


def compare_counts(
    treatments: Sequence[TreatmentStarts], factor: str, base: Level
) -> tuple[model.CountGroup, ...]:
    """Return the comparisons with the level ``base`` of ``factor``, by the fixed levels."""
    groups: defaultdict[tuple[tuple[str, Level], ...], list[TreatmentStarts]] = defaultdict(list)
    for each in treatments:
        fixed = tuple((name, level) for name, level in each.levels.items() if name != factor)
        groups[fixed].append(each)
    varied = _varied(treatments)
    return tuple(_group(fixed, members, factor, base, varied) for fixed, members in groups.items())


def _varied(treatments: Sequence[TreatmentStarts]) -> set[str]:
    levels: defaultdict[str, set[Level]] = defaultdict(set)
    for each in treatments:
        for name, level in each.levels.items():
            levels[name].add(level)
    return {name for name, found in levels.items() if len(found) > 1}


def _group(
    fixed: Sequence[tuple[str, Level]],
    members: Sequence[TreatmentStarts],
    factor: str,
    base: Level,
    varied: set[str],
) -> model.CountGroup:
    counts = {each.levels[factor]: treatment_count(each, factor) for each in members}
    first = counts.get(base)
    others = [count for level, count in counts.items() if level != base]
    shown = [level_text(name, level) for name, level in fixed if name in varied]
    return model.CountGroup(
        label=" · ".join(shown),
        counts=tuple(counts.values()),
        comparisons=() if first is None else tuple(comparison(first, each) for each in others),
    )


def treatment_count(treatment: TreatmentStarts, factor: str) -> model.TreatmentCount:
    """Return the count of a treatment, or why it has none."""
    effects = _effects(treatment.starts)
    limit = UNEQUAL if effects else UNEQUAL_ALONE
    equal = [each for each in treatment.starts if _range(each, effects) <= limit]
    failure = treatment.failure if len(equal) < _FEWEST_BESIDE_FAILED else None
    refusal = failure or _refusal(treatment.starts, equal, effects)
    files: dict[str, str] = {}
    for start in equal:
        files.update(start.files)
    return model.TreatmentCount(
        levels=treatment.levels,
        label=level_text(factor, treatment.levels[factor]),
        values=tuple(_value(each, effects) for each in equal),
        left_out=len(treatment.starts) - len(equal) + treatment.failed,
        background=_background(equal),
        transactions=next((each.transactions for each in treatment.starts), None),
        program=treatment.program,
        refusal=refusal,
        paths=_mean_paths(equal),
        files=files,
    )


def _refusal(
    starts: Sequence[CountedStart], equal: Sequence[CountedStart], effects: Effects
) -> str | None:
    if not starts:
        return "no start of the server was counted"
    if any(each.instructions <= 0 for start in starts for each in start.repetitions):
        return "the longer sessions took no more instructions than the shorter ones"
    if 2 * len(equal) <= len(starts):
        worst = statistics.median(_range(each, effects) for each in starts)
        return (
            f"repetitions of the same statements differ by {100 * worst:.1f} %, "
            f"more than {100 * (UNEQUAL if effects else UNEQUAL_ALONE):g} %{_mostly(starts)}"
        )
    in_order = [effects[number] for number in sorted(effects)]
    steps = [after - before for before, after in itertools.pairwise(in_order)]
    one_way = all(step > -_FLAT for step in steps) or all(step < _FLAT for step in steps)
    moved = sum(steps)
    if one_way and len(steps) >= _FEWEST_STEPS and abs(moved) > UNEQUAL:
        way = "more" if moved > 0 else "fewer"
        return (
            f"each repetition executes {way} instructions than the one before, "
            f"{100 * abs(moved):.1f} % from the first to the last"
        )
    return None


def _mostly(starts: Sequence[CountedStart]) -> str:
    """Return a clause with the function in which the most different starts differ most, if any."""
    counted = sorted(starts, key=lambda each: _value(each, {}))
    found = function_differences(counted[0].paths, counted[-1].paths, {})
    return f"; two starts differ most in {found[0].name}" if found else ""


def _effects(starts: Sequence[CountedStart]) -> Effects:
    """Return how much a repetition differs in all starts, as its statements differ from others'.

    They are logarithms, whose mean is 0. A single start does not show which part is its own.
    """
    numbers = {each.number for start in starts for each in start.repetitions}
    whole = [each for each in starts if len(each.repetitions) == len(numbers)]
    are_positive = all(each.instructions > 0 for start in whole for each in start.repetitions)
    if len(whole) < _FEWEST_WHOLE or not are_positive:
        return {}
    logs = [
        {each.number: math.log(each.instructions) for each in start.repetitions} for start in whole
    ]
    means = [statistics.fmean(each.values()) for each in logs]
    found = {
        number: statistics.median(
            each[number] - mean for each, mean in zip(logs, means, strict=True)
        )
        for number in numbers
    }
    centre = statistics.fmean(found.values())
    return {number: effect - centre for number, effect in found.items()}


def _without_effects(start: CountedStart, effects: Effects) -> list[float]:
    return [
        each.instructions * math.exp(-effects.get(each.number, 0.0)) for each in start.repetitions
    ]


def _value(start: CountedStart, effects: Effects) -> float:
    return statistics.median(_without_effects(start, effects))


def _range(start: CountedStart, effects: Effects) -> float:
    """Return the range of a start's repetitions as a fraction of their median."""
    counted = _without_effects(start, effects)
    return (max(counted) - min(counted)) / max(statistics.median(counted), 1.0)


def _background(starts: Sequence[CountedStart]) -> float | None:
    found = [each.background for start in starts for each in start.repetitions]
    return statistics.median(found) if found else None


def _mean_paths(starts: Sequence[CountedStart]) -> dict[CallPath, float]:
    paths: defaultdict[CallPath, float] = defaultdict(float)
    for start in starts:
        for path, instructions in start.paths.items():
            paths[path] += instructions / len(starts)
    return dict(paths)


def comparison(
    base: model.TreatmentCount, candidate: model.TreatmentCount
) -> model.CountComparison:
    """Compare a candidate's count with that of its base."""
    notes = tuple(_notes(base, candidate))
    if base.refusal is not None or candidate.refusal is not None:
        return model.CountComparison(base, candidate, "refused", notes=notes)
    ratio = unpaired_ratio(base.values, candidate.values)
    functions = function_differences(base.paths, candidate.paths, {**base.files, **candidate.files})
    return model.CountComparison(base, candidate, _verdict(ratio), ratio, functions, notes)


def _verdict(ratio: RatioEstimate) -> model.Verdict:
    if ratio.low is None:
        return "single start"
    if not ratio.excludes_1:
        return "no difference shown"
    return "more" if ratio.ratio > 1 else "fewer"


def _notes(base: model.TreatmentCount, candidate: model.TreatmentCount) -> Iterator[str]:
    """Yield what the reader of a comparison must know of the programs."""
    programs = base.program, candidate.program
    if programs[0] is None or programs[1] is None:
        return
    compilers = [_compilers(each.compilers) for each in programs if each is not None]
    if compilers[0] != compilers[1]:
        yield (
            f"{base.label} was compiled by {compilers[0]}, {candidate.label} by {compilers[1]}: "
            "they translate the same source into different instructions, and fewer of them need "
            "not be faster"
        )
    if programs[0].position_independent != programs[1].position_independent:
        pie = base if programs[0].position_independent else candidate
        yield (
            f"only {pie.label} is a position-independent program (PIE), which takes other "
            "instructions to reach its data"
        )


def _compilers(said: Sequence[str]) -> str:
    """Return text such as ``GCC 4.1.2``; a program may hold parts that another compiler made."""
    found = (_COMPILER.search(each) for each in said)
    names = dict.fromkeys(f"{match[1]} {match[2]}" for match in found if match)
    return " and ".join(names) or "an unknown compiler"


_PASSED_ON = 0.8  # of a difference: from then on it is the callee's
_MADE_UP_FOR = 0.5  # of a difference: the rest, if less, does not count as one
_SMALLEST = 0.001  # of a statement
_MOST = 20


def function_differences(
    a: Mapping[CallPath, float], b: Mapping[CallPath, float], files: Mapping[str, str]
) -> tuple[model.FunctionDifference, ...]:
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


def _in_all_places(nodes: Sequence[_Node], file: str | None) -> model.FunctionDifference:
    """Return the sum of a function's differences: one that moved to another caller has none."""
    largest = max(nodes, key=lambda node: abs(node.difference))
    return model.FunctionDifference(
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
