"""Test real servers of each kind from an empty directory to a clean stop."""

import contextlib
import os
import pwd
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pymysql
import pytest

from millrace import databases, paths
from millrace.errors import HostError, TrialFailed
from millrace.model.servers import AttachedServer, FittedOptions
from millrace.servers import verify
from millrace.servers.attached import AttachedInstance, with_password
from millrace.servers.instances import lifecycle, ownership
from millrace.servers.instances.instance import Instance
from tests.conftest import Initialise, InstanceOf, ServerOf

pytestmark = pytest.mark.integration

BOOTSTRAP = "mysql-5.6.24"
INITIALIZE = "mysql-5.7.22"
JSON_ACCOUNTS = "mariadb-10.11.19"
OWN_LOADER = "mariadb-11.8.9"
KINDS = (BOOTSTRAP, INITIALIZE, JSON_ACCOUNTS, OWN_LOADER)


@pytest.mark.parametrize("name", KINDS)
def test_a_server_boots_loads_and_stops(server_of: ServerOf, name: str) -> None:
    said: list[str] = []
    result = verify.verify(server_of(name), said.append)
    assert result.reason is None
    assert result.ok
    assert result.version_reported is not None
    assert result.version_reported.startswith(name.split("-")[1])
    assert [step for step, _, _ in result.steps] == [
        "initialise", "start", "query", "insert", "load from the server", "stop",
    ]  # fmt: skip
    assert len(said) == len(result.steps)
    assert ownership.running() == []


@pytest.mark.parametrize("name", KINDS)
def test_only_root_with_its_password_gets_in_and_only_on_loopback(
    instance_of: InstanceOf, name: str
) -> None:
    with instance_of(name) as instance:
        accounts = instance.query("SELECT User, Host FROM mysql.user WHERE User NOT LIKE 'm%.%'")
        assert sorted(accounts) == [("root", "127.0.0.1"), ("root", "localhost")]
        log_in_by_tcp(instance, "root", instance.password)
        for user in ("root", "", "anybody"):
            with pytest.raises(pymysql.OperationalError, match="denied"):
                log_in_by_tcp(instance, user, "")
        assert instance.pid is not None
        assert listening(instance.pid) == {f"0100007F:{instance.port:04X}"}


def test_two_instances_of_a_server_differ_in_nothing_but_host_variables(
    instance_of: InstanceOf,
) -> None:
    for name in (INITIALIZE, JSON_ACCOUNTS):
        with instance_of(name) as one, instance_of(name) as other:
            a, b = one.settings(), other.settings()
        patterns = databases.get(one.server.family).host_variables
        different = {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}
        assert {"port", "socket", "datadir"} <= different
        unexplained = [k for k in different if not any(fnmatch(k, p) for p in patterns)]
        assert unexplained == []


def test_as_root_the_server_runs_as_somebody_else(instance_of: InstanceOf) -> None:
    with instance_of(JSON_ACCOUNTS) as instance:
        owner = Path(f"/proc/{instance.pid}").stat().st_uid
        if os.geteuid() == 0:
            assert instance.runs_as == "millrace"
            with pytest.raises(KeyError):
                pwd.getpwuid(owner)
            assert instance.data_dir.stat().st_uid == owner
            assert instance.directory.stat().st_uid == instance.load_dir.stat().st_uid == 0
        else:
            assert owner == os.geteuid()


