"""Test the parts of an instance that need no server: its log, its socket and port, an address."""

import os
import socket
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.errors import HostError, UserError
from millrace.model.servers import AttachedServer
from millrace.servers.attached import (
    AttachedInstance,
    lacks_password,
    parse_dsn,
    with_password,
)
from millrace.servers.instances import instance_paths
from millrace.servers.instances.error_log import ErrorLog
from tests.unit.servers.installed import installed

PATTERNS = databases.get("mysql").log

QUIET = (
    "2026-11-20 15:00:00 1 [Note] InnoDB: Using Linux native AIO\n"
    "2026-11-20T15:00:00Z 0 [Warning] [MY-010075] No existing UUID has been found\n"
    "2026-11-20 15:00:00 1 [ERROR] Incorrect definition of table mysql.event\n"
    "/opt/x/mysqld: ready for connections.\n"
)

TROUBLE = [
    "2026-11-20 [ERROR] mysqld: Disk is full writing './mysql/big.MYD' (Errcode: 28)",
    "2026-11-20 0 [ERROR] InnoDB: Operating system error number 28 in a file operation.",
    "15:00:00 UTC - mysqld got signal 11 ;",
    "2026-11-20 [ERROR] [FATAL] InnoDB: Tablespace id is 5 in the data dictionary",
    "InnoDB: Assertion failure in thread 140 in file fil0fil.cc line 5",
]


def log_at(path: Path) -> ErrorLog:
    return ErrorLog(path, PATTERNS, port=7, socket=Path("/s"))


@pytest.mark.parametrize("line", TROUBLE)
def test_trouble_is_found_once(tmp_path: Path, line: str) -> None:
    file = tmp_path / "error.log"
    file.write_text(QUIET, encoding="utf-8")
    log = log_at(file)
    assert log.new_trouble() is None
    assert log.searched_to == file.stat().st_size
    with file.open("a", encoding="utf-8") as writer:
        writer.write(line[:20])
    assert log.new_trouble() is None, "half a line is not judged"
    with file.open("a", encoding="utf-8") as writer:
        writer.write(line[20:] + "\n")
    assert log.new_trouble() == line
    assert log.new_trouble() is None
    assert log.searched_to == file.stat().st_size


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_a_log_that_grows_is_read_to_its_last_complete_line(pieces: list[bytes]) -> None:
    file = Path(os.environ["MILLRACE_STATE"]).parent / "growing.log"
    file.unlink(missing_ok=True)
    log = log_at(file)
    for piece in pieces:
        with file.open("ab") as writer:
            writer.write(piece)
        log.new_trouble()
        assert log.searched_to == file.read_bytes().rfind(b"\n") + 1
    file.unlink(missing_ok=True)


def test_no_log_is_no_trouble(tmp_path: Path) -> None:
    log = log_at(tmp_path / "error.log")
    log.begin_phase()
    assert (log.new_trouble(), log.searched_to) == (None, 0)
    assert log.tail(5) == ""
    assert log.errors() == []


def test_errors_are_those_of_the_phase(tmp_path: Path) -> None:
    file = tmp_path / "error.log"
    file.write_text(QUIET, encoding="utf-8")
    log = log_at(file)
    log.begin_phase()
    with file.open("a", encoding="utf-8") as writer:
        writer.write("[Note] fine\n[ERROR] unknown variable 'x=1'\n[ERROR] Aborting\n")
    assert log.errors() == ["[ERROR] unknown variable 'x=1'", "[ERROR] Aborting"]
    assert log.tail(2) == "[ERROR] unknown variable 'x=1'\n[ERROR] Aborting"


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (
            "[ERROR] Can't start server: Bind on TCP/IP port: Address already in use",
            "the port 7 is taken by another process",
        ),
        (
            "[ERROR] Do you already have another mysqld server running on port: 7 ?",
            "the port 7 is taken by another process",
        ),
        (
            "[ERROR] Another process with pid 5 is using unix socket file.",
            "the socket /s is taken by another process",
        ),
        ("[ERROR] Error writing file './x' (Errcode: 28)", "the disk is full"),
        ("[ERROR] unknown option '--x'", None),
    ],
)
def test_what_an_error_means(tmp_path: Path, line: str, meaning: str | None) -> None:
    file = tmp_path / "error.log"
    file.write_text(line + "\n", encoding="utf-8")
    assert log_at(file).meaning() == meaning


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
    with pytest.raises(UserError, match="theirs: the address is not usable") as caught:
        parse_dsn(attached(dsn))
    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_uncontrolled_properties_are_listed() -> None:
    near = AttachedInstance(attached("mysql://u:p@127.0.0.1/"))
    far = AttachedInstance(attached("mysql://u:p@db.example/"))
    assert set(far.limits) - set(near.limits)
    assert not hasattr(near, "start")
    assert not hasattr(near, "stop")
