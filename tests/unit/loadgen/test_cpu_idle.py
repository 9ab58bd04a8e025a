"""Test the load generator's control of CPU idle states; needs the program, no server."""

import os
from pathlib import Path

import pytest

from millrace.errors import HostError
from millrace.loadgen import cpu_idle


def idle_class_threads() -> list[int]:
    """Return the processes of threads in the idle scheduling class (5) of our load generators.

    Only load generators that this process started count; others may run tests meanwhile. The first
    thread of each does not poll, though all are of the class where the tests themselves are.
    """
    found = []
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        try:
            program = (stat.parents[2] / "comm").read_text().strip()
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        ours = program == "millrace-load" and int(fields[1]) == os.getpid()
        if ours and fields[38] == "5" and stat.parts[2] != stat.parts[4]:
            found.append(int(stat.parts[2]))
    return found


@pytest.mark.quiet
def test_each_cpu_is_measured() -> None:
    measured = cpu_idle.measure()
    assert {cpu.cpu for cpu in measured} == os.sched_getaffinity(0)
    assert all(cpu.idle_us > 0 and cpu.awake_us > 0 for cpu in measured)


def test_it_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cpu_idle.measure()
    monkeypatch.setenv("MILLRACE_LOAD", "/nowhere")
    assert cpu_idle.measure() is first


def test_pollers_live_as_long_as_the_block() -> None:
    before = idle_class_threads()
    with cpu_idle.disable_idle_states() as how:
        assert how.pollers == len(os.sched_getaffinity(0))
        assert len(idle_class_threads()) == len(before) + how.pollers
    assert idle_class_threads() == before


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no scheduling by session")
def test_pollers_give_way_to_a_server_in_another_session() -> None:
    before = set(idle_class_threads())
    with cpu_idle.disable_idle_states():
        (poller,) = set(idle_class_threads()) - before
        assert Path(f"/proc/{poller}/autogroup").read_text().split()[-1] == "19"


def test_a_program_that_cannot_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "millrace-load"
    refusing.write_text("#!/bin/sh\necho 'cannot keep CPUs awake: no' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("MILLRACE_LOAD", str(refusing))
    with (
        pytest.raises(HostError, match="cannot keep CPUs awake: no"),
        cpu_idle.disable_idle_states(),
    ):
        pass