def test_a_place_that_only_root_reaches_is_named_and_no_server_runs_as_root(
    server_of: ServerOf, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has somebody else to run a server as")
    tmp_path.chmod(0o700)
    with (
        pytest.raises(HostError, match=f"permission denied .*: {tmp_path}$") as caught,
        lifecycle.create(server_of(JSON_ACCOUNTS), nothing(), work_dir=tmp_path),
    ):
        pass
    assert f"chmod o+x {tmp_path}" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_a_deep_work_directory_gets_its_socket_elsewhere(
    server_of: ServerOf, initialise: Initialise, own_places: Path
) -> None:
    deep = own_places / "work" / ("d" * 60) / ("e" * 60)
    with lifecycle.create(server_of(INITIALIZE), nothing(), work_dir=deep) as instance:
        initialise(instance)
        instance.start(30)
        assert len(os.fsencode(instance.socket)) < 107
        assert instance.version() == "5.7.22"
    assert not instance.socket.parent.parent.exists()
    assert not instance.directory.exists()
    deep.rmdir()
    deep.parent.rmdir()


def test_an_instance_can_be_killed_and_started_again(instance_of: InstanceOf) -> None:
    with instance_of(INITIALIZE) as instance:
        instance.query("CREATE DATABASE kept")
        instance.kill()
        assert instance.pid is None
        instance.start(60)
        assert ("kept",) in instance.query("SHOW DATABASES")


def test_sessions_are_in_utc_and_answers_are_text(instance_of: InstanceOf) -> None:
    with instance_of(JSON_ACCOUNTS) as instance:
        assert instance.query("SELECT 1, NULL, 1.50, 'µ', x'C2B5'") == [
            ("1", None, "1.50", "µ", "µ")
        ]
        with contextlib.closing(instance.connect("mysql")) as session:
            (row,) = session.query("SELECT @@time_zone, @@autocommit, DATABASE()")
            assert row == ("+00:00", 1, "mysql")


def test_no_password_is_left_in_a_file_or_a_command_line(instance_of: InstanceOf) -> None:
    for name in (BOOTSTRAP, INITIALIZE):
        with instance_of(name) as instance:
            password = instance.password.encode()
            own = [p for p in instance.directory.iterdir() if p.is_file()]
            own += [Path(f"/proc/{instance.pid}/cmdline"), Path(f"/proc/{instance.pid}/environ")]
            own += list((paths.state_dir() / "instances").iterdir())
            assert len(own) >= 4
            assert [path for path in own if password in path.read_bytes()] == []


def test_attached_server_is_only_queried(instance_of: InstanceOf) -> None:
    with instance_of(JSON_ACCOUNTS) as instance:
        dsn = f"mysql://root:{instance.password}@127.0.0.1:{instance.port}/"
        server = AttachedServer("theirs", "mariadb", dsn)
        attached = AttachedInstance(server)
        assert attached.version() == instance.version()
        assert attached.settings()["port"] == str(instance.port)
        assert attached.limits
        before = instance.query("SHOW DATABASES")
        result = verify.verify(server, lambda _: None)
        assert [step for step, _, _ in result.steps] == ["query", "insert", "local_infile"]
        assert instance.query("SHOW DATABASES") == before
        assert instance.pid is not None


@pytest.mark.parametrize("name", [BOOTSTRAP, INITIALIZE, JSON_ACCOUNTS])
def test_unsuitable_attached_server_is_refused_with_a_reason(
    instance_of: InstanceOf, name: str
) -> None:
    with instance_of(name) as instance:
        dsn = f"mysql://root:{instance.password}@127.0.0.1:{instance.port}/?allow-unverified=yes"
        family = instance.server.family
        other = "mariadb" if family == "mysql" else "mysql"
        result = verify.verify(AttachedServer("theirs", other, dsn), lambda _: None)
        assert not result.ok
        assert f"is not of the family {other}" in (result.reason or "")
        assert f"--family {family}" in (result.reason or "")
        theirs = AttachedServer("theirs", family, dsn)
        instance.query("SET GLOBAL local_infile=0")
        result = verify.verify(theirs, lambda _: None)
        assert (result.reason or "").startswith("local_infile: it is off there")
        instance.query("SET GLOBAL local_infile=1")
        assert verify.verify(theirs, lambda _: None).ok
        with pytest.raises(TrialFailed) as caught:
            AttachedInstance(theirs).query("SELECT nothing")
        assert caught.value.step is None


@pytest.mark.parametrize("name", [BOOTSTRAP, INITIALIZE])
def test_a_password_may_hold_any_letter(instance_of: InstanceOf, name: str) -> None:
    password = "pä€/@:%"
    with instance_of(name) as instance:
        instance.query(f"CREATE USER 'me'@'127.0.0.1' IDENTIFIED BY '{password}'")
        address = AttachedServer(
            "theirs", "mysql", f"mysql://me@127.0.0.1:{instance.port}/?allow-unverified=yes"
        )
        theirs = AttachedInstance(with_password(address, password))
        assert theirs.version() == instance.version()


def nothing() -> FittedOptions:
    return FittedOptions("default", ())


def log_in_by_tcp(instance: Instance, user: str, password: str) -> None:
    pymysql.connect(host="127.0.0.1", port=instance.port, user=user, password=password).close()


def listening(pid: int) -> set[str]:
    """Return the local addresses (hexadecimal) of the TCP sockets on which the process listens."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(entry.readlink()))
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
    ]
    return {fields[1] for fields in lines if fields[3] == "0A" and fields[9] in inodes}


def test_this_file_sees_a_listener() -> None:
    """Show that the check above can fail."""
    script = """
import socket
listener = socket.create_server(("", 0))
print(listener.getsockname()[1], flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert listening(process.pid) == {f"00000000:{port:04X}"}
        process.kill()
