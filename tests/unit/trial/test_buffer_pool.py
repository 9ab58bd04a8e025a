"""Test how tables were read, judged by counters alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.databases.base import PoolStatus, TableSize
from millrace.trial import buffer_pool
from millrace.trial.buffer_pool import holding, judge

TABLE = TableSize("sbtest1", "InnoDB", 60_000_000, 9_000_000, is_pooled=True)
MEMORY = TableSize("m", "MEMORY", 1_000, 0, is_pooled=False)
counts = st.integers(0, 10**12)


def pool(reads: int, requests: int, data: int = 0, total: int = 128 << 20) -> PoolStatus:
    return PoolStatus(reads, requests, data, total)


@pytest.mark.parametrize(
    ("reads", "verdict"),
    [(0, "cached"), (100, "cached"), (101, "between"), (4_999, "between"), (5_000, "io_bound")],
)
def test_the_verdict_is_by_fetches_a_request(reads: int, verdict: str) -> None:
    found = judge([TABLE], pool(50, 1_000), pool(50 + reads, 1_001_000))
    assert found.verdict == verdict
    assert (found.reads, found.read_requests) == (reads, 1_000_000)
    assert f"{reads:,} of 1,000,000" in found.why


@given(counts, counts, counts, counts)
def test_more_fetches_never_look_more_cached(a: int, b: int, requests: int, before: int) -> None:
    order = ["cached", "between", "io_bound"]
    few, many = sorted((a, b))
    start = pool(before, before)
    verdicts = [
        judge([TABLE], start, pool(before + reads, before + requests + 1)).verdict
        for reads in (few, many)
    ]
    assert order.index(verdicts[0]) <= order.index(verdicts[1])


@pytest.mark.parametrize("engine", ["MEMORY", "MyISAM", "Aria"])
def test_tables_that_bypass_the_buffer_pool_can_be_anything(engine: str) -> None:
    table = TableSize("t", engine, 10, 10, is_pooled=False)
    found = judge([TABLE, table], pool(0, 0), pool(500, 1_000))
    assert found.verdict == "any"
    assert engine in found.why
    assert holding([table], pool(0, 0)).can is None
    assert holding([table], pool(0, 0)).does is None


def test_without_requests_there_is_nothing_to_say() -> None:
    assert judge([TABLE], pool(5, 5), pool(5, 5)).verdict == "any"


def test_a_pool_holds_what_it_has_room_for_and_has_read() -> None:
    assert holding([TABLE, MEMORY], pool(0, 0, data=70_000_000)) == buffer_pool.Holding(
        69_000_000, 128 << 20, 70_000_000, can=True, does=True
    )
    assert holding([TABLE], pool(0, 0, data=30_000_000)).does is False
    assert holding([TABLE], pool(0, 0, data=64 << 20, total=64 << 20)).can is False
