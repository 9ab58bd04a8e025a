"""Parse files about processes and threads in /proc; raise ValueError for malformed ones."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 1 << 16
_LIMIT_BYTES = 16 << 20  # a process can make its environ and cmdline terabytes long
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD
_RUNNING = b"running"

# The kernel's names: calls, requested bytes, and bytes that were read from or written to a disk.
IO: Mapping[str, bytes] = {
    "read_calls": b"syscr",
    "write_calls": b"syscw",
    "read_chars": b"rchar",
    "written_chars": b"wchar",
    "read_bytes": b"read_bytes",
    "write_bytes": b"write_bytes",
}


@dataclass(frozen=True)
class Stat:
    """The file /proc/PID/stat of a process (including ended threads) or of a thread."""

    name: str
    state: str
    parent: int
    is_kernel_thread: bool
    minor_faults: int
    major_faults: int
    user_ticks: int  # 1 / SC_CLK_TCK s each
    system_ticks: int
    children_ticks: int  # of ended children that were reaped
    started_ticks: int  # since boot


@dataclass(frozen=True)
class Call:
    """The system call that blocks a thread; number -1 if there is none, as in a page fault."""

    number: int
    arguments: tuple[int, ...]


def read(path: str | Path, limit_bytes: int = _LIMIT_BYTES) -> bytes:
    """Return the content of a file of /proc, or its first ``limit_bytes``. Raise OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        left = limit_bytes
        while part := os.read(descriptor, min(_READ_BYTES, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_or_none(path: str | Path, limit_bytes: int = _LIMIT_BYTES) -> bytes | None:
    """Return the content of a file of /proc; None if it is missing or permission is denied."""
    try:
        return read(path, limit_bytes)
    except OSError:
        return None


def stat(raw: bytes) -> Stat:
    """Parse /proc/PID/stat; raise ValueError if it is too short."""
    # The name in parentheses may contain anything, including parentheses and white space.
    opening, closing = raw.index(b"("), raw.rindex(b")")
    fields = raw[closing + 1 :].split()
    if len(fields) < 20:
        raise ValueError(f"too short for a stat file: {raw!r}")
    numbers = [int(field) for field in fields[1:20]]
    # The first of these numbers is field 4 in proc(5).
    return Stat(
        name=raw[opening + 1 : closing].decode(errors="replace"),
        state=fields[0].decode(),
        parent=numbers[0],
        is_kernel_thread=bool(numbers[9 - 4] & _KERNEL_THREAD),
        minor_faults=numbers[10 - 4],
        major_faults=numbers[12 - 4],
        user_ticks=numbers[14 - 4],
        system_ticks=numbers[15 - 4],
        children_ticks=numbers[16 - 4] + numbers[17 - 4],
        started_ticks=numbers[22 - 4],
    )


def schedstat(raw: bytes) -> tuple[int, int]:
    """Parse /proc/PID/task/TID/schedstat: ns on a CPU, and ns runnable but waiting for a CPU."""
    ran_ns, waited_ns, _slices = raw.split()
    return int(ran_ns), int(waited_ns)


def switches(raw: bytes) -> tuple[int, int]:
    """Parse /proc/PID/task/TID/status: voluntary and involuntary context switches."""
    names = (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches")
    voluntary, involuntary = _numbers(raw, *names)
    return voluntary, involuntary


def io(raw: bytes) -> dict[str, int]:
    """Parse the file ``io`` of a process (including ended threads) or of a thread."""
    return dict(zip(IO, _numbers(raw, *IO.values()), strict=True))


def call(raw: bytes) -> Call | None:
    """Parse /proc/PID/task/TID/syscall; None while the thread runs or is runnable."""
    first, *rest = raw.split()
    if first == _RUNNING:
        return None
    number = int(first)
    # Stack pointer and program counter come last.
    return Call(number, tuple(int(value, 16) for value in rest[:-2]) if number >= 0 else ())


def stack_pointer(raw: bytes) -> int | None:
    """Return a waiting thread's stack pointer from its file ``syscall``; None while it runs."""
    words = raw.split()
    return None if words[0] == _RUNNING else int(words[-2], 16)


def writes_through(raw: bytes) -> bool:
    """Return whether a descriptor has O_DSYNC (synchronous writes), from /proc/PID/fdinfo/N."""
    return bool(int(_fields(raw).get(b"flags", b"0"), 8) & os.O_DSYNC)


def _numbers(raw: bytes, *names: bytes) -> list[int]:
    found = _fields(raw)
    try:
        return [int(found[name]) for name in names]
    except KeyError as error:
        raise ValueError(f"a file of /proc lacks the field {error.args[0]!r}") from error


def _fields(raw: bytes) -> dict[bytes, bytes]:
    return dict(line.split(b":", 1) for line in raw.splitlines() if b":" in line)
