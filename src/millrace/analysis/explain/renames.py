"""Functions that are gone, or new, while what their caller takes with them stayed the same.

A version gives a function another name, a compiler puts it into its caller: a profile then shows a
loss here and a gain there where nothing changed. The test is the caller's: what it takes with all
that it calls did not move (its interval has 0 in it) by as much as the function took (its interval
does not have that in it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from millrace.analysis.explain.call_tree import Key
from millrace.stats import MeanEstimate

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
    are differences B - A of each function's cost with and without callees, ``units`` what one
    sample stands for on each side.
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
    """Return each function's cost with its callees."""
    found: defaultdict[Key, float] = defaultdict(float)
    for path, us in stacks:
        for key in set(path):
            found[key] += us
    return dict(found)


def _callers(
    stacks: Stacks, gone: Mapping[Key, float], there: Iterable[Key]
) -> dict[Key, tuple[Key, float]]:
    """Return for each function that is gone, the nearest caller that is not, and what went through
    it; without those that no caller has for the most part."""
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
