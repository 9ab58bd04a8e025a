"""Group the functions of a profile by their purpose, by the rules in ``function_groups.toml``."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from pydantic import TypeAdapter

from millrace.analysis.explain.call_tree import KERNEL, UNKNOWN, Frame, Key
from millrace.model.documents import EXACT
from millrace.stats.mean import MeanEstimate


@dataclass(frozen=True)
class FunctionGroup:
    """A purpose of ``functions`` (names and patterns), and of the rest of ``libraries``."""

    name: str
    title: str
    functions: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    kernel: bool = False


@lru_cache(maxsize=1)
def groups() -> tuple[FunctionGroup, ...]:
    """Return all groups, in the order of tables."""
    rules = (files("millrace.analysis.explain") / "function_groups.toml").read_text("utf-8")
    return TypeAdapter(tuple[FunctionGroup, ...], config=EXACT).validate_python(
        tomllib.loads(rules)["groups"]
    )


def group_of(path: Sequence[Frame]) -> FunctionGroup:
    """Return the group of a sample, whose innermost function is the last of ``path``."""
    if not path:
        return _named("other")
    in_kernel = path[-1][0] == KERNEL
    for module, symbol in reversed(path):
        if (module == KERNEL) != in_kernel:
            break
        group = own_group(module, symbol)
        if group is not None:
            return group
    return _named("kernel_other" if in_kernel else "other")


@lru_cache(maxsize=65536)
def own_group(module: str, symbol: str) -> FunctionGroup | None:
    """Return the group of a function by its name, else by its library."""
    in_kernel = module == KERNEL
    found = [
        (letters, group)
        for letters, pattern, group in _patterns()
        if group.kernel == in_kernel and pattern.fullmatch(symbol)
    ]
    if found and symbol != UNKNOWN:
        return max(found, key=lambda each: each[0])[1]
    by_library = (group for group in groups() if module in group.libraries)
    return next(by_library, found[0][1] if found else None)


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[int, re.Pattern[str], FunctionGroup], ...]:
    """Return the patterns with the number of their letters; a name as it stands goes before all."""
    return tuple(
        (
            len(written.replace("*", "")) + (1000 if "*" not in written else 0),
            re.compile(".*".join(re.escape(part) for part in written.split("*")), re.DOTALL),
            group,
        )
        for group in groups()
        for written in group.functions
    )


def _named(name: str) -> FunctionGroup:
    return next(group for group in groups() if group.name == name)


Stacks = Sequence[tuple[tuple[Key, ...], float]]
_REACH = 3  # calls between a caller and what it calls, where those between are gone too
_EXPECTED = 5  # samples that would be there had nothing changed: none by chance is 1 in 150
_MOST_OF_IT = 0.6  # of a function's time under one caller
_TAKEN_IN = (0.5, 2.0)  # a caller's own time grows by so much of what was put into it


def shifts(
    a: Stacks,
    b: Stacks,
    *,
    inclusive: Mapping[Key, MeanEstimate],
    own: Mapping[Key, MeanEstimate],
    units: tuple[float, float],
) -> dict[Key, str]:
    """Explain functions that seem to have moved because they were renamed or inlined, by function.

    ``a`` and ``b`` are call paths with their cost in µs per operation; ``inclusive`` and ``own``
    are differences B - A of each function's cost with and without callees; ``units`` is the time of
    one sample on each side.
    """
    found: dict[Key, str] = {}
    taken_in: dict[Key, dict[Key, float]] = {}
    inside = [_functions(side) for side in (a, b)]
    for stacks, here, there, sign, unit in (
        (a, inside[0], inside[1], -1.0, units[1]),
        (b, inside[1], inside[0], 1.0, units[0]),
    ):
        gone = {key: us for key, us in here.items() if key not in there and us >= _EXPECTED * unit}
        for key, (caller, us) in _callers(stacks, gone, there.keys()).items():
            if _stayed(inclusive[caller], sign * us):
                found[key] = f"renamed or inlined under {caller[1]}"
                taken_in.setdefault(caller, {})[key] = own[key].mean
    for caller, moved in taken_in.items():
        grown, lost = own[caller].mean, -sum(moved.values())
        if lost and _TAKEN_IN[0] <= grown / lost <= _TAKEN_IN[1]:
            names = ", ".join(sorted(name for _, name in moved))
            found.setdefault(caller, f"with or without inlined {names}")
    return found


def _functions(stacks: Stacks) -> dict[Key, float]:
    found: defaultdict[Key, float] = defaultdict(float)
    for path, us in stacks:
        for key in set(path):
            found[key] += us
    return dict(found)


def _callers(
    stacks: Stacks, gone: Mapping[Key, float], there: Iterable[Key]
) -> dict[Key, tuple[Key, float]]:
    """Map functions that are gone to the nearest remaining caller of most of their cost."""
    known = set(there)
    flows: defaultdict[Key, defaultdict[Key, float]] = defaultdict(lambda: defaultdict(float))
    for path, us in stacks:
        for key in gone.keys() & set(path):
            at = path.index(key)
            nearest = reversed(path[max(0, at - _REACH) : at])
            caller = next((each for each in nearest if each in known), None)
            if caller is not None:
                flows[key][caller] += us
    most = {key: max(flow.items(), key=lambda item: item[1]) for key, flow in flows.items()}
    return {key: each for key, each in most.items() if each[1] >= _MOST_OF_IT * gone[key]}


def _stayed(caller: MeanEstimate, change_us: float) -> bool:
    """Return whether a caller's cost did not change, and by that much even less."""
    if caller.low is None or caller.high is None or not caller.low <= 0 <= caller.high:
        return False
    return not caller.low <= change_us <= caller.high
