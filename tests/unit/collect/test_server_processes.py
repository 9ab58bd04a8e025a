"""Test a server's processes, read and stopped as a whole."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from millrace.collect.server_processes import ServerProcesses, Stopper

FAMILY_OF_SLEEPERS = "sleep 600 & sleep 600 & echo; wait"


@pytest.fixture
def parent() -> Iterator[int]:
    """Return a process with two children."""
    command = ["/bin/sh", "-c", FAMILY_OF_SLEEPERS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        os.killpg(process.pid, 9)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_server_with_threads_is_one_process(parent: int) -> None:
    assert ServerProcesses(parent).pids() == (parent,)
    assert [tid for tid, _ in ServerProcesses(parent).tasks()] == [parent]


def test_a_server_with_a_process_a_session_is_all_of_them(parent: int) -> None:
    server = ServerProcesses(parent, has_children=True)
    first, *children = server.pids()
    assert first == parent
    assert len(children) == 2
    assert sorted(tid for tid, _ in server.tasks()) == sorted([parent, *children])
    assert server.cpu_time().total_ns >= ServerProcesses(parent).cpu_time().total_ns


def test_all_processes_are_stopped_and_go_on(parent: int) -> None:
    server = ServerProcesses(parent, has_children=True)
    with closing(Stopper(server)) as stopper:
        stopper.stop()
        for pid in server.pids():
            while state(pid) != "T":  # a signal takes effect when the process is next scheduled
                pass
        stopper.resume()
        for pid in server.pids():
            while state(pid) == "T":
                pass
