"""Test that millrace leaves nothing behind and touches nothing else, however it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.errors import TrialFailed
from millrace.model.servers import FittedOptions
from millrace.servers.instances import lifecycle, ownership, processes
from millrace.servers.instances.instance import Instance
from tests.conftest import Initialise, InstanceOf, ServerOf

pytestmark = pytest.mark.integration

NAME = "mariadb-10.11.19"


# A separate millrace: starts an instance, prints its place, and waits to be ended.
OWNER = """
import json, sys, time
from millrace.errors import Interrupted
from millrace.model.servers import FittedOptions
from millrace.servers import install
from millrace.servers.instances import lifecycle, ownership
from millrace.servers.instances.signals import signals_as_errors
server = install.install(sys.argv[1])
try:
    with signals_as_errors(), lifecycle.create(server, FittedOptions("default", ())) as instance:
        if sys.argv[2] == "initialising":
            print(json.dumps({"pid": None, "directory": str(instance.directory)}), flush=True)
        instance.initialise(120)
        instance.start(60)
        print(json.dumps({"pid": instance.pid, "directory": str(instance.directory)}), flush=True)
        time.sleep(600)
except Interrupted as error:
    sys.exit(error.exit_status)
"""


@contextmanager
def owner(
    environment: dict[str, str], when: str = "running"
) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, NAME, when],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("when", ["initialising", "running"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_owner_cleans_up(
    server_of: ServerOf, child_environment: dict[str, str], number: signal.Signals, when: str
) -> None:
    server_of(NAME)
    with owner(child_environment, when) as (process, reported):
        process.send_signal(number)
        assert process.wait(60) == 130
    assert ownership.running() == []
    assert not Path(str(reported["directory"])).exists()
    if reported["pid"] is not None:
        assert processes.ProcessId.of(int(str(reported["pid"]))) is None


def test_what_a_killed_owner_left_is_ended_and_nothing_else(
    instance_of: InstanceOf, child_environment: dict[str, str]
) -> None:
    with instance_of(NAME) as ours, owner(child_environment) as (living, living_told):
        with owner(child_environment) as (killed, reported):
            killed.kill()
            killed.wait()
        left = processes.ProcessId.of(int(str(reported["pid"])))
        assert left is not None, "the server outlives its owner"
        (sentence,) = ownership.reap_orphans()
        assert str(killed.pid) in sentence
        assert str(left.pid) in sentence
        assert not left.exists()
        assert not Path(str(reported["directory"])).exists()
        assert ours.version().startswith("10.11.19")
        assert living.poll() is None
        assert processes.ProcessId.of(int(str(living_told["pid"]))) is not None
        assert len(ownership.running()) == 2
        living.terminate()
        assert living.wait(60) == 130
    assert ownership.running() == []


def test_an_owner_killed_while_initialising_leaves_nothing_either(
    server_of: ServerOf, child_environment: dict[str, str]
) -> None:
    server_of(NAME)
    with owner(child_environment, "initialising") as (killed, reported):
        killed.kill()
        killed.wait()
    assert len(ownership.reap_orphans()) == 1
    assert ownership.running() == []
    assert not Path(str(reported["directory"])).exists()


def test_an_error_inside_leaves_nothing(instance_of: InstanceOf) -> None:
    seen: list[tuple[processes.ProcessId | None, Path]] = []

    def fail(instance: Instance) -> None:
        assert instance.pid is not None
        seen.append((processes.ProcessId.of(instance.pid), instance.directory))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), instance_of(NAME) as instance:
        fail(instance)
    ((server, directory),) = seen
    assert server is not None
    assert not server.exists()
    assert not directory.exists()
    assert ownership.running() == []


def test_a_directory_that_vanished_is_no_reason_to_stumble(instance_of: InstanceOf) -> None:
    with instance_of(NAME) as instance:
        instance.kill()
        instance.directory.rename(instance.directory.with_suffix(".away"))
        with pytest.raises(TrialFailed):
            instance.check_alive()
        instance.directory.with_suffix(".away").rename(instance.directory)
    assert not instance.directory.exists()


def test_ctrl_c_of_the_terminal_is_not_meant_for_the_server(instance_of: InstanceOf) -> None:
    with instance_of(NAME) as instance:
        assert instance.pid is not None
        assert os.getsid(instance.pid) != os.getsid(0)
        assert os.getpgid(instance.pid) == instance.pid


def test_a_server_inherits_nothing_that_changes_it(
    server_of: ServerOf, initialise: Initialise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_TCP_PORT", "1")
    monkeypatch.setenv("LD_PRELOAD", "libnothing.so")
    with lifecycle.create(server_of(NAME), FittedOptions("default", ())) as instance:
        initialise(instance)
        instance.start(60)
        environment = Path(f"/proc/{instance.pid}/environ").read_bytes()
        files = Path(f"/proc/{instance.pid}/limits").read_text(encoding="ascii")
        instance.kill()
    assert b"MYSQL_TCP_PORT" not in environment
    assert b"LD_PRELOAD" not in environment
    assert f"MILLRACE_INSTANCE={instance.id}".encode() in environment
    (line,) = [text for text in files.splitlines() if text.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert int(soft) == min(int(hard), 1 << 20)
