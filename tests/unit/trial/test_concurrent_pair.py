"""Test the two processes of a pair: failures, kills and stops of one or both.

Their trials are on a server that accepts connections and never sends a byte, so they begin, and
wait.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from millrace.errors import Interrupted
from millrace.host.cpuset import cpu_partitions
from millrace.model.events import StepBegan, TrialEvent
from millrace.model.servers import AttachedServer, FittedOptions
from millrace.servers import added
from millrace.servers.instances.signals import signals_as_errors
from millrace.store.records import PAIR_FAILED
from millrace.trial.concurrent_pair import execute_pair
from millrace.trial.group import GroupTrial
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.unit.workloads.small import driving

LIMIT_S = 60.0

Announce = Callable[[TrialEvent], None]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))


@pytest.fixture
def mute() -> Iterator[int]:
    """Return the port of a server that never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def pair(ports: tuple[int, int], announce: Announce = lambda _event: None) -> list[GroupTrial]:
    return [
        GroupTrial(
            TrialSpec(
                name=f"test/{half.side}",
                servers=(ServerSpec(theirs(half.side, port), FittedOptions("default", ())),),
                workload=ResolvedWorkload(driving(), {}),
                cpu_partition=half,
            ),
            f"side {half.side}",
            announce,
        )
        for half, port in zip(cpu_partitions(), ports, strict=True)
    ]


def theirs(side: int, port: int) -> AttachedServer:
    """Return an attached server at a port, under a name that workers find."""
    return added.add_attached(f"theirs-{side}", "mysql", f"mysql://u:p@127.0.0.1:{port}/")


def sides_of(pid: int) -> list[psutil.Process]:
    children = psutil.Process(pid).children(recursive=True)
    return [each for each in children if "millrace.trial.worker" in each.cmdline()]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def when_both_have_begun(do: Callable[[], None]) -> Announce:
    """Return a listener to a pair's events that acts when both are about to log in."""
    begun: list[str] = []

    def hear(event: TrialEvent) -> None:
        assert isinstance(event, StepBegan)
        begun.append(event.name)
        if begun.count("record") == 2:
            threading.Timer(0.3, do).start()

    return hear


def test_where_one_fails_the_other_is_ended_and_left_out(mute: int) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        nobody = server.getsockname()[1]
    refused, ended = execute_pair(pair((nobody, mute)))
    assert (refused.outcome, refused.failed_step) == ("failed", "record")
    assert (ended.outcome, ended.failed_step) == ("failed", PAIR_FAILED)
    assert str(ended.reason).startswith(
        "the other trial of the pair, side 0, failed at step record: "
    )
    assert sides_of(os.getpid()) == []


def test_a_side_that_is_killed_is_a_failed_trial(mute: int) -> None:
    def kill() -> None:
        sides = sides_of(os.getpid())
        next(each for each in sides if os.sched_getaffinity(each.pid) == cpus).kill()

    cpus = set(cpu_partitions()[1].cpus)
    left_out, killed = execute_pair(pair((mute, mute), when_both_have_begun(kill)))
    assert (killed.outcome, killed.failed_step) == ("failed", "record")
    assert "SIGKILL" in str(killed.reason)
    assert left_out.failed_step == PAIR_FAILED
    assert sides_of(os.getpid()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_both(mute: int, number: signal.Signals) -> None:
    stop = when_both_have_begun(lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match=number.name), signals_as_errors():
        execute_pair(pair((mute, mute), stop))
    assert sides_of(os.getpid()) == []


def test_a_side_that_somebody_stops_stops_the_run(mute: int) -> None:
    def stop() -> None:
        sides_of(os.getpid())[0].terminate()

    with pytest.raises(Interrupted, match="SIGTERM"):
        execute_pair(pair((mute, mute), when_both_have_begun(stop)))
    assert sides_of(os.getpid()) == []


def test_sides_end_with_a_run_that_is_killed(mute: int) -> None:
    program = (
        "from tests.unit.trial.test_concurrent_pair import pair; "
        "from millrace.trial.concurrent_pair import execute_pair; "
        f"execute_pair(pair(({mute}, {mute}), lambda _event: print(flush=True)))"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root
    ) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        sides = sides_of(process.pid)
        assert len(sides) == 2
        process.kill()
    wait_until(lambda: not any(each.is_running() for each in sides))
