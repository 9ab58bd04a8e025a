"""What is asked of a server when clients are no longer measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pymysql
import pytest

from millrace.errors import TrialFailed
from millrace.servers.instances.lifecycle import Instance
from millrace.trial.server_state import afterwards, pool_figures


class Server:
    """One with these status variables and statistics; None: it refuses to tell."""

    def __init__(
        self, status: Sequence[tuple[str, str]] | None, statistics: Sequence[Any] | None
    ) -> None:
        self._status, self._statistics = status, statistics

    def rows(self, _sql: str, *, n_columns: int) -> Sequence[tuple[str, str]]:
        assert n_columns == 2
        if self._status is None:
            raise TrialFailed("no answer")
        return self._status

    def connect(self, *, limit_s: float) -> Server:
        assert limit_s > 0
        return self

    def cursor(self) -> Server:
        return self

    def close(self) -> None:
        pass

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def execute(self, _sql: str, _values: Sequence[str]) -> None:
        if self._statistics is None:
            raise pymysql.err.ProgrammingError(1146, "Table doesn't exist")

    def fetchall(self) -> Sequence[Any]:
        assert self._statistics is not None
        return self._statistics


@pytest.mark.parametrize(
    ("status", "capacity"),
    [
        ([("Innodb_redo_log_capacity_resized", "104857600")], 104857600),
        ([("Innodb_checkpoint_max_age", "80983113")], 80983113),
        ([("Innodb_checkpoint_max_age", "0")], None),
        ([], None),
        (None, None),
    ],
)
def test_the_logs_capacity_is_asked_of_who_tells(
    status: Sequence[tuple[str, str]] | None, capacity: int | None
) -> None:
    told = afterwards(cast(Instance, Server(status, None)), "test")
    assert told == ({} if capacity is None else {"log_capacity_bytes": capacity})


def test_statistics_have_an_age_and_rows() -> None:
    told = afterwards(cast(Instance, Server([], [("sbtest1", 12, 1000)])), "test")
    assert told == {"statistics": {"sbtest1": {"age_s": 12.0, "rows": 1000}}}


def test_figures_of_the_pool_that_are_not_whole_are_left_out() -> None:
    assert pool_figures({}) == {}
    some = {"Innodb_buffer_pool_reads": 5, "Innodb_buffer_pool_pages_total": 8}
    assert pool_figures(some) == {"pool_pages": 8}
