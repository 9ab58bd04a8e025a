"""Test how many transactions a counted start has."""

import pytest

from millrace.trial.counting import EXTENTS, Extent, extent_for, extent_of, warming_for


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
    ("index_reads", "extent", "warming"),
    [
        (0, EXTENTS[0], 0), (17_090, EXTENTS[0], 17_090), (24_000, EXTENTS[0], 24_000),
        (24_001, EXTENTS[0], 0), (1_709, EXTENTS[1], 1_709), (1_709, EXTENTS[-1], 0),
    ],
)  # fmt: skip
def test_index_in_memory_is_warmed_only_when_small(
    index_reads: int, extent: Extent, warming: int
) -> None:
    assert warming_for(index_reads, extent) == warming


def test_an_extent_is_known_by_its_longer_sessions() -> None:
    assert [extent_of(each.many) for each in EXTENTS] == list(EXTENTS)
