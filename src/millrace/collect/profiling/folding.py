"""The text that perf script prints of a profile, to stacks and how often each was seen.

A stack is written as the folded format has it, root first: the kind of the thread, then a frame
``module`symbol`` for each call, separated by semicolons. Frames of the kernel have the module
``[kernel]``, those without a name the symbol ``[unknown]``. Modules are the files' names without
versions, so that ``libc-2.31.so`` and ``libc.so.6`` are one, as functions are under their short
names (see function_names).

Before the function that a thread begins with come frames of the C library. Every version of it
names them otherwise, or not at all, and unwinding may find some more that never were. One frame
stands for them all, and shows that a stack goes back to where its thread began.

A session that loads a table comes and goes between the marks: its thread is gone at both, or waits
there for connections to come, which is nothing to tell it by. Its calls tell it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from millrace.collect.profiling.function_names import short
from millrace.databases.monitoring import BACKGROUND, CONNECTION

KERNEL = "[kernel]"
UNKNOWN = "[unknown]"
THREAD_START = "libc.so`start_thread"
PROGRAM_START = "libc.so`__libc_start_main"

_THREAD = re.compile(r"\s*(\S.*?)\s+(\d+)\s*")
_THREAD_AND_FRAME = re.compile(r"\s*(\S.*?)\s+(\d+)\s+([0-9a-f]+ .*\))\s*")
# What is in the last parentheses is the module, but a path may hold parentheses, as symbols do.
_NAMED = re.compile(r"(.*?) \((//anon|[/\[].*|[^() ]+)\)\s*")
# Where perf seeks names for memory that belongs to no file. Any user of the host can write there.
_MAP = re.compile(r"/tmp/perf-\d+\.map")  # noqa: S108
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\s+lost\s+(\d+)")
_VERSION = re.compile(r"(?:-\d[\d.]*)?\.so(?:\.\w+)*$")
_FIRST_OF_KERNEL, _NO_ADDRESS = 1 << 63, (1 << 64) - 1

_C_LIBRARY = frozenset(("libc.so", "libpthread.so"))
_PROGRAM_STARTS = frozenset(
    ("_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main")
)
_STARTS = _PROGRAM_STARTS | {
    "start_thread", "clone", "clone3", "__clone", "__clone3", "__clone_internal", "thread_start",
}  # fmt: skip
# What a thread runs from a client's log-in to its end; compilers put some into their callers.
_OF_SESSIONS = frozenset((
    "handle_connection", "handle_one_connection", "do_handle_one_connection", "do_command",
    "dispatch_command",
))  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """What one thread did at one moment: frames as ``module`symbol``, root first."""

    comm: str
    tid: int
    frames: tuple[str, ...]


@dataclass(frozen=True)
class Lost:
    """So many samples were taken, but could not be kept."""

    samples: int


@dataclass(frozen=True)
class Folded:
    """Stacks and how many samples had each.

    ``samples`` are in ``stacks``, ``lost`` are not. ``rooted`` samples go back to where their
    thread began; ``unnamed`` by module were taken in user code that has no name; ``kernel`` were
    taken in the kernel, ``unnamed_kernel`` of them where it gave no name.
    """

    stacks: Mapping[str, int]
    samples: int
    lost: int
    rooted: int
    unnamed: Mapping[str, int]
    kernel: int
    unnamed_kernel: int


def parse(lines: Iterable[str]) -> Iterator[Sample | Lost]:
    """The samples in the output of ``perf script -F comm,tid,ip,sym,dso --show-lost-events``.

    Each is a line with its thread, its frames below, leaf first, and an empty line; or, where no
    call graph was recorded, all of it in one line. What cannot be read is left out.
    """
    names: dict[str, str] = {}
    thread: tuple[str, int] | None = None
    frames: list[str] = []
    for line in lines:
        if line.startswith("\t"):
            frames += _frame(line, names)
            continue
        if thread is not None:
            yield Sample(*thread, tuple(reversed(frames)))
            thread = None
        if lost := _LOST.search(line):
            yield Lost(int(lost[1]))
        elif match := _THREAD.fullmatch(line):
            thread, frames = (match[1], int(match[2])), []
        elif match := _THREAD_AND_FRAME.fullmatch(line):
            thread, frames = (match[1], int(match[2])), _frame(match[3], names)
    if thread is not None:
        yield Sample(*thread, tuple(reversed(frames)))


def fold(
    seen: Iterable[Sample | Lost], kinds: Mapping[int, str], serving: str = CONNECTION
) -> Folded:
    """Count stacks, each under the kind of its thread, or under its name where that is unknown.

    A thread of no known purpose that carried out what a client asked is ``serving``.
    """
    seen_of: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    unnamed: Counter[str] = Counter()
    samples = lost = rooted = kernel = unnamed_kernel = 0
    for each in seen:
        if isinstance(each, Lost):
            lost += each.samples
            continue
        samples += 1
        calls = _from_start(each.frames)
        rooted += calls[:1] in ((THREAD_START,), (PROGRAM_START,))
        in_kernel = bool(calls) and _is_kernel(calls[-1])
        kernel += in_kernel
        if calls and _is_unnamed(calls[-1]):
            unnamed_kernel += in_kernel
            unnamed.update([] if in_kernel else [_module(calls[-1])])
        seen_of[each.tid, each.comm, calls] += 1
    sessions = {tid for tid, _, calls in seen_of if _is_of_session(calls)}
    stacks: Counter[str] = Counter()
    for (tid, comm, calls), count in seen_of.items():
        kind = kinds.get(tid)
        if tid in sessions and kind in (None, BACKGROUND):
            kind = serving
        stacks[";".join((_plain(kind or comm), *calls))] += count
    return Folded(stacks, samples, lost, rooted, unnamed, kernel, unnamed_kernel)


def _frame(line: str, names: dict[str, str]) -> list[str]:
    """The frame of a line ``ADDRESS SYMBOL (MODULE)``, none in another line."""
    address, _, said = line.strip().partition(" ")
    try:
        is_kernel = _FIRST_OF_KERNEL <= int(address, 16) < _NO_ADDRESS
    except ValueError:
        return []
    key = f"{is_kernel:d}{said}"
    if key not in names:
        match = _NAMED.fullmatch(said)
        if match is None:
            return []
        module = KERNEL if is_kernel else _short_module(match[2])
        symbol = UNKNOWN if _MAP.fullmatch(match[2]) else short(match[1])
        names[key] = f"{module}`{_plain(symbol)}"
    return [names[key]]


