from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.databases.base import PendingSample, PoolStatus, ServerClient
from millrace.databases.mysql import storage
from millrace.errors import DatabaseError, TrialFailed
from millrace.workloads.tables import Volume

unsettled = databases.get("mysql").storage.unsettled

# Text of the servers, shortened.
OLD = """
Trx id counter 50B
Purge done for trx's n:o < 0 undo n:o < 0
History list length 2
Ibuf: size 84, free list len 0, seg size 2, 0 merges
Log sequence number 88356269
Log flushed up to   88356269
Last checkpoint at  84577038
Buffer pool size   8191
Modified db pages  1348
"""
NEW = """
Trx id counter 1584
Purge done for trx's n:o < 1583 undo n:o < 0 state: running but idle
History list length 13
Ibuf: size 1, free list len 0, seg size 2, 0 merges
Log sequence number          122963334
Last checkpoint at           122963334
Modified db pages  0
INDIVIDUAL BUFFER POOL INFO
---BUFFER POOL 0
Modified db pages  7
"""
WITHOUT_CHANGE_BUFFER = """
Trx id counter 37
Purge done for trx's n:o < 33 undo n:o < 0 state: running
History list length 2
Log sequence number 85866108
Last checkpoint at  84900860
Modified db pages  625
"""

SETTLED = storage.PendingWork(
    dirty_pages=0,
    history=13,
    change_buffer_pages=1,
    log_position=122963334,
    purged=True,
    checkpoint=122963334,
)


@pytest.mark.parametrize("family", databases.names())
def test_the_words_of_all_versions_are_read(family: str) -> None:
    known = databases.get(family).storage
    assert isinstance(known, storage.InnodbStorage)
    assert known.parse(OLD) == storage.PendingWork(1348, 2, 84, 88356269, False, 84577038)
    assert known.parse(NEW) == SETTLED
    without = storage.PendingWork(625, 2, None, 85866108, False, 84900860)
    assert known.parse(WITHOUT_CHANGE_BUFFER) == without
    assert known.parse("") == storage.PendingWork()
    caught_up = OLD.replace("n:o < 0 undo", "n:o < 50B undo")
    assert known.parse(caught_up).purged is True


def looks(*figures: storage.PendingWork, every_s: float = 1.0) -> list[PendingSample]:
    return [PendingSample(number * every_s, each) for number, each in enumerate(figures)]


def test_a_server_at_rest_has_settled_after_the_second_look() -> None:
    assert unsettled(looks(SETTLED)) == ("it was not watched for long enough",)
    assert unsettled(looks(SETTLED, SETTLED, every_s=0.5)) != ()
    assert unsettled(looks(SETTLED, SETTLED)) == ()
    assert unsettled(looks(storage.PendingWork(), storage.PendingWork())) == ()


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {"dirty_pages": 17}, "17 pages are dirty"),
        ({}, {"purged": False, "history": 17}, "purge goes on, with a history of 17"),
        ({"purged": False, "history": 17}, {}, "purge goes on"),
        ({}, {"purged": False, "history": None}, "purge goes on"),
        ({"log_position": 1}, {}, "the log is written to"),
        ({"change_buffer_pages": 9}, {"change_buffer_pages": 9}, "the change buffer has 9 pages"),
    ],
)
def test_pending_work_is_described(before: dict[str, Any], now: dict[str, Any], said: str) -> None:
    seen = looks(replace(SETTLED, **before), replace(SETTLED, **now))
    (text,) = unsettled(seen)
    assert said in text


def test_a_few_dirty_pages_are_the_servers_own() -> None:
    assert unsettled(looks(SETTLED, replace(SETTLED, dirty_pages=16))) == ()


def test_a_purge_that_never_comes_to_the_newest_transaction_has_ended() -> None:
    behind = replace(SETTLED, purged=False, history=1)
    assert unsettled(looks(behind, behind)) == ()
    moving = replace(behind, log_position=(behind.log_position or 0) + 1)
    assert unsettled(looks(behind, moving)) == ("the log is written to",)


def test_a_change_buffer_that_nobody_merges_is_left() -> None:
    stuck = replace(SETTLED, change_buffer_pages=40)
    shrinks = [replace(stuck, change_buffer_pages=40 + left) for left in range(20, 0, -1)]
    assert unsettled(looks(*[stuck] * 12)) != ()
    assert unsettled(looks(*[stuck] * 13)) == ()
    assert unsettled(looks(*shrinks)) != ()
    assert unsettled(looks(*shrinks, *[stuck] * 5)) != ()
    assert unsettled(looks(*shrinks, *[stuck] * 13)) == ()


figures = st.builds(
    storage.PendingWork,
    dirty_pages=st.none() | st.integers(0, 40),
    history=st.none() | st.integers(0, 3),
    change_buffer_pages=st.none() | st.integers(1, 3),
    log_position=st.none() | st.integers(0, 2),
    purged=st.none() | st.booleans(),
)


