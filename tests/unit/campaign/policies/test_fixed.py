"""Test runs of a number of blocks that was fixed beforehand: what they tell while they go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.model.events import BlockEnded
from tests.unit.campaign.laboratory import BASE, LIKE, SLOW, Laboratory


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch, ratios={BASE: 1.0, LIKE: 1.0, SLOW: 2.0})


def block_ends(lab: Laboratory) -> list[BlockEnded]:
    return [event for event in lab.events if isinstance(event, BlockEnded)]


@pytest.mark.parametrize(("profile_blocks", "last"), [(0, 3), (2, 4)])
def test_each_block_but_the_last_emits_an_assessment(
    lab: Laboratory, profile_blocks: int, last: int
) -> None:
    lab.profile_blocks = profile_blocks
    lab.run(blocks=4)
    found = block_ends(lab)
    assert [(event.blocks, event.total) for event in found] == [
        (block, 4) for block in range(1, last + 1)
    ]
    for event in found:
        assert [each.label for each in event.ratios] == [SLOW, LIKE]
        assert event.ratios[0].ratio == pytest.approx(0.5, rel=0.05)
    assert found[0].ratios[0].low is None  # of one block
    low, high = found[2].ratios[0].low, found[2].ratios[0].high
    assert low is not None
    assert high is not None
    assert low < 0.5 < high
    ahead = found[2].visible
    assert ahead is not None
    assert ahead.blocks == 4
    assert 0 < ahead.smallest <= ahead.largest < 1
    assert [each.visible for each in found if each.blocks != 3] == [None] * (last - 1)


def test_resumed_run_assesses_only_measured_blocks(lab: Laboratory) -> None:
    lab.run(blocks=4, stop_after=7)
    lab.events.clear()
    lab.run(blocks=4)
    assert [event.blocks for event in block_ends(lab)] == [3]
    lab.events.clear()
    lab.run(blocks=4)
    assert block_ends(lab) == []
