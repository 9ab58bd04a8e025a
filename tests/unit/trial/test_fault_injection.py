"""Test a process that is stopped for a share of the time, and the measured share."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.collect.server_processes import ServerProcesses
from millrace.errors import HostError, UserError
from millrace.experiment.slowdown import OptionGiven, SlowFsync
from millrace.model.servers import FittedOptions, InstalledServer, LeftOut, Option
from millrace.trial import fault_injection
from millrace.trial.fault_injection import StopInjection, owed, refuse_left_out, slowed_server
from tests.support.installed import installed
from tests.support.measuring import BEGIN, END, RESULT, measured, measurement

# Counts for a requested time, and prints how much of it it did not run.
_COUNTING = """
import time
began = last = time.monotonic()
held = 0.0
while last - began < 1.5:
    now = time.monotonic()
    held += max(now - last - 0.002, 0)
    last = now
print(held)
"""

_SYNCING = """
import os, tempfile, time
with tempfile.TemporaryFile() as file:
    began = time.monotonic()
    for _ in range(25):
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
    print(time.monotonic() - began)
"""


@given(st.floats(0.0, 0.9), st.lists(st.floats(0.0, 0.02), max_size=40))
def test_later_turns_stop_longer_after_short_ones(share: float, late: list[float]) -> None:
    """A late turn is compensated: the share of all turns is met at the end of each."""
    stopped = 0.0
    for turn, too_much in enumerate(late, start=1):
        stopped += max(owed(share, turn, stopped), 0.0)
        assert stopped >= share * turn * 0.1 - 1e-9
        stopped += too_much * share
    assert owed(share, len(late) + 1, stopped) <= share * 0.1 + 1e-9


@pytest.mark.quiet
def test_a_process_is_stopped_for_the_share_and_goes_on() -> None:
    measuring = measurement()
    with subprocess.Popen([sys.executable, "-c", _COUNTING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found = StopInjection(ServerProcesses(process.pid), 0.2, measuring, "server")
        time.sleep(0.3)
        found.on_event(BEGIN)
        time.sleep(1.0)
        found.on_event(END)
        held_s = float(process.stdout.read())
    found.contribute(RESULT)
    values = measured(measuring)
    share = values["slowdown_stopped_s"] / values["slowdown_window_s"]
    assert 0.19 < share < 0.6  # a busy host may be late for the end of the last turn
    assert held_s > 0.5 * values["slowdown_stopped_s"]  # it begins and ends by itself


def test_a_process_that_is_gone_is_no_error() -> None:
    measuring = measurement()
    with subprocess.Popen(["sleep", "60"]) as process:
        found = StopInjection(ServerProcesses(process.pid), 0.5, measuring, "server")
        found.on_event(BEGIN)
        process.kill()
        process.wait()
        time.sleep(0.2)
        found.end()
    found.contribute(RESULT)
    assert measured(measuring)["slowdown_window_s"] > 0


def test_each_fsync_and_fdatasync_takes_the_delay_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path))
    server = slowed_server(installed(tmp_path), SlowFsync(2_000))
    assert isinstance(server, InstalledServer)
    done = subprocess.run(
        [sys.executable, "-c", _SYNCING], env=server.env, capture_output=True, check=True
    )
    assert float(done.stdout) >= 50 * 0.002


def test_unknown_option_of_a_slowdown_is_refused() -> None:
    class Server:
        name = "mysql-5.5.34"

    option = Option("innodb_new", "1", True, "factor")
    fitted = FittedOptions(
        "default", (), (LeftOut(option, "mysql-5.5.34 has no option innodb_new"),)
    )
    with pytest.raises(UserError, match=r"--slowdown innodb_new=1: mysql-5\.5\.34 has no option"):
        refuse_left_out(Server(), fitted, OptionGiven("innodb_new", "1"))  # type: ignore[arg-type]
    refuse_left_out(Server(), fitted, OptionGiven("innodb_old", "1"))  # type: ignore[arg-type]
    refuse_left_out(Server(), fitted, SlowFsync(1))  # type: ignore[arg-type]


def test_slow_fsync_is_refused_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(HostError, match="needs a C compiler") as refused:
        fault_injection.slow_fsync_library()
    assert "--slowdown cpu" in (refused.value.hint or "")
