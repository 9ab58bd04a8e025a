from collections.abc import Mapping
from typing import Any

import pytest

from millrace import databases
from millrace.databases.client import Row
from millrace.databases.replication import Gtid, LogEnd, Replication
from millrace.errors import DatabaseError


def of(family: str) -> Replication:
    found = databases.get(family).replication
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("family", "source", "replica", "gtid", "why"),
    [
        ("mysql", "5.7.22", "8.0.12", "auto", None),
        ("mysql", "5.5.34", "5.5.34", "off", None),
        ("mysql", "8.0.33", "8.4.5", "on", None),
        ("mysql", "8.4.5", "9.7.4", "on", None),
        ("mysql", "8.0.12", "5.7.22", "auto", "must not be older"),
        ("mysql", "8.0.33", "8.0.12", "auto", "must not be older"),
        ("mysql", "5.6.24", "8.0.12", "auto", "of its source's series or of the next"),
        ("mysql", "5.5.34", "5.6.24", "on", "exist from 5.6.9 on"),
        ("mariadb", "10.1.23", "11.8.9", "on", None),
        ("mariadb", "10.11.19", "10.1.23", "off", "must not be older"),
    ],
)
def test_a_replica_is_as_new_as_its_source(
    family: str, source: str, replica: str, gtid: Gtid, why: str | None
) -> None:
    found = of(family).refusal(source, replica, gtid)
    assert (found is None) if why is None else (found is not None and why in found)


@pytest.mark.parametrize(
    ("family", "source", "replica", "gtid", "uses"),
    [
        ("mysql", "5.6.24", "5.6.24", "auto", False),
        ("mysql", "5.6.24", "5.6.24", "on", True),
        ("mysql", "5.6.24", "5.7.22", "auto", False),
        ("mysql", "5.7.22", "8.0.12", "auto", True),
        ("mysql", "8.0.12", "8.0.12", "off", False),
        ("mariadb", "10.1.23", "10.1.23", "auto", True),
    ],
)
def test_global_ids_are_used_where_they_need_no_second_log(
    family: str, source: str, replica: str, gtid: Gtid, uses: bool
) -> None:
    assert of(family).uses_gtids(source, replica, gtid) is uses


def test_roles_have_ids_of_their_own_and_the_source_a_log() -> None:
    mysql = of("mysql")
    source = mysql.options("source", "5.6.24", "statement", by_gtid=True)
    replica = mysql.options("replica", "5.6.24", "statement", by_gtid=True)
    assert source["server_id"] != replica["server_id"]
    assert source["binlog_format"] == replica["binlog_format"] == "STATEMENT"
    assert source["gtid_mode"] == "ON"
    assert replica["log_slave_updates"] is True, "5.6 keeps global ids in a log of its own"
    assert "log_bin" not in mysql.options("replica", "5.7.22", "row", by_gtid=True)
    assert "gtid_mode" not in of("mariadb").options("source", "10.1.23", "row", by_gtid=True)


class Answers:
    """A session that answers statements by their beginning; a missing answer is an error."""

    is_open, id, peer_pid = True, 1, 1

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        for beginning, answer in self.answers.items():
            if sql.startswith(beginning):
                return list(answer)
        raise DatabaseError("no such thing", kind="absent")

    def rows(self, sql: str) -> list[Row]:
        return self.query(sql)  # type: ignore[return-value]

    def columns(self, sql: str) -> tuple[str, ...]:
        raise NotImplementedError

    def literal(self, text: str) -> str:
        return repr(text)

    def close(self) -> None:
        raise NotImplementedError


SOURCE = Answers({"SHOW BINARY LOGS": [("binlog.000001", 1000), ("binlog.000002", 300, "No")]})
STATUS = {
    "source_log_file": "binlog.000002",
    "read_source_log_pos": 200,
    "relay_source_log_file": "binlog.000001",
    "exec_source_log_pos": 157,
    "seconds_behind_source": None,
    "last_io_error": "",
    "last_sql_error": "",
}


def replica(**status: object) -> Answers:
    of_8 = {"SELECT VERSION()": [("8.0.33",)], "SHOW REPLICA STATUS": [{**STATUS, **status}]}
    of_5 = {"SHOW SLAVE STATUS": of_8["SHOW REPLICA STATUS"]}
    return Answers(of_8 | of_5)


def test_positions_count_over_all_files_of_the_log_under_any_name() -> None:
    found = of("mysql").progress(SOURCE, replica(seconds_behind_source=7))
    assert (found.written_bytes, found.received_bytes, found.applied_bytes) == (1300, 1200, 157)
    assert found.reported_lag_s == 7
    assert found.error is None


def test_the_error_of_a_stopped_replica_is_one_short_line() -> None:
    said = of("mysql").progress(SOURCE, replica(last_sql_error="row\n\x1b[31m" + "x" * 9000)).error
    assert said is not None
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 600


def test_of_several_appliers_the_one_that_failed_gives_the_reason() -> None:
    asked = replica(last_sql_error="see performance_schema.something")
    asked.answers = {**asked.answers, "SELECT last_error_message": [("duplicate entry",)]}
    assert of("mysql").progress(SOURCE, asked).error == "duplicate entry"


@pytest.mark.parametrize(
    ("version", "by_gtid", "answer", "function", "is_applied"),
    [
        ("5.5.34", False, 3, "MASTER_POS_WAIT", True),
        ("5.5.34", False, -1, "MASTER_POS_WAIT", False),
        ("8.0.33", False, None, "SOURCE_POS_WAIT", False),
        ("5.6.24", True, 0, "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS", True),
        ("8.0.33", True, 1, "WAIT_FOR_EXECUTED_GTID_SET", False),
    ],
)
def test_a_replica_waits_for_the_end_of_the_log_in_its_own_words(
    version: str, by_gtid: bool, answer: int | None, function: str, is_applied: bool
) -> None:
    session = Answers({"SELECT VERSION()": [(version,)], f"SELECT {function}(": [(answer,)]})
    end = LogEnd("binlog.000001", 5, "a:1-9")
    assert of("mysql").wait_applied(session, end, 1, by_gtid=by_gtid) is is_applied


def test_the_end_of_a_log_has_the_ids_of_its_transactions_where_there_are_any() -> None:
    logs = {"SHOW BINARY LOGS": [("binlog.000001", 500)]}
    with_ids = Answers({**logs, "SELECT @@GLOBAL.gtid_executed": [("a:1-2,\nb:7",)]})
    assert of("mysql").log_end(with_ids) == LogEnd("binlog.000001", 500, "a:1-2,b:7")
    assert of("mysql").log_end(Answers(logs)).transactions is None


def test_a_replica_without_the_heartbeat_has_shown_none_yet() -> None:
    assert of("mariadb").last_beat_s(Answers({})) is None
    assert of("mariadb").last_beat_s(Answers({"SELECT at FROM": [(1.5,)]})) == 1.5
