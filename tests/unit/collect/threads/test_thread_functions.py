"""Test the functions in which threads spend their lives, by symbols and stacks."""

import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.threads import thread_functions
from millrace.collect.threads.thread_functions import Function, Mapped, functions_in, outermost
from millrace.host import procfs

BASE = 0x5555_0000_0000
WRITER = Function(0x1000, 0x1400, "log_writer")
OF_PYTHON = frozenset({"Py_BytesMain", "Py_RunMain"})
PURGE = Function(0x8000, 0x8800, "srv_purge_thread")
FUNCTIONS = (WRITER, PURGE)


def stack(*words: int) -> bytes:
    return struct.pack(f"={len(words)}Q", *words)


def test_the_outermost_function_counts() -> None:
    inner, outer = BASE + 0x1010, BASE + 0x8010
    assert outermost(stack(7, inner, 0, outer, 9), FUNCTIONS, BASE) == "srv_purge_thread"
    assert outermost(stack(7, outer, 0, inner, 9), FUNCTIONS, BASE) == "log_writer"
    assert outermost(stack(7, 8), FUNCTIONS, BASE) is None
    assert outermost(b"", FUNCTIONS, BASE) is None


def test_where_a_thread_began_goes_before_where_it_is() -> None:
    began, inside = BASE + 0x1000, BASE + 0x8010
    assert outermost(stack(began, 0, inside), FUNCTIONS, BASE) == "log_writer"


def test_sizes_are_no_addresses() -> None:
    # A program at the bottom of memory: a stack of 8 MiB and its guard resemble a function.
    master = Function(0x7FF920, 0x801006, "srv_master_thread")
    assert outermost(stack(0x801000), (master,), 0) is None
    assert outermost(stack(0x801002), (master,), 0) == "srv_master_thread"


def test_addresses_at_the_ends_of_a_function() -> None:
    assert outermost(stack(BASE + 0xFFF), FUNCTIONS, BASE) is None
    assert outermost(stack(BASE + 0x13FF), FUNCTIONS, BASE) == "log_writer"
    assert outermost(stack(BASE + 0x1401), FUNCTIONS, BASE) is None


def test_names_of_c_and_of_cpp() -> None:
    listed = {
        b"log_writer": 1,
        b"log_writer.isra.0": 2,
        b"_Z10log_writerP5log_t": 3,
        b"_ZL10log_writerP5log_t.cold": 4,
        b"log_writer_key": 5,
        b"_Z14log_writer_waitv": 6,
        b"srv_log_writer": 7,
        b"_ZN3log10log_writerEv": 8,
    }
    texts, table = b"\0", b""
    for name, address in listed.items():
        table += struct.pack("<IBBHQQ", len(texts), 0x12, 0, 1, address * 0x1000, 0x10)
        texts += name + b"\0"
    variable = struct.pack("<IBBHQQ", 1, 0x11, 0, 1, 0x9000, 0x10)
    elsewhere = struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0)
    found = thread_functions.in_table(
        table + variable + elsewhere, texts, frozenset({"log_writer"})
    )
    assert [function.start // 0x1000 for function in found] == [1, 2, 3, 4]


def test_memory_of_a_process() -> None:
    text = (
        b"00400000-0178e000 r-xp 00000000 fe:00 9986470        /opt/my sql/bin/mysqld\n"
        b"7f41aab93000-7f41aab94000 ---p 00000000 00:00 0 \n"
        b"7f41aab94000-7f41ab394000 rw-p 00000000 00:00 0 \n"
    )
    program, _guard, thread = thread_functions.maps(text)
    assert program == Mapped(0x400000, 0x178E000, b"r-xp", 0, b"/opt/my sql/bin/mysqld")
    assert (thread.start, thread.end, thread.file) == (0x7F41AAB94000, 0x7F41AB394000, b"")


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n")
    assert functions_in(text, frozenset({"main"})) == ()
    assert functions_in(tmp_path / "nothing", frozenset({"main"})) == ()


@pytest.fixture(scope="module")
def python_program() -> Path:
    """Return the file of Python's functions: the program or a library."""
    mapped = {
        Path(part.file.decode()) for part in thread_functions.maps(procfs.read("/proc/self/maps"))
    }
    for file in mapped:
        if "python" in file.name and functions_in(file, OF_PYTHON):
            return file
    pytest.skip("this Python has no symbols")


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python that waits."""
    command = [sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(command, stdin=-1, stdout=-1) as it:
        assert it.stdout is not None
        it.stdout.readline()
        deadline = time.monotonic() + 10
        while procfs.stack_pointer(procfs.read(f"/proc/{it.pid}/syscall")) is None:
            assert time.monotonic() < deadline
        yield it
        it.kill()


def test_a_real_process(python_program: Path, waiting: subprocess.Popen[bytes]) -> None:
    found = thread_functions.functions_of(waiting.pid, python_program, OF_PYTHON)
    assert set(found) == {waiting.pid}
    assert set(found.values()) <= OF_PYTHON


def test_a_thread_that_ran_is_looked_at_again(
    python_program: Path, waiting: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def ran(path: str) -> bytes | None:
        looks.append(path)
        return b"running\n" if len(looks) <= 3 else procfs.read(path)

    monkeypatch.setattr(procfs, "read_or_none", ran)
    found = thread_functions.functions_of(waiting.pid, python_program, OF_PYTHON)
    assert set(found) == {waiting.pid}
    monkeypatch.setattr(procfs, "read_or_none", lambda _path: b"running\n")
    assert thread_functions.functions_of(waiting.pid, python_program, OF_PYTHON) == {}


def test_a_process_that_runs_another_program() -> None:
    other = Path("/bin/sh").resolve()
    with subprocess.Popen(["sleep", "60"]) as it:
        assert thread_functions.functions_of(it.pid, other, ["main"]) == {}
        it.kill()


@given(st.binary(max_size=400))
def test_no_stack_breaks_it(content: bytes) -> None:
    assert outermost(content, FUNCTIONS, 0) in (None, "log_writer", "srv_purge_thread")


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(0x8001, 0x87FF))
def test_a_return_address_is_found_wherever_it_lies(words: list[int], at: int) -> None:
    clean = [word for word in words if not BASE <= word < BASE + 0x10000]
    found = outermost(stack(*clean, BASE + at, *clean), FUNCTIONS, BASE)
    assert found == "srv_purge_thread" or at % 4096 == 0
