"""Fold the text that perf script prints of a profile into stacks and their sample counts.

A stack has the folded format, root first: the kind of the thread, then a frame ``module`symbol``
for each call, separated by semicolons. Frames of the kernel have the module ``[kernel]``, those
without a name the symbol ``[unknown]``. Modules are file names without versions, so that
``libc-2.31.so`` and ``libc.so.6`` are one; functions have their short names (see function_names).

Frames of the C library come before the function with which a thread begins. Each version of the
library names them differently, or not at all, and unwinding may add frames that never existed. One
frame replaces them all, and shows that a stack goes back to the start of its thread.

A session that loads a table lives between the marks. At both marks its thread is missing, or waits
for a connection, which identifies nothing. Only its calls identify it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from millrace.collect.profiling.function_names import short
from millrace.databases.monitoring import BACKGROUND, CONNECTION

KERNEL = "[kernel]"
UNKNOWN = "[unknown]"
THREAD_START = "libc.so`start_thread"
PROGRAM_START = "libc.so`__libc_start_main"

_THREAD = re.compile(r"\s*(\S.*?)\s+(\d+)\s*")
_THREAD_AND_FRAME = re.compile(r"\s*(\S.*?)\s+(\d+)\s+([0-9a-f]+ .*\))\s*")
# The last parentheses hold the module, but a path may hold parentheses, as symbols do.
_NAMED = re.compile(r"(.*?) \((//anon|[/\[].*|[^() ]+)\)\s*")
# perf looks there for names of memory that belongs to no file. Any user of the host can write
# there.
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


@dataclass(frozen=True)
class Sample:
    """The call path of one thread at one moment: frames as ``module`symbol``, root first."""

    comm: str
    tid: int
    frames: tuple[str, ...]


@dataclass(frozen=True)
class Lost:
    """A number of samples that perf took but could not keep."""

    samples: int


@dataclass(frozen=True)
class Folded:
    """Stacks, and the number of samples of each.

    ``samples`` are in ``stacks``, ``lost`` are not. ``rooted`` samples go back to the start of
    their thread. ``unnamed`` counts, by module, the samples in user code without a name. ``kernel``
    samples were taken in the kernel, ``unnamed_kernel`` of them in code without a name.
    """

    stacks: Mapping[str, int]
    samples: int
    lost: int
    rooted: int
    unnamed: Mapping[str, int]
    kernel: int
    unnamed_kernel: int


def parse(lines: Iterable[str]) -> Iterator[Sample | Lost]:
    """Parse the output of ``perf script -F comm,tid,ip,sym,dso --show-lost-events``.

    A sample is a line with its thread, its frames below, leaf first, and an empty line. Where no
    call graph was recorded, all of it is in one line. Unreadable lines are skipped.
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
    samples: Iterable[Sample | Lost],
    kinds: Mapping[int, str],
    session_functions: Collection[str],
    serving: str = CONNECTION,
) -> Folded:
    """Count the stacks, each under the kind of its thread, or else under the thread's name.

    A thread of unknown purpose that ran one of ``session_functions`` has the kind ``serving``.
    """
    counts: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    unnamed: Counter[str] = Counter()
    n_samples = lost = rooted = kernel = unnamed_kernel = 0
    for each in samples:
        if isinstance(each, Lost):
            lost += each.samples
            continue
        n_samples += 1
        calls = _from_start(each.frames)
        rooted += calls[:1] in ((THREAD_START,), (PROGRAM_START,))
        in_kernel = bool(calls) and _is_kernel(calls[-1])
        kernel += in_kernel
        if calls and _is_unnamed(calls[-1]):
            unnamed_kernel += in_kernel
            unnamed.update([] if in_kernel else [_module(calls[-1])])
        counts[each.tid, each.comm, calls] += 1
    sessions = {
        tid for tid, _, calls in counts if any(_symbol(call) in session_functions for call in calls)
    }
    stacks: Counter[str] = Counter()
    for (tid, comm, calls), count in counts.items():
        kind = kinds.get(tid)
        if tid in sessions and kind in (None, BACKGROUND):
            kind = serving
        stacks[";".join((_plain(kind or comm), *calls))] += count
    return Folded(stacks, n_samples, lost, rooted, unnamed, kernel, unnamed_kernel)


def _frame(line: str, names: dict[str, str]) -> list[str]:
    """Return the frame of a line ``ADDRESS SYMBOL (MODULE)``; none for another line."""
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
    """Return text without the characters that separate folded stacks."""
    return text.replace(";", ":").replace("\n", " ")


def _module(call: str) -> str:
    return call.partition("`")[0]


def _symbol(call: str) -> str:
    return call.partition("`")[2]


def _is_kernel(call: str) -> bool:
    return call.startswith(KERNEL)


def _is_unnamed(call: str) -> bool:
    return call.endswith(UNKNOWN)


def _from_start(calls: tuple[str, ...]) -> tuple[str, ...]:
    """Return the calls with one frame for all those before the function that begins the thread."""
    nowhere = 0
    while nowhere < len(calls) - 1 and _module(calls[nowhere]) == UNKNOWN:
        nowhere += 1
    calls = calls[nowhere:]
    # Nothing calls the program's own `_start`, whether it has a name or not.
    first = 1 if calls and _may_be_first(calls[0]) else 0
    begun = first
    while begun < len(calls) and _may_start(calls[begun]):
        begun += 1
    named = {_symbol(call) for call in calls[first:begun]} & _STARTS
    # Unnamed code of the C library that the program called is not the start of a thread.
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
    """Return whether the calls begin with a function that can begin a thread."""
    return bool(calls) and not _is_kernel(calls[0]) and _module(calls[0]) not in _C_LIBRARY
