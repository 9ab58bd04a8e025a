"""Test that a replica learns no account of its source that may do more, and what odd answers do."""

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import cast

import pytest

from millrace import databases
from millrace.databases.client import Address, DatabaseClient, Session
from millrace.databases.mysql import client
from millrace.databases.replication import LogEnd, Replication, SourceAddress
from millrace.errors import DatabaseError, TrialFailed
from millrace.tls import Tls
from tests.support.hostile_mysql import Answer, answers, rows, says, serving

_NAMES = (
    "master_log_file", "read_master_log_pos", "relay_master_log_file", "exec_master_log_pos",
    "seconds_behind_master", "last_io_error", "last_sql_error",
)  # fmt: skip
_END = LogEnd("binlog.000001", 9, "a:1-9")


def replication(family: str) -> Replication:
    found = databases.get(family).replication
    assert found is not None
    return found


def filled(cell: bytes | None) -> Answer:
    """Answer every query with as many columns as it has, and this value in all cells."""

    def answer(sql: str) -> Iterable[bytes]:
        if "VERSION" in sql:
            return rows(["version"], [b"8.0.33"])
        if "BINARY LOGS" in sql:
            return rows(["Log_name", "File_size"], [b"binlog.000001", b"100"])
        names = _NAMES if "STATUS" in sql else ["c"]
        return rows(names, [cell] * len(names))

    return answer


Question = Callable[[Replication, Session], object]

QUESTIONS: dict[str, Question] = {
    "end": lambda of, session: of.log_end(session),
    "progress": lambda of, session: of.progress(session, session),
    "by position": lambda of, session: of.wait_applied(session, _END, 1, by_gtid=False),
    "by ids": lambda of, session: of.wait_applied(session, _END, 1, by_gtid=True),
    "beat": lambda of, session: of.last_beat_s(session),
}


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    "answer",
    [
        answers(b"a"),
        answers(None),
        answers(b"a", b"b"),
        answers(b"a", b"b", b"c"),
        answers(b"a", b"9" * 100),
        says(b"\x00\x00\x00\x02\x00\x00\x00"),
        filled(b"x"),
        filled(None),
        filled(b"nan"),
        filled(b"1e308"),
        filled(b"18446744073709551615"),
        filled(b"9" * 5000),
    ],
)
def test_an_odd_answer_is_a_failure_of_the_server_and_no_figure(
    family: str, answer: Answer
) -> None:
    of = replication(family)
    with serving(answer) as server:
        address = Address("theirs", "root", "secret", server.port, tls=Tls(allow_unverified=True))
        with contextlib.closing(client.connect(address, limit_s=10)) as session:
            for question in QUESTIONS.values():
                with contextlib.suppress(DatabaseError):
                    question(of, session)
            with contextlib.suppress(DatabaseError):
                beat_s = of.last_beat_s(session)
                assert beat_s is None or math.fabs(beat_s) < 1e10
            with contextlib.suppress(DatabaseError):
                found = of.progress(session, session)
                assert max(found.written_bytes, found.received_bytes, found.applied_bytes) < 1 << 63


class Recorded:
    """A client of a server that keeps statements, and fails those that begin with ``refused``."""

    def __init__(self, refused: str = "-") -> None:
        self.statements: list[str] = []
        self._refused = refused

    def query(self, sql: str, *, limit_s: float) -> list[tuple[str, ...]]:
        self.statements.append(sql)
        if sql.startswith(self._refused):
            raise TrialFailed(f"theirs: {sql[:80]}: no, not {sql}", hint="another")
        return []


def test_the_account_of_a_replica_may_only_read_the_log() -> None:
    source = Recorded()
    address = SourceAddress("127.0.0.1", 3306, "replica", "its-own")
    replication("mysql").create_account(cast(DatabaseClient, source), address)
    made, granted = source.statements
    assert made == "CREATE USER 'replica'@'127.0.0.1' IDENTIFIED BY 'its-own'"
    assert granted == "GRANT REPLICATION SLAVE ON *.* TO 'replica'@'127.0.0.1'"


def test_a_server_that_refuses_the_account_shows_no_password() -> None:
    source = cast(DatabaseClient, Recorded(refused="CREATE USER"))
    address = SourceAddress("127.0.0.1", 3306, "replica", "its-own")
    with pytest.raises(TrialFailed) as failed:
        replication("mariadb").create_account(source, address)
    assert "its-own" not in str(failed.value)
    assert "***" in str(failed.value)
