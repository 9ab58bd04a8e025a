"""Test the kernel's files about processes and threads, as written for real servers."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.host import procfs
from tests.support import host_texts


def test_a_server() -> None:
    assert procfs.stat(host_texts.PROCESS_STAT) == procfs.Stat(
        name="mysqld",
        state="S",
        parent=30965,
        is_kernel_thread=False,
        minor_faults=97549,
        major_faults=5,
        user_ticks=40,
        system_ticks=26,
        children_ticks=0,
        started_ticks=2968924,
    )
    assert procfs.stat(host_texts.KERNEL_THREAD_STAT).is_kernel_thread


def test_a_thread() -> None:
    assert procfs.stat(host_texts.CHECKPOINTER_STAT).name == "ib_log_checkpt"
    assert procfs.schedstat(b"4062689 35520640 3\n") == (4062689, 35520640)
    assert procfs.switches(host_texts.STATUS) == (50, 110)
    assert procfs.io(host_texts.PROCESS_IO) == {
        "read_calls": 941,
        "write_calls": 143,
        "read_chars": 23702338,
        "written_chars": 13284965,
        "read_bytes": 311296,
        "write_bytes": 13422592,
    }


def test_what_a_thread_waits_in() -> None:
    poll = b"7 0x2d21b5a0 0x2 0xffffffff 0x0 0x0 0x42bd100 0x7fff01477420 0x7f8024d1a26f\n"
    assert procfs.call(poll) == procfs.Call(7, (0x2D21B5A0, 2, 0xFFFFFFFF, 0, 0, 0x42BD100))
    assert procfs.call(b"-1 0x7ffd7c2c5b58 0x7f2a9f2a3117\n") == procfs.Call(-1, ())
    assert procfs.call(b"running\n") is None


def test_writes_that_wait_for_the_disk() -> None:
    assert procfs.writes_through(b"pos:\t0\nflags:\t0110001\nmnt_id:\t29\n")
    assert procfs.writes_through(b"pos:\t0\nflags:\t04012002\n")
    assert not procfs.writes_through(b"pos:\t0\nflags:\t02100002\n")
    assert not procfs.writes_through(b"pos:\t0\n")


def test_this_process() -> None:
    own = procfs.stat(procfs.read("/proc/self/stat"))
    assert own.parent == os.getppid()
    assert own.state == "R"
    assert procfs.switches(procfs.read("/proc/self/status"))[0] >= 0
    assert set(procfs.io(procfs.read("/proc/self/io"))) == set(procfs.IO)
    assert procfs.read("/proc/self/maps").count(b"\n") > 50  # longer than a page
    with pytest.raises(FileNotFoundError):
        procfs.read("/proc/self/no such file")
    assert procfs.read_or_none("/proc/self/no such file") is None


@pytest.mark.parametrize(
    "broken", [b"", b"7", b"7 (name", b"7 (name) S 1 2", b"7 (name) S" + b" x" * 40]
)
def test_what_no_kernel_writes_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"not found|too short for a stat file|invalid literal"):
        procfs.stat(broken)


@pytest.mark.parametrize("broken", [b"", b"rchar: 1\n", b"rchar 1\nwchar: x\n"])
def test_incomplete_files_are_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match="lacks the field b'syscr'"):
        procfs.io(broken)
    with pytest.raises(ValueError, match="lacks the field b'voluntary_ctxt_switches'"):
        procfs.switches(broken)


@given(st.binary(min_size=1, max_size=15), st.lists(st.integers(0, 2**64 - 1), min_size=50))
def test_any_name_is_read(name: bytes, fields: list[int]) -> None:
    written = b"1 (%b) S %b\n" % (name, b" ".join(b"%d" % field for field in fields))
    found = procfs.stat(written)
    assert found.name == name.decode(errors="replace")
    assert (found.parent, found.started_ticks) == (fields[0], fields[18])
    assert (found.user_ticks, found.system_ticks) == (fields[10], fields[11])
    assert found.children_ticks == fields[12] + fields[13]


@given(st.integers(0, 600), st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6))
def test_any_call_is_read(number: int, arguments: list[int]) -> None:
    words = [str(number), *(f"{value:#x}" for value in [*arguments, 1, 2])]
    assert procfs.call(" ".join(words).encode() + b"\n") == procfs.Call(number, tuple(arguments))
