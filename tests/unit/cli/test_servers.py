"""Test `millrace servers` as a user calls it."""

import json
import os
import pty
import socket
import sys
from pathlib import Path

import pytest

from tests.support import small_servers
from tests.support.called import millrace

SECRET = "p@ss:w/rd µ%41"


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MILLRACE_PASSWORD", raising=False)


def servers(*arguments: str, password: str | None = None, status: int = 0) -> tuple[str, str]:
    """Call the command without a terminal and return (stdout, stderr)."""
    with pytest.MonkeyPatch.context() as patch:
        if password is not None:
            patch.setenv("MILLRACE_PASSWORD", password)
        done = millrace("servers", *arguments, status=status)
    return done.stdout, done.stderr


def attach(dsn: str) -> tuple[str, ...]:
    return "add", "cloud", "--family", "mysql", "--attach", dsn


def kept_dsn() -> str:
    record = Path(os.environ["MILLRACE_STATE"]) / "servers/cloud/attached.json"
    dsn: str = json.loads(record.read_text(encoding="utf-8"))["dsn"]
    return dsn


QUOTED = "mysql://me:p%40ss%3Aw%2Frd%20%C2%B5%2541@db.test:3307/"


def test_the_password_is_taken_from_the_environment() -> None:
    out, err = servers(*attach("mysql://me@db.test:3307/"), password=SECRET)
    assert kept_dsn() == QUOTED
    assert SECRET not in out + err


def test_a_password_in_the_address_goes_before() -> None:
    for number, password in enumerate(("other", "")):
        if number:
            servers("remove", "cloud", password=SECRET)
        servers(*attach(f"mysql://me:{password}@db.test/"), password=SECRET)
        assert kept_dsn() == f"mysql://me:{password}@db.test/"


def test_no_password_without_a_terminal() -> None:
    servers(*attach("mysql://me@/?socket=/run/my.sock"))
    assert kept_dsn() == "mysql://me:@/?socket=/run/my.sock"


def test_no_program_that_a_command_starts_has_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def see() -> list[object]:
        seen.append(repr(dict(os.environ)))
        return []

    monkeypatch.setattr("millrace.servers.install.list_servers", see)
    servers("list", password=SECRET)
    assert "PATH" in seen[-1]
    assert SECRET not in seen[-1]


def test_a_server_that_does_not_answer_is_added_with_a_word() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        _, err = servers(*attach(f"mysql://me:x@127.0.0.1:{port}/?tls=disabled"))
    assert "added cloud" in err
    assert "it accepts no session now" in err
    assert f"127.0.0.1:{port}" in err
    assert "millrace servers verify cloud" in err


def test_nothing_is_removed_where_one_of_the_names_is_unknown() -> None:
    servers(*attach("mysql://me:x@127.0.0.1:1/"))
    _, err = servers("remove", "cloud", "cluod", status=2)
    assert "unknown server 'cluod'" in err
    assert kept_dsn() == "mysql://me:x@127.0.0.1:1/"
    _, err = servers("remove", "cloud", "mysql-5.6.24", status=2)
    assert "mysql-5.6.24 is not installed" in err
    assert kept_dsn() == "mysql://me:x@127.0.0.1:1/"


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"manifest_version": 7}', '{"manifest_version": 1}']
)
def test_a_damaged_manifest_concerns_its_server_alone(tmp_path: Path, content: str) -> None:
    servers(*attach("mysql://me:x@127.0.0.1:1/"))
    for place in ("cache/servers/mysql-5.6.24", "state/servers/mine"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "server.json").write_text(content)
    out, _ = servers("list", "--json")
    states = {row["name"]: row["state"] for row in json.loads(out)}
    assert (states["mysql-5.6.24"], states["mine"]) == ("damaged", "damaged")
    assert (states["mysql-5.7.22"], states["cloud"]) == ("available", "attached")
    servers("show", "cloud")
    _, err = servers("show", "mysql-5.6.24", status=4)
    assert "server.json cannot be read" in err
    _, err = servers("install", "mysql-5.7", status=2)
    assert "unknown server 'mysql-5.7'" in err
    servers("remove", "mysql-5.6.24", "mine")


@pytest.mark.parametrize("dsn", ["nothing", "mysql://x@[/"])
def test_a_damaged_address_concerns_its_server_alone(tmp_path: Path, dsn: str) -> None:
    place = tmp_path / "state/servers/theirs"
    place.mkdir(parents=True)
    record = {"name": "theirs", "family": "mysql", "dsn": dsn}
    (place / "attached.json").write_text(json.dumps(record))
    out, _ = servers("list", "--json")
    assert {row["name"]: row["state"] for row in json.loads(out)}["theirs"] == "damaged"


