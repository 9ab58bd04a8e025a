"""Test that tests which were killed leave nothing to the next ones."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from millrace.servers.instances.processes import ProcessId
from tests.conftest import end_left_by_killed_tests


def test_what_killed_tests_left_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = tmp_path / f"mr-{gone.pid}-x"
    kept = [tmp_path / f"mr-{os.getpid()}-x", tmp_path / "mr-tests-x"]
    for place in (left, *kept):
        place.mkdir()
    monkeypatch.setenv("MILLRACE_STATE", str(left / "state"))
    with subprocess.Popen(["sleep", "60"]) as server:
        process = ProcessId.of(server.pid)
        assert process is not None
        record = ownership.register(
            ownership.new_id("some"), server="some", role="server", directories=[]
        )
        ownership.add_process(record, process)
        monkeypatch.undo()
        end_left_by_killed_tests(tmp_path)
        assert server.wait(10) < 0
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_program_of_a_killed_test_is_ended_without_a_record(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = tmp_path / f"mr-{gone.pid}-x"
    left.mkdir()
    program = shutil.copy(str(shutil.which("sleep")), left / "mysqld")
    with subprocess.Popen([program, "60"]) as server:
        end_left_by_killed_tests(tmp_path)
        assert server.wait(10) < 0
    assert not left.exists()