@given(st.lists(figures, min_size=1), figures)
def test_whatever_was_before_rest_is_rest_in_the_end(
    before: list[storage.PendingWork], last: storage.PendingWork
) -> None:
    at_rest = replace(last, dirty_pages=0, purged=True)
    assert unsettled(looks(*before, *[at_rest] * 14)) == ()


class Server:
    """A server with these status variables and statistics; None: it refuses to answer."""

    def __init__(
        self, status: Sequence[tuple[str, str]] | None, statistics: Sequence[Any] | None
    ) -> None:
        self._status, self._statistics = status, statistics

    def rows(self, sql: str, *, n_columns: int) -> Sequence[tuple[str, str]]:
        assert n_columns == 2
        if self._status is None:
            raise TrialFailed("no answer")
        return [(name, value) for name, value in self._status if f"'{name}'" in sql]

    def connect(self, database: str | None, *, limit_s: float) -> Self:
        assert database is None
        assert limit_s > 0
        return self

    def close(self) -> None:
        pass

    def query(self, _sql: str, *_values: str) -> Sequence[Any]:
        if self._statistics is None:
            raise DatabaseError("Table doesn't exist", kind="absent", code="1146")
        return self._statistics


def afterwards(
    status: Sequence[tuple[str, str]] | None, statistics: Sequence[Any] | None
) -> dict[str, Any]:
    server = cast(ServerClient, Server(status, statistics))
    return databases.get("mysql").storage.state_afterwards(server, "test").to_json()


@pytest.mark.parametrize(
    ("status", "capacity"),
    [
        ([("Innodb_redo_log_capacity_resized", "104857600")], 104857600),
        ([("Innodb_redo_log_capacity_resized", "0")], None),
        ([("Innodb_checkpoint_max_age", "80983113")], None),  # MariaDB's: less than its capacity
        ([], None),
        (None, None),
    ],
)
def test_log_capacity_comes_from_the_variable_of_the_version(
    status: Sequence[tuple[str, str]] | None, capacity: int | None
) -> None:
    known = {} if capacity is None else {"log_capacity_bytes": capacity}
    assert afterwards(status, None) == known


def test_statistics_have_an_age_and_rows() -> None:
    state = afterwards([], [("sbtest1", 12, 1000)])
    assert state == {"statistics": {"sbtest1": {"age_s": 12.0, "rows": 1000}}}


def test_tables_have_the_collations_of_their_columns() -> None:
    newest = "utf8mb4_0900_ai_ci"
    state = afterwards([], [("firm", "binary"), ("firm", newest), ("user", newest)])
    assert state == {"collations": {"firm": ["binary", newest], "user": [newest]}}


def test_figures_of_the_pool_that_are_not_whole_are_left_out() -> None:
    assert storage.pool_figures({}) == {}
    some = {"Innodb_buffer_pool_reads": 5, "Innodb_buffer_pool_pages_total": 8}
    assert storage.pool_figures(some) == {"pool_pages": 8}


def test_status_variables_are_read_with_the_size_of_a_page() -> None:
    status = {
        "Innodb_buffer_pool_reads": 3,
        "Innodb_buffer_pool_read_requests": 70,
        "Innodb_buffer_pool_pages_data": 5,
        "Innodb_buffer_pool_pages_total": 8,
        "Innodb_pages_created": 9,
        "Innodb_page_size": 4096,
    }
    assert storage.pool_status_in(status) == PoolStatus(3, 70, 5 * 4096, 8 * 4096, 9 * 4096)
    assert storage.pool_status_in({}) == PoolStatus(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("settings", "log_bytes"),
    [
        ({"innodb_log_file_size": "50331648", "innodb_log_files_in_group": "2"}, 2 * 50331648),
        ({"innodb_log_file_size": "100663296"}, 100663296),
        ({"innodb_log_file_size": "no number"}, None),
        ({}, None),
    ],
)
def test_the_size_of_the_redo_log_is_that_of_its_files(
    settings: dict[str, str], log_bytes: float | None
) -> None:
    assert databases.get("mysql").storage.limits(settings).log_bytes == log_bytes


@pytest.mark.parametrize(
    ("value", "share"), [("75.000000", 0.75), ("0", 0.9), ("many", 0.9), (None, 0.9)]
)
def test_the_limit_of_dirty_pages(value: str | None, share: float) -> None:
    settings = {} if value is None else {"innodb_max_dirty_pages_pct": value}
    assert databases.get("mariadb").storage.limits(settings).dirty_share == share


def test_tables_take_more_on_disk_than_their_values() -> None:
    volume = Volume(tables=1, rows=1_500, data_bytes=150_000, index_entries=3_000)
    expected = (150_000 + 1_500 * 30 + 3_000 * 25) * 16 // 15
    assert databases.get("mysql").storage.table_bytes(volume) == expected


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_the_adaptive_hash_index_is_known_by_its_setting(family: str) -> None:
    reads = databases.get(family).storage.adaptive_index_reads
    assert reads(2_000_000, {"innodb_adaptive_hash_index": "ON"}) == 1_709
    assert not reads(2_000_000, {"innodb_adaptive_hash_index": "OFF"})
    assert not reads(2_000_000, {})
