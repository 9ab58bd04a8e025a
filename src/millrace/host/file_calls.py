"""Time the system calls by which threads remove, close or shorten files, from the kernel's trace.

The blocks of a file are freed by its unlink, or where that comes first, by its last close.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CALLS = ("unlink", "unlinkat", "close", "truncate", "ftruncate", "fallocate")

SYSTEM = "syscalls"
EVENTS = tuple(f"sys_{edge}_{name}" for name in _CALLS for edge in ("enter", "exit"))

_LINE = re.compile(
    r".*-(?P<tid>\d+)\s+(?:\([\s\d-]+\)\s+)?\[\d+\]\s+\S+\s+(?P<at_s>\d+\.\d+): "
    rf"sys_(?P<name>{'|'.join(_CALLS)})(?P<edge>\(| -> )"
)


@dataclass(frozen=True)
class FileCall:
    """A system call of a thread; times are those of the trace's clock."""

    tid: int
    name: str
    from_s: float
    until_s: float


def file_calls(text: str) -> Iterator[FileCall]:
    """Yield the calls of a trace that it has whole, in the order of their ends."""
    begun: dict[int, tuple[str, float]] = {}
    for match in map(_LINE.match, text.splitlines()):
        if match is None:
            continue
        tid, name, at_s = int(match["tid"]), match["name"], float(match["at_s"])
        if match["edge"] == "(":
            begun[tid] = (name, at_s)
        elif (call := begun.pop(tid, None)) is not None and call[0] == name:
            yield FileCall(tid, name, call[1], at_s)
