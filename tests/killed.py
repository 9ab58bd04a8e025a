"""Run commands in processes that are killed before one of their writes.

The kernel stops the process at each system call (ptrace), so that the place of the kill is exact
however busy the host is. SQLite's writes are among them.
"""

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Sequence
from functools import cache

from millrace.cli.main import main

# write, pwrite64, fsync, fdatasync, ftruncate, fchmod, and each form of rename, mkdir, rmdir,
# unlink and chmod that the machine has.
_WRITES = {
    "x86_64": {1, 18, 74, 75, 77, 91, 82, 264, 316, 83, 258, 84, 87, 263, 90, 268},
    "aarch64": {64, 68, 82, 83, 46, 52, 38, 276, 34, 35, 53},
}
_PWRITE = {"x86_64": 18, "aarch64": 68}
_TRACEME, _SYSCALL, _SETOPTIONS, _SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_SYSGOOD, _EXITKILL = 1, 0x100000
_AT_CALL = signal.SIGTRAP | 0x80
_ENTRY = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class _Info(ctypes.Structure):
    """The kernel's ``struct ptrace_syscall_info``."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction_pointer", ctypes.c_uint64),
        ("stack_pointer", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


def run(*arguments: str, kill_before: int | None = None) -> int:
    """Run ``millrace`` with arguments; return the number of writes that it began.

    With ``kill_before`` the process is killed at the beginning of that write (the first is 1); one
    that ends earlier is not killed. A command that ends by itself must succeed.
    """
    child = os.fork()
    if child == 0:
        _become(arguments)
    ended = False
    try:
        _, status = os.waitpid(child, 0)
        assert os.WIFSTOPPED(status), f"the command could not be traced ({status})"
        _ptrace(_SETOPTIONS, child, 0, _SYSGOOD | _EXITKILL)
        writes, passed_on = 0, 0
        while True:
            _ptrace(_SYSCALL, child, 0, passed_on)
            _, status = os.waitpid(child, 0)
            if not os.WIFSTOPPED(status):
                ended = True
                assert os.waitstatus_to_exitcode(status) == 0
                return writes
            passed_on = os.WSTOPSIG(status)
            if passed_on == _AT_CALL:
                passed_on = 0
                writes += _is_write(child)
                if writes == kill_before:
                    return writes
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@cache
def untraceable() -> str | None:
    """Return why commands cannot be stopped at their writes here; None where they can."""
    if platform.machine() not in _WRITES:
        return f"system calls of {platform.machine()} are not known to the tests"
    try:
        run("--version")
    except (AssertionError, OSError) as error:
        return f"no process may be traced with ptrace here ({error})"
    return None


def _become(arguments: Sequence[str]) -> None:
    """Become the command in this process, stopped until the tracer continues it."""
    status = 70
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["millrace", *arguments]
        if _libc.ptrace(_TRACEME, 0, None, None) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            main()
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 0
    finally:
        os._exit(status)


def _is_write(child: int) -> bool:
    info = _Info()
    _ptrace(_SYSCALL_INFO, child, ctypes.sizeof(info), ctypes.addressof(info))
    if info.op != _ENTRY or info.number not in _WRITES[platform.machine()]:
        return False
    # SQLite sizes its shared memory with writes of single bytes; a kill there leaves nothing.
    return bool(info.number != _PWRITE[platform.machine()] or info.arguments[2] > 1)


def _ptrace(request: int, child: int, address: int, data: int) -> None:
    if _libc.ptrace(request, child, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
