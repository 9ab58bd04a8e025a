import os
import socket
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import HostError, UserError
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance, lacks_password, parse_dsn, with_password
from millrace.servers.instances import instance_paths
from tests.support.installed import installed


def test_a_socket_path_is_short() -> None:
    assert instance_paths.own_socket(Path("/w/i"), "i", "mysqld.sock") == Path(
        "/w/i/run/mysqld.sock"
    )
    deep = instance_paths.own_socket(Path("/" + "µ" * 60), "x-1", "mysqld.sock")
    assert deep == Path("/tmp/millrace-x-1/run/mysqld.sock")
    edge = Path("/" + "d" * 89)
    assert len(os.fsencode(edge / "run/mysqld.sock")) == 106
    assert instance_paths.own_socket(edge, "x", "mysqld.sock") == edge / "run/mysqld.sock"


def test_a_work_directory_that_every_user_may_write_is_refused(tmp_path: Path) -> None:
    """Accept /tmp, where only owners rename; the check needs no server."""
    server = installed(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    for mode, refused in ((0o777, True), (0o1777, False)):
        work.chmod(mode)
        expected = pytest.raises(HostError, match="could replace") if refused else nullcontext()
        directory = work / "i"
        with expected:
            instance_paths.make_directories(server, [directory], directory / "run", uid=None)
    assert sorted(path.name for path in directory.iterdir()) == ["data", "load", "run", "tmp"]


def test_a_reserved_port_is_for_one_listener() -> None:
    with instance_paths.reserved_port() as port:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)) as server:
            assert server.getsockname()[1] == port
            assert instance_paths.is_listened_at(port)
        assert not instance_paths.is_listened_at(port)
        with socket.create_server(("127.0.0.1", port)):
            pass


def attached(dsn: str) -> AttachedServer:
    return AttachedServer("theirs", "mysql", dsn)


def test_an_address_is_read() -> None:
    address = parse_dsn(attached("mysql://me:p%40ss@db.example:3307/"))
    assert (address.user, address.password) == ("me", "p@ss")
    assert (address.host, address.port, address.socket) == ("db.example", 3307, None)
    assert "p@ss" not in repr(address)
    local = parse_dsn(attached("mysql://me@/?socket=/run/my.sock"))
    assert (local.socket, local.port, local.password) == (Path("/run/my.sock"), 3306, "")


ADDRESSES = ["mysql://m%40e@db.example:3307/", "mysql://me@[::1]:1/", "mysql://me@/?socket=/s"]


@given(st.sampled_from(ADDRESSES), st.text())
def test_a_password_is_put_into_an_address(dsn: str, password: str) -> None:
    assert lacks_password(attached(dsn))
    made = with_password(attached(dsn), password)
    assert not lacks_password(made)
    assert parse_dsn(made) == replace(parse_dsn(attached(dsn)), password=password)


@pytest.mark.parametrize(
    "dsn",
    [
        "", "db.example", "http://u:hidden@h/", "mysql://h/", "mysql://u:hidden@/",
        "mysql://u:hidden@h:port/", "mysql://u:hidden@h/db", "mysql://u:hidden@h/?sokcet=/x",
        "mysql://u:hidden@/?socket=relative", "mysql://u:hidden@[h/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_its_password(dsn: str) -> None:
    with pytest.raises(UserError, match="theirs: invalid address") as caught:
        parse_dsn(attached(dsn))
    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_uncontrolled_properties_are_listed() -> None:
    near = AttachedInstance(attached("mysql://u:p@127.0.0.1/"))
    far = AttachedInstance(attached("mysql://u:p@db.example/"))
    assert set(far.limits) - set(near.limits)
    assert not hasattr(near, "start")
    assert not hasattr(near, "stop")
