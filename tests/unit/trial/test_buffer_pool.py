"""Test how tables were read, judged by counters alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.databases.base import PoolStatus, TableSize
from millrace.trial import buffer_pool
from millrace.trial.buffer_pool import cache_mode, occupancy

TABLE = TableSize("sbtest1", "InnoDB", 60_000_000, 9_000_000, is_pooled=True)
MEMORY = TableSize("m", "MEMORY", 1_000, 0, is_pooled=False)
counts = st.integers(0, 10**12)


def pool(reads: int, requests: int, data: int = 0, total: int = 128 << 20) -> PoolStatus:
    return PoolStatus(reads, requests, data, total)


@pytest.mark.parametrize(
    ("reads", "mode"),
    [(0, "cached"), (100, "cached"), (101, "between"), (4_999, "between"), (5_000, "io_bound")],
)
def test_the_verdict_is_by_fetches_a_request(reads: int, mode: str) -> None:
    found = cache_mode([TABLE], pool(50, 1_000), pool(50 + reads, 1_001_000))
    assert found.mode == mode
    assert f"{reads:,} of 1,000,000" in found.reason


@pytest.mark.parametrize(("reads", "mode"), [(10, "cached"), (11, "between")])
def test_a_few_first_pages_are_no_wait_for_the_disk(reads: int, mode: str) -> None:
    assert cache_mode([TABLE], pool(0, 0), pool(reads, 5_000)).mode == mode


@given(counts, counts, counts, counts)
def test_more_fetches_never_look_more_cached(a: int, b: int, requests: int, before: int) -> None:
    order = ["cached", "between", "io_bound"]
    few, many = sorted((a, b))
    start = pool(before, before)
    modes = [
        cache_mode([TABLE], start, pool(before + reads, before + requests + 1)).mode
        for reads in (few, many)
    ]
    assert order.index(modes[0]) <= order.index(modes[1])


@pytest.mark.parametrize("engine", ["MEMORY", "MyISAM", "Aria"])
def test_tables_that_bypass_the_buffer_pool_can_be_anything(engine: str) -> None:
    table = TableSize("t", engine, 10, 10, is_pooled=False)
    found = cache_mode([TABLE, table], pool(0, 0), pool(500, 1_000))
    assert found.mode == "any"
    assert engine in found.reason
    assert occupancy([table], pool(0, 0)).can_fit is None
    assert occupancy([table], pool(0, 0)).is_resident is None


def test_without_requests_there_is_nothing_to_say() -> None:
    assert cache_mode([TABLE], pool(5, 5), pool(5, 5)).mode == "any"


def test_a_pool_holds_what_it_has_room_for_and_has_read() -> None:
    assert occupancy([TABLE, MEMORY], pool(0, 0, data=70_000_000)) == buffer_pool.Occupancy(
        69_000_000, 128 << 20, 70_000_000, can_fit=True, is_resident=True
    )
    assert occupancy([TABLE], pool(0, 0, data=30_000_000)).is_resident is False
    assert occupancy([TABLE], pool(0, 0, data=64 << 20, total=64 << 20)).can_fit is False


@pytest.mark.parametrize(("reads", "is_resident"), [(0, True), (10, True), (11, False)])
def test_a_pool_holds_tables_with_holes_once_reading_them_reads_nothing(
    reads: int, is_resident: bool
) -> None:
    found = occupancy([TABLE], pool(0, 0, data=30_000_000), last_pass_reads=reads)
    assert found.is_resident is is_resident
