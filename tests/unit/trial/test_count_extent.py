"""Test how many transactions a counted start has."""

from __future__ import annotations

import pytest

from millrace.trial.count_extent import EXTENTS, Extent, extent_for, extent_of, warming_for


@pytest.mark.parametrize(
    ("transaction_s", "extent"),
    [
        (0.0, Extent(80, 480)), (0.0166, Extent(80, 480)), (0.02, Extent(30, 180)),
        (0.13, Extent(10, 60)), (0.3, Extent(4, 24)), (1.0, Extent(1, 6)), (100.0, Extent(1, 6)),
    ],
)  # fmt: skip
def test_slow_transactions_are_fewer(transaction_s: float, extent: Extent) -> None:
    assert extent_for(transaction_s) == extent


@pytest.mark.parametrize(
    ("data_bytes", "extent", "warming"),
    [
        (20_000_000, EXTENTS[0], 17_090), (28_000_000, EXTENTS[0], 23_926),
        (29_000_000, EXTENTS[0], 0), (2_000_000, EXTENTS[1], 1_709), (2_000_000, EXTENTS[-1], 0),
    ],
)  # fmt: skip
def test_an_adaptive_index_is_finished_or_hardly_begun(
    data_bytes: int, extent: Extent, warming: int
) -> None:
    assert warming_for(data_bytes, extent) == warming


def test_an_extent_is_known_by_its_longer_sessions() -> None:
    assert [extent_of(each.many) for each in EXTENTS] == list(EXTENTS)
