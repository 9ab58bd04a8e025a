"""Where the threads that serve clients were blocked: the calls, files and functions of the kernel
behind the waits of the account.

They were seen at random moments, like the account's waits, and sum up to them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.account import PARTS, PartKey, part_of_state
from millrace.analysis.observed import ObservedTrial, Place

# How every call gets into the kernel, and every thread into being.
_ENTRY = re.compile(
    r"entry_|do_syscall_|x64_sys_call|__(x64|arm64|do|se)_sys_|el0|do_el0|invoke_syscall|"
    r"asm_exc_|exc_page_fault|ret_from_fork"
)

_Where = tuple[PartKey, str | None, str | None]


@dataclass(frozen=True)
class KernelStack:
    """Functions of the kernel, the outermost first; µs of an operation in them, in A and in B."""

    functions: tuple[str, ...]
    a_us: float
    b_us: float


@dataclass(frozen=True)
class BlockedComparison:
    """A system call (None: none, as in a page fault) on a target (None: on none) in which threads
    were blocked, in µs of an operation, means over the trials.

    ``part`` is the account's part that it is of, ``title`` that part's. ``stacks`` are those in
    which most of the time was spent first, none where the kernel does not tell.
    """

    part: PartKey
    title: str
    call: str | None
    target: str | None
    a_us: float
    b_us: float
    stacks: tuple[KernelStack, ...]


def compare_blocked(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[BlockedComparison, ...]:
    """Where threads were blocked, longest first; nothing unless both were sampled."""
    sides = [_places_us(trials) for trials in (a, b)]
    if sides[0] is None or sides[1] is None:
        return ()
    found: defaultdict[_Where, defaultdict[tuple[str, ...], list[float]]]
    found = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for side, places in enumerate(sides):
        for place, us in (places or {}).items():
            part = part_of_state(place.state_class)
            if part is not None:
                stack = functions(place.stack)
                found[part, place.call, place.target][stack][side] += us
    rows = [_comparison(where, stacks) for where, stacks in found.items()]
    return tuple(sorted(rows, key=lambda row: -max(row.a_us, row.b_us)))


def functions(stack: str | None) -> tuple[str, ...]:
    """The functions of a stack, without those that lead into the kernel."""
    names = stack.split(";") if stack else []
    return tuple(name for name in names if not _ENTRY.match(name))


def _comparison(
    where: _Where, stacks: Mapping[tuple[str, ...], Sequence[float]]
) -> BlockedComparison:
    part, call, target = where
    known = [KernelStack(names, *us) for names, us in stacks.items() if names]
    return BlockedComparison(
        part=part,
        title=PARTS[part],
        call=call,
        target=target,
        a_us=math.fsum(us[0] for us in stacks.values()),
        b_us=math.fsum(us[1] for us in stacks.values()),
        stacks=tuple(sorted(known, key=lambda each: -max(each.a_us, each.b_us))),
    )


def _places_us(trials: Sequence[ObservedTrial]) -> Mapping[Place, float] | None:
    """µs of an operation by place, means over the trials that were sampled; None where none was."""
    sampled = [trial.observed for trial in trials if trial.observed.states is not None]
    if not sampled:
        return None
    sums: defaultdict[Place, float] = defaultdict(float)
    for observed in sampled:
        assert observed.states is not None
        for place, count in observed.states.places.items():
            sums[place] += observed.sampled_us(count) / len(sampled)
    return sums
