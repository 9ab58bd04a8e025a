"""Test that an attached server gets no file and no traceback out of millrace."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from millrace.cli.main import cli
from millrace.databases.mysql import client as mysql_client
from millrace.errors import TrialFailed
from millrace.loadgen.client import LoadFailed, run
from millrace.loadgen.spec import Connection, LoadSpec, Statement
from millrace.model.servers import AttachedServer
from millrace.servers import verify
from millrace.servers.attached import AttachedInstance
from tests.support.hostile_mysql import (
    Answer,
    answers,
    answers_without_end,
    asks_for_file,
    says,
    serving,
)


@contextmanager
def failing(answer: Answer, words: str) -> Iterator[AttachedInstance]:
    """Yield a client of a server with this answer, at which the block fails with these words."""
    with serving(answer) as server, pytest.raises(TrialFailed, match=words):
        yield server.attached


def test_client_sends_no_file_when_the_server_requests_one(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's own")
    secret.chmod(0o600)
    with serving(asks_for_file(str(secret))) as server:
        result = verify.verify(AttachedServer("theirs", "mysql", server.address), lambda _: None)
        assert "asked for a file of this host" in (result.reason or "")
        with pytest.raises(TrialFailed, match="asked for a file of this host"):
            server.attached.settings()
    assert server.obtained == []


def test_verify_fails_clearly_when_the_server_requests_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    with serving(asks_for_file("/etc/hostname")) as server:
        add = ["servers", "add", "theirs", "--family", "mysql", "--attach", server.address]
        added = CliRunner().invoke(cli, add)
        assert added.exit_code == 0, added.output
        verified = CliRunner().invoke(cli, ["servers", "verify", "theirs"])
    assert isinstance(verified.exception, TrialFailed)
    assert "asked for a file of this host" in verified.output
    assert server.obtained == []


@pytest.mark.parametrize(
    "answer",
    [
        answers(b"8.0.33"),
        answers(b"8.0.33", b"a", b"b"),
        answers(b"8.0.33", n_columns=2),
        says(b"\x00\x00\x00\x02\x00\x00\x00"),
        says(b"\x02", b"", b""),
        says(b"\xfc"),
        says(b"\xff"),
        says(b""),
    ],
)
def test_an_odd_answer_is_a_failure_of_the_server(answer: Answer) -> None:
    with serving(answer) as server:
        result = verify.verify(AttachedServer("theirs", "mysql", server.address), lambda _: None)
        assert not result.ok
        assert result.reason
        with pytest.raises(TrialFailed, match="theirs: SHOW GLOBAL VARIABLES"):
            server.attached.settings()


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_client, "MOST_ANSWER_BYTES", 1 << 20)
    with failing(
        answers_without_end(b"x" * 200), r"theirs: SELECT 1: .*more than 1,048,576 bytes"
    ) as attached:
        attached.query("SELECT 1")


@pytest.mark.parametrize("cell", [b"", b"x"])
def test_tiny_rows_are_bounded_by_the_memory_they_take(
    cell: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_client, "MOST_ANSWER_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(mysql_client, "MOST_ANSWER_BYTES", 1 << 20)
    with failing(answers_without_end(cell), "more than 1,048,576 bytes of memory") as attached:
        attached.query("SELECT 1")


def test_an_answer_with_too_many_columns_is_refused() -> None:
    with failing(says(b"\xfd\x00\x00\x10"), "1,048,576 columns, more than 4,096") as attached:
        attached.query("SELECT 1", limit_s=5)


def test_a_result_that_nothing_can_hold_is_a_failed_trial() -> None:
    changed = b"\x00\xfe" + b"\xff" * 8 + b"\x00\x02\x00\x00\x00"  # 2^64 - 1 rows
    with serving(says(changed)) as server:
        connection = Connection(host="127.0.0.1", port=server.port, user="root", password="")
        spec = LoadSpec(
            connection, session=(), phases=(Statement("ask", ["SELECT 1"], limit_s=20),)
        )
        with pytest.raises(LoadFailed, match="invalid event from millrace-load: a whole number"):
            run(spec, limit_s=30)


def test_words_of_several_lines_are_shown_on_one() -> None:
    with serving(answers(b"8.0\n\x1b[2Jtheirs  9.9")) as server:
        assert server.attached.version() == r"8.0\n\x1b[2Jtheirs  9.9"
    with failing(
        says(b"\xff\x51\x04#HY000no\n\x1b[2Jyes"), r"no\\n\\x1b\[2Jyes \(error 1105\)"
    ) as attached:
        attached.version()


def test_an_error_without_end_is_cut() -> None:
    with (
        serving(says(b"\xff\x51\x04#HY000" + b"no" * 1_000_000)) as server,
        pytest.raises(TrialFailed) as failed,
    ):
        server.attached.version()
    assert len(str(failed.value)) < 3000
    assert "(error 1105)" in str(failed.value)


def test_session_ends_on_an_unsolicited_result() -> None:
    more_follows = b"\x00\x00\x00\x0a\x00\x00\x00"
    with failing(says(more_follows), "further results") as attached:
        attached.version()


def test_an_answer_that_drips_is_given_up() -> None:
    def drip(sql: str) -> Iterable[bytes]:
        for packet in answers_without_end(b"a")(sql):
            yield packet
            time.sleep(0.05)

    with serving(drip) as server, pytest.raises(TrialFailed, match=r"in time|timed out"):
        server.attached.query("SELECT 1", limit_s=0.5)


@contextmanager
def greeting_with(greet: Callable[[socket.socket], object]) -> Iterator[AttachedInstance]:
    """Yield a client of a server that greets by ``greet`` and does no more."""

    def accept() -> None:
        client, _ = listener.accept()
        with client, suppress(OSError):
            greet(client)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        address = f"mysql://u@127.0.0.1:{listener.getsockname()[1]}/"
        yield AttachedInstance(AttachedServer("theirs", "mysql", address))
        thread.join()


def test_a_greeting_a_byte_at_a_time_ends_with_the_limit() -> None:
    """The kernel's timeout applies to each wait separately; a late last wait ends the login."""

    def drip(client: socket.socket) -> None:
        client.sendall(b"\xff\xff\xff\x00")
        for _ in range(100):
            client.sendall(b"\x0a")
            time.sleep(0.05)

    with greeting_with(drip) as dripping, pytest.raises(TrialFailed, match=r"in time|timed out"):
        dripping.connect(limit_s=0.5)


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"\x0a",
        b"\x0a8.0.33\0\x07\xfb\0\0\0salt9;\x07\xb2 \xb7",  # it ends before the length of the salt
        b"\x09" * 60,
        b"\xff",
        b"\xfb/etc/hostname",
    ],
)
def test_an_odd_greeting_is_a_failure_of_the_server(greeting: bytes) -> None:
    packet = len(greeting).to_bytes(3, "little") + b"\0" + greeting
    with (
        greeting_with(lambda client: client.sendall(packet)) as odd,
        pytest.raises(TrialFailed, match="theirs: no session at"),
    ):
        odd.connect(limit_s=5)