def on_a_terminal(environment: dict[str, str], command: list[str], typed: str) -> tuple[str, int]:
    """Return the text on a terminal, and the exit status."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, environment)
    shown = b""
    answered = False
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        shown += piece
        if not answered and b"none): " in shown:
            os.write(terminal, typed.encode() + b"\n")
            answered = True
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert answered, shown
    return shown.decode(), os.waitstatus_to_exitcode(status)


def test_password_prompt_hides_input(child_environment: dict[str, str]) -> None:
    call = [sys.executable, "-m", "millrace.cli.main", "servers"]
    with_port = [*call, *attach("mysql://me@db.test:3307/")]
    shown, status = on_a_terminal(child_environment, with_port, SECRET)
    assert status == 0, shown
    assert SECRET not in shown
    assert kept_dsn() == QUOTED
    servers("remove", "cloud")
    shown, status = on_a_terminal(child_environment, [*call, *attach("mysql://me@db.test/")], "")
    assert (status, kept_dsn()) == (0, "mysql://me:@db.test/"), shown


def test_what_is_no_address_or_no_password_is_refused() -> None:
    _, err = servers(*attach("mysql://db.test/"), status=2)
    assert "the user is missing" in err
    _, err = servers(*attach("mysql://me@db.test/"), password=os.fsdecode(b"\xff"), status=2)
    assert "not valid UTF-8" in err


def test_show_omits_an_absent_note(tmp_path: Path) -> None:
    tree = small_servers.tree(tmp_path / "tree")
    servers("add", "mine", "--family", "mysql", "--dir", str(tree))
    out, _ = servers("show", "mine")
    assert "note" not in [line.split()[0] for line in out.splitlines()]
    assert json.loads(servers("show", "mine", "--json")[0])["note"] is None


def test_a_program_that_was_changed_is_shown_and_fails_to_verify(tmp_path: Path) -> None:
    archive = small_servers.tarball(small_servers.tree(tmp_path / "v"), tmp_path / "v.tar.gz")
    servers("add", "small", "--family", "mysql", "--tarball", str(archive))
    out, _ = servers("show", "small", "--json")
    shown = json.loads(out)
    assert shown["changed_files"] == []
    with Path(shown["program"]).open("ab") as program:
        program.write(b"more")
    out, _ = servers("show", "small", "--json")
    changed = json.loads(out)
    assert changed["changed_files"] == [shown["program"]]
    assert changed["program_sha256"] != shown["program_sha256"]
    out, _ = servers("show", "small")
    assert "changed files" in out
    out, err = servers("verify", "small", status=3)
    assert "changed since it was installed:" in " ".join(out.split())
    assert "changed since the installation" in " ".join(err.split())


def test_an_attached_server_shows_its_address_and_not_its_password() -> None:
    addresses = {
        "mysql://me:secret@db.test/": "me@db.test:3306",
        "mysql://me:secret@[::1]:3307/": "me@[::1]:3307",
        "mysql://me:secret@/?socket=/run/my.sock": "me@/run/my.sock",
    }
    for dsn, address in addresses.items():
        servers(*attach(dsn))
        for command in ("list", "list --json", "show cloud", "show cloud --json"):
            out, err = servers(*command.split())
            assert address in out
            assert "secret" not in out + err
        servers("remove", "cloud")


def test_what_was_added_needs_no_installing(tmp_path: Path) -> None:
    servers(*attach("mysql://me:@db.test/"))
    tree = small_servers.tree(tmp_path / "tree")
    servers("add", "mine", "--family", "mysql", "--dir", str(tree))
    _, err = servers("install", "cloud", "mine")
    assert "cloud was added: it needs no installation" in err
    assert "mine was added: it needs no installation" in err


def test_unknown_names_are_reported_together_before_installing() -> None:
    _, err = servers("install", "mysql-5.6.24", "wrong", "mysql-5.6.25", status=2)
    assert "unknown server 'wrong'" in err
    assert "unknown server 'mysql-5.6.25'" in err
    assert not Path(os.environ["MILLRACE_CACHE"]).exists()


def test_a_bad_archive_or_checksum_ends_with_status_2(tmp_path: Path) -> None:
    archive = tmp_path / "v.tar.gz"
    archive.write_bytes(b"nothing that is known")
    add = ("add", "mine", "--family", "mysql", "--tarball", str(archive))
    assert "is damaged" in servers(*add, status=2)[1]
    assert "is not a SHA-256" in servers(*add, "--sha256", "abc", status=2)[1]
    assert "wrong checksum" in servers(*add, "--sha256", "0" * 64, status=2)[1]


def test_an_unknown_family_is_refused_with_those_there_are() -> None:
    _, err = servers("add", "x", "--family", "oracle", "--dir", "/", status=2)
    assert "mariadb" in err
    assert "mysql" in err
