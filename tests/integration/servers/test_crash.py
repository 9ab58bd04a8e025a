"""Test that server failures are noticed at once and reported in the server's own words."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import TrialFailed
from millrace.model.servers import InstalledServer
from millrace.servers import verify
from millrace.servers.instances import lifecycle, ownership, processes
from millrace.servers.instances.instance import Instance
from tests.conftest import Fitted, Initialise, InstanceOf, ServerOf

pytestmark = pytest.mark.integration

KINDS = ("mysql-5.6.24", "mysql-5.7.22", "mariadb-10.11.19")
FAR_AWAY_S = 600.0  # a limit long enough that waiting for it would be noticed


@pytest.mark.parametrize("name", KINDS)
def test_a_killed_server_is_seen(instance_of: InstanceOf, name: str) -> None:
    with instance_of(name) as instance:
        instance.check_alive()
        assert instance.pid is not None
        kill_and_wait(instance)
        with pytest.raises(TrialFailed, match=r"ended by signal 9 \(SIGKILL\)") as caught:
            instance.check_alive(step="measure")
        assert caught.value.step == "measure"
        assert caught.value.log_tail
        with pytest.raises(TrialFailed, match=name):
            instance.query("SELECT 1")
        with pytest.raises(TrialFailed, match="SIGKILL"):
            instance.stop(FAR_AWAY_S)


@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_value_ends_the_start_with_the_words_of_the_server(
    server_of: ServerOf, fitted: Fitted, initialise: Initialise, name: str
) -> None:
    with lifecycle.create(server_of(name), fitted(binlog_format="SIDEWAYS")) as instance:
        initialise(instance)
        with pytest.raises(TrialFailed) as caught:
            instance.start(FAR_AWAY_S)
    assert caught.value.step == "start"
    assert "exit status" in caught.value.message
    assert "SIDEWAYS" in caught.value.message
    assert "SIDEWAYS" in (caught.value.log_tail or "")


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-5.7.22"])
def test_a_value_that_cannot_be_initialised_with(
    server_of: ServerOf, fitted: Fitted, name: str
) -> None:
    with lifecycle.create(server_of(name), fitted(innodb_page_size="5000")) as instance:
        with pytest.raises(TrialFailed, match=r"(?i)page.size") as caught:
            instance.initialise(FAR_AWAY_S)
        assert caught.value.step == "initialise"


def test_an_option_that_shapes_the_data_directory_arrives(instance_of: InstanceOf) -> None:
    for name in ("mysql-5.7.22", "mariadb-10.11.19"):
        with instance_of(name, innodb_page_size="4096") as instance:
            assert instance.settings()["innodb_page_size"] == "4096"


@pytest.mark.parametrize("name", KINDS)
def test_a_taken_port_is_named(
    server_of: ServerOf, fitted: Fitted, initialise: Initialise, name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with lifecycle.create(server_of(name), fitted(), port=port) as instance:
            initialise(instance)
            with pytest.raises(TrialFailed, match=f"port {port} is taken"):
                instance.start(FAR_AWAY_S)


@pytest.mark.parametrize("name", KINDS)
def test_a_taken_socket_is_named_and_its_holder_unharmed(
    server_of: ServerOf, instance_of: InstanceOf, fitted: Fitted, initialise: Initialise, name: str
) -> None:
    with instance_of(name) as holder:
        with lifecycle.create(server_of(name), fitted(), socket=holder.socket) as instance:
            initialise(instance)
            with pytest.raises(TrialFailed, match=r"socket .* is taken by another process"):
                instance.start(FAR_AWAY_S)
        assert holder.version()


def test_a_start_that_hangs_ends_with_its_limit(
    server_of: ServerOf, fitted: Fitted, initialise: Initialise
) -> None:
    with lifecycle.create(server_of("mysql-5.6.24"), fitted()) as instance:
        initialise(instance)
        with pytest.raises(TrialFailed, match="not ready after 0 s"):
            instance.start(0)
        assert instance.pid is None


def test_slow_stop_is_killed_and_reported(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.6.24") as instance:
        assert instance.pid is not None
        os.kill(instance.pid, signal.SIGSTOP)
        with pytest.raises(TrialFailed, match="so killed"):
            instance.stop(0.1)
        assert instance.pid is None


def test_crash_during_stop_is_reported(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.6.24") as instance:
        assert instance.pid is not None
        os.kill(instance.pid, signal.SIGSTOP)
        # Both wait for the process to continue; the crash is delivered first.
        os.kill(instance.pid, signal.SIGSEGV)
        os.kill(instance.pid, signal.SIGCONT)
        with pytest.raises(TrialFailed, match=r"signal|exit status"):
            instance.stop(60)


def test_broken_program_is_reported(server_of: ServerOf, fitted: Fitted, own_places: Path) -> None:
    good = server_of("mysql-5.6.24")
    copy = own_places / "broken-share"
    shutil.copytree(good.share_dir, copy)
    (copy / "mysql_system_tables_data.sql").write_text("SELECT nonsense FROM nowhere;\n")
    broken = InstalledServer(**{**vars(good), "share_dir": copy})
    try:
        result = verify.verify(broken, lambda _: None)
    finally:
        shutil.rmtree(copy)
    assert not result.ok
    assert result.reason is not None
    assert result.reason.startswith("initialise: mysql-5.6.24")
    assert ownership.running() == []


@pytest.fixture
def small_disk(own_places: Path) -> Iterator[Path]:
    """Mount a small file system; only root may do so."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    place = own_places / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=220m,mode=755", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        place.rmdir()
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)
    place.rmdir()


def test_a_full_disk_is_trouble(
    server_of: ServerOf, fitted: Fitted, initialise: Initialise, small_disk: Path
) -> None:
    server = server_of("mysql-5.6.24")
    with lifecycle.create(server, fitted(), work_dir=small_disk) as instance:
        initialise(instance)
        instance.start(60)
        assert instance.trouble() is None
        instance.query("CREATE TABLE mysql.big (a longblob) ENGINE=MyISAM")
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
        with pytest.raises(TrialFailed):
            instance.query("INSERT INTO mysql.big VALUES (repeat('x', 4000000))", limit_s=3)
        line = instance.trouble()
        assert line is not None
        assert "full" in line.lower() or "28" in line
        assert instance.trouble() is None, "a trouble is reported once"
        instance.kill()


def kill_and_wait(instance: Instance) -> None:
    assert instance.pid is not None
    process = processes.ProcessId.of(instance.pid)
    assert process is not None
    assert processes.end(process, signal.SIGKILL, limit_s=30)
