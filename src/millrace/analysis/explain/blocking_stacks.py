"""Locate the calls, files and kernel functions in which the threads of clients were blocked.

They are sampled at random moments, like the time breakdown's waits, and add up to them: they are of
the same trials, and leave out what no part of the breakdown holds.

A thread's call is read a moment before its stack, and may be another one by then: a stack of a
write, say, under a call that reads. Such a stack is left out.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.analysis.explain import time_breakdown
from millrace.analysis.explain.observations import ObservedTrial, Place

# How every call gets into the kernel, and every thread into being.
_ENTRY = re.compile(
    r"entry_|do_syscall_|x64_sys_call|__(x64|arm64|do|se)_sys_|el0|do_el0|invoke_syscall|"
    r"asm_exc_|exc_page_fault|ret_from_fork"
)

# What calls do to a file, and the functions of the kernel that each of these begins with; those
# that one also calls on behalf of another (a write that is synced) are not among them.
_CALLS: Mapping[str, frozenset[str]] = {
    "read": frozenset(("read", "pread64", "readv", "preadv", "preadv2")),
    "write": frozenset(("write", "pwrite64", "writev", "pwritev", "pwritev2")),
    "sync": frozenset(("fsync", "fdatasync")),
}
_BEGINS: Mapping[str, re.Pattern[str]] = {
    "read": re.compile(r"(ksys|vfs|do)_p?readv?(64)?|(vfs|do)_iter_read|\w+_read_iter"),
    "write": re.compile(r"(ksys|vfs|do)_p?writev?(64)?|(vfs|do)_iter_write|\w+_write_iter"),
    "sync": re.compile(r"do_fsync"),
}
_SYSTEM_CALL = re.compile(r"__(?:x64|arm64|do|se)_sys_(\w+)")

_Where = tuple[time_breakdown.PartKey, str | None, str | None]
_WithBreakdowns = Sequence[tuple[ObservedTrial, time_breakdown.TrialBreakdown]]


@dataclass(frozen=True)
class KernelStack:
    """Functions of the kernel, the outermost first; µs of an operation in them, in A and in B."""

    functions: tuple[str, ...]
    a_us: float
    b_us: float


@dataclass(frozen=True)
class BlockedComparison:
    """A system call on a target in which threads were blocked, in µs of an operation.

    They are means over the compared trials. The call is None in a page fault.

    ``part`` is the part of the breakdown that it belongs to, ``title`` that part's. ``stacks`` are
    in order of time, longest first; empty where the kernel shows none, or those of another call.
    """

    part: time_breakdown.PartKey
    title: str
    call: str | None
    target: str | None
    a_us: float
    b_us: float
    stacks: tuple[KernelStack, ...]


def compare_blocked(
    a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]
) -> tuple[BlockedComparison, ...]:
    """Compare where threads were blocked, longest first, in the parts and blocks of both sides."""
    both = [time_breakdown.with_breakdowns(trials) for trials in (a, b)]
    blocks = set.intersection(*({trial.block for trial, _ in side} for side in both))
    sides = [[each for each in side if each[0].block in blocks] for side in both]
    if not blocks:
        return ()
    known = sides[0][0][1].parts.keys() & sides[1][0][1].parts.keys()
    found: defaultdict[_Where, defaultdict[tuple[str, ...], list[float]]]
    found = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for side, trials in enumerate(sides):
        for place, us in _places_us(trials).items():
            part = time_breakdown.part_of_state(place.state_class)
            if part in known:
                stack = () if contradicts(place.call, place.stack) else functions(place.stack)
                found[part, place.call, place.target][stack][side] += us
    rows = [_comparison(where, stacks) for where, stacks in found.items()]
    return tuple(sorted(rows, key=lambda row: -max(row.a_us, row.b_us)))


def functions(stack: str | None) -> tuple[str, ...]:
    """Return the functions of a stack, without those that lead into the kernel."""
    names = stack.split(";") if stack else []
    return tuple(name for name in names if not _ENTRY.match(name))


def contradicts(call: str | None, stack: str | None) -> bool:
    """Return whether a stack is that of a call that does something else to a file."""
    does = next((kind for kind, calls in _CALLS.items() if call in calls), None)
    done = next(filter(None, map(_kind, (stack or "").split(";"))), None)
    return does is not None and done is not None and does != done


def _kind(function: str) -> str | None:
    """Classify a function of the kernel by its effect on a file; None where it has none."""
    if entry := _SYSTEM_CALL.fullmatch(function):
        return next((kind for kind, calls in _CALLS.items() if entry[1] in calls), None)
    return next((kind for kind, begins in _BEGINS.items() if begins.fullmatch(function)), None)


def _comparison(
    where: _Where, stacks: Mapping[tuple[str, ...], Sequence[float]]
) -> BlockedComparison:
    part, call, target = where
    known = [KernelStack(names, *us) for names, us in stacks.items() if names]
    return BlockedComparison(
        part=part,
        title=time_breakdown.PARTS[part],
        call=call,
        target=target,
        a_us=math.fsum(us[0] for us in stacks.values()),
        b_us=math.fsum(us[1] for us in stacks.values()),
        stacks=tuple(sorted(known, key=lambda each: -max(each.a_us, each.b_us))),
    )


def _places_us(trials: _WithBreakdowns) -> Mapping[Place, float]:
    sums: defaultdict[Place, float] = defaultdict(float)
    for trial, _ in trials:
        observed = trial.observed
        if observed.states is not None:
            for place, count in observed.states.places.items():
                sums[place] += observed.sampled_us(count) / len(trials)
    return sums
