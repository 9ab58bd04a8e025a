"""Installs from nothing, through the package clients of this host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.servers.locks import exclusive
from millrace.servers.progress import Silent

pytestmark = pytest.mark.integration

NAME = "mysql-5.6.24"
LIMIT_S = 300


@pytest.fixture
def environment(child_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {**child_environment, "MILLRACE_CACHE": str(tmp_path / "cache")}


def millrace(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "millrace.cli.main", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_install_the_same_server_once(environment: dict[str, str]) -> None:
    cache = Path(environment["MILLRACE_CACHE"])
    with exclusive(cache / f"servers/.{NAME}.lock", "the test", Silent()):
        processes = [millrace(environment, "servers", "install", NAME) for _ in range(2)]
        firsts = [process.stderr.readline() for process in processes if process.stderr]
        assert all("waiting" in line for line in firsts), firsts
    said = [process.communicate(timeout=LIMIT_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert "".join(said).count("unpacking") == 1
    assert {path.name for path in (cache / "servers").iterdir()} == {NAME, f".{NAME}.lock"}
    assert list((cache / "downloads").iterdir()) == []
    shown = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "servers", "show", NAME, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    server = json.loads(shown.stdout)
    assert server["version"] == "5.6.24"
    assert server["symbols"] == "DWARF"
    assert server["async_io"] == "libaio"


def test_an_installation_that_was_killed_can_be_repeated(environment: dict[str, str]) -> None:
    process = millrace(environment, "servers", "install", NAME)
    assert process.stderr is not None
    assert "unpacking" in process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = millrace(environment, "servers", "install", NAME)
    _, said = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, said
    servers = Path(environment["MILLRACE_CACHE"]) / "servers"
    assert {path.name for path in servers.iterdir()} == {NAME, f".{NAME}.lock"}


def test_a_mistake_ends_with_2_and_a_missing_client_with_3(
    environment: dict[str, str], tmp_path: Path
) -> None:
    wrong = millrace(environment, "servers", "install", "mysql-5.6.25")
    assert "mysql-5.6.24" in wrong.communicate(timeout=LIMIT_S)[1]
    assert wrong.returncode == 2
    bare = millrace({**environment, "PATH": str(tmp_path)}, "servers", "install", NAME)
    assert "npm is needed" in bare.communicate(timeout=LIMIT_S)[1]
    assert bare.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_installation_ends_its_client(
    number: signal.Signals, environment: dict[str, str]
) -> None:
    process = millrace(environment, "servers", "install", "mysql-5.7.22")
    client = wait_for_child(process.pid)
    process.send_signal(number)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert not Path(f"/proc/{client}").exists()


def wait_for_child(pid: int) -> str:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := children.read_text().split()):
        os.sched_yield()
    return found[0]