def _short_module(path: str) -> str:
    if path.startswith("["):
        return path
    if path.startswith("//anon") or _MAP.fullmatch(path):
        return "[anon]"
    name = path.removesuffix(" (deleted)").rpartition("/")[2]
    return _plain(_VERSION.sub(".so", name)) or UNKNOWN


def _plain(text: str) -> str:
    """Text that can be part of a folded stack."""
    return text.replace(";", ":").replace("\n", " ")


def _module(call: str) -> str:
    return call.partition("`")[0]


def _symbol(call: str) -> str:
    return call.partition("`")[2]


def _is_kernel(call: str) -> bool:
    return call.startswith(KERNEL)


def _is_of_session(calls: tuple[str, ...]) -> bool:
    return any(_symbol(call) in _OF_SESSIONS for call in calls)


def _is_unnamed(call: str) -> bool:
    return call.endswith(UNKNOWN)


def _from_start(calls: tuple[str, ...]) -> tuple[str, ...]:
    """The calls with one frame for all that is before the function a thread begins with."""
    nowhere = 0
    while nowhere < len(calls) - 1 and _module(calls[nowhere]) == UNKNOWN:
        nowhere += 1
    calls = calls[nowhere:]
    # The program's own `_start`, whether it has a name or not, is called by nobody.
    first = 1 if calls and _may_be_first(calls[0]) else 0
    begun = first
    while begun < len(calls) and _may_start(calls[begun]):
        begun += 1
    named = {_symbol(call) for call in calls[first:begun]} & _STARTS
    # Code of the C library without a name that the program called is not where a thread starts.
    if begun == first or not (first == 0 or named) or not _is_begun(calls[begun:]):
        return calls
    return (PROGRAM_START if named & _PROGRAM_STARTS else THREAD_START, *calls[begun:])


def _may_be_first(call: str) -> bool:
    if _is_kernel(call) or _module(call) in _C_LIBRARY:
        return False
    return _is_unnamed(call) or _symbol(call) == "_start"


def _may_start(call: str) -> bool:
    return _module(call) in _C_LIBRARY and (_is_unnamed(call) or _symbol(call) in _STARTS)


def _is_begun(calls: tuple[str, ...]) -> bool:
    """Whether these are calls from a function that a thread begins with."""
    return bool(calls) and not _is_kernel(calls[0]) and _module(calls[0]) not in _C_LIBRARY
