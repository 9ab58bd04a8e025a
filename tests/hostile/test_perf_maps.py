"""Test names that other users plant for functions of a server that executes anonymous memory."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.collect.profiling import folding, recording
from millrace.collect.profiling.recording import Recording, Settings
from millrace.errors import Unavailable
from millrace.host import mounts, perf
from millrace.system_calls import in_own_thread
from tests.mounts import needs_own_mounts

pytestmark = [
    needs_own_mounts,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the server is x86-64 code"),
]

PLANTED = "planted_by_another_user"
NOBODY = 65534

# Counts down in anonymous memory, over and over; prints its address.
SERVER = r"""
import ctypes, mmap
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\x48\xc7\xc1\x00\x00\x10\x00\x48\xff\xc9\x75\xfb\xc3")
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(f"{address:x}", flush=True)
count_down = ctypes.CFUNCTYPE(None)(address)
while True:
    count_down()
"""


@contextlib.contextmanager
def server(*, own_mounts: bool) -> Iterator[tuple[int, str]]:
    """Yield the process of a server and the address of its code.

    It runs in its own mounts or the host's."""

    def start() -> subprocess.Popen[str]:
        if own_mounts:
            mounts.take_own(lambda: None, writable=[])
        return subprocess.Popen(
            [sys.executable, "-I", "-c", SERVER], stdout=subprocess.PIPE, text=True
        )

    with in_own_thread(start) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.kill()


@contextlib.contextmanager
def planted(pid: int, address: str, *, kind: str) -> Iterator[None]:
    path = Path(f"/tmp/perf-{pid}.map")
    try:
        if kind == "names":
            path.write_text(f"{address} 1000 {PLANTED}\n")
        else:
            os.mkfifo(path)
        os.chown(path, NOBODY, NOBODY)
        yield
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("own_mounts", [False, True])
@pytest.mark.parametrize("kind", ["names", "a pipe"])
def test_planted_names_are_neither_read_nor_waited_for(
    kind: str, own_mounts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_PRINT_LIMIT_S", 30.0)
    try:
        by = perf.find()
    except Unavailable as why:
        pytest.skip(str(why))
    with contextlib.ExitStack() as opened:
        pid, address = opened.enter_context(server(own_mounts=own_mounts))
        try:
            recorded = Recording(by, pid, Settings(499, "none"))
        except Unavailable as why:
            pytest.skip(str(why))
        opened.enter_context(contextlib.closing(recorded))
        opened.enter_context(planted(pid, address, kind=kind))
        recorded.begin()
        time.sleep(0.5)
        recorded.end()
        lines = list(recorded.lines())
    # perf looked for a map and found none.
    assert any(f"[unknown] (/tmp/perf-{pid}.map)" in line for line in lines)
    assert not any(PLANTED in line for line in lines)


def test_names_that_perf_read_nevertheless_are_left_out() -> None:
    line = f"mysqld 77 7f00a {PLANTED} (/tmp/perf-77.map)"
    [sample] = folding.parse([line])
    assert isinstance(sample, folding.Sample)
    assert sample.frames == ("[anon]`[unknown]",)
