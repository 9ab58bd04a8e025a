"""Test reading the system calls that remove files from the kernel's trace."""

from __future__ import annotations

from millrace.host.file_calls import FileCall, file_calls

TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
           <...>-30491   [000] ..... 65705.614864: sys_close(fd: 3)
  ib_srv_purge-30492   [001] ..... 65705.614900: sys_unlink(pathname: 0x7f929aa0fbc0)
           <...>-30491   [000] ..... 65705.614866: sys_close -> 0x0
 my sql) [1]-30492   (30490) [001] ..... 65705.617700: sys_unlink -> 0x0
           <...>-30493   [000] ..... 65705.620000: sys_ftruncate -> 0x0
           <...>-30491   [000] ..... 65705.630000: sys_unlinkat(dfd: 3, pathname: 0x1, flag: 0)
"""


def test_calls_are_from_their_begin_to_their_end() -> None:
    assert list(file_calls(TRACE)) == [
        FileCall(30491, "close", 65705.614864, 65705.614866),
        FileCall(30492, "unlink", 65705.6149, 65705.6177),
    ]


def test_lines_of_other_forms_are_no_calls() -> None:
    assert list(file_calls("sys_close\n[LOST 3 EVENTS]\n-1 [0] . 1: sys_close(\n")) == []
