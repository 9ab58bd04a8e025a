"""Test that what a server says in a failed trial is short, and cannot control a terminal."""

from typing import cast

import pytest

from millrace.databases.client import Session
from millrace.databases.mysql import table_formats
from millrace.databases.table_formats import TableFormat
from millrace.errors import TrialFailed
from millrace.trial.execute import reason_of

WORDS = "\x1b]52;c;eA==\x07\u202e" + "x" * 1_000_000
COMPRESSED = TableFormat("InnoDB", "row", "ROW_FORMAT=COMPRESSED")


class Server:
    """A session with a server whose row format is ``WORDS``."""

    def query(self, sql: str) -> list[tuple[str, ...]]:
        return [("t", "CREATE TABLE t (id INT)")] if "SHOW" in sql else [(WORDS,)]


def test_table_report_of_a_server_is_shown_escaped() -> None:
    with pytest.raises(TrialFailed, match="makes other tables") as failed:
        table_formats._require_definition(cast(Session, Server()), "theirs", COMPRESSED)
    assert not {"\x1b", "\x07", "\u202e"} & set(str(failed.value))


def test_the_reason_of_a_failure_is_cut_and_the_hint_is_kept() -> None:
    reason = reason_of(TrialFailed(WORDS, hint="look at its log"))
    assert reason.endswith("x…; look at its log")
    assert len(reason) < 5_000
    assert reason_of(TrialFailed("no")) == "no"
