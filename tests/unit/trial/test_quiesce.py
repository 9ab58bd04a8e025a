"""When a server has settled: what its words say, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.trial.quiesce import Figures, Look, figures_in, unsettled

# As the servers wrote it, shortened.
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

SETTLED = Figures(
    dirty_pages=0,
    history=13,
    change_buffer_pages=1,
    log_position=122963334,
    purged=True,
    checkpoint=122963334,
)


@pytest.mark.parametrize("family", databases.names())
def test_the_words_of_all_versions_are_read(family: str) -> None:
    known = databases.get(family).write_back
    assert figures_in(OLD, known) == Figures(1348, 2, 84, 88356269, False, 84577038)
    assert figures_in(NEW, known) == SETTLED
    without = Figures(625, 2, None, 85866108, False, 84900860)
    assert figures_in(WITHOUT_CHANGE_BUFFER, known) == without
    assert figures_in("", known) == Figures()
    caught_up = OLD.replace("n:o < 0 undo", "n:o < 50B undo")
    assert figures_in(caught_up, known).purged is True


def looks(*figures: Figures, every_s: float = 1.0) -> list[Look]:
    return [Look(number * every_s, each) for number, each in enumerate(figures)]


def test_a_server_at_rest_has_settled_after_the_second_look() -> None:
    assert unsettled(looks(SETTLED)) == ("it was not watched for long enough",)
    assert unsettled(looks(SETTLED, SETTLED, every_s=0.5)) != ()
    assert unsettled(looks(SETTLED, SETTLED)) == ()
    assert unsettled(looks(Figures(), Figures())) == ()


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
def test_what_goes_on_is_said(before: dict[str, Any], now: dict[str, Any], said: str) -> None:
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
    Figures,
    dirty_pages=st.none() | st.integers(0, 40),
    history=st.none() | st.integers(0, 3),
    change_buffer_pages=st.none() | st.integers(1, 3),
    log_position=st.none() | st.integers(0, 2),
    purged=st.none() | st.booleans(),
)


@given(st.lists(figures, min_size=1), figures)
def test_whatever_was_before_rest_is_rest_in_the_end(before: list[Figures], last: Figures) -> None:
    at_rest = replace(last, dirty_pages=0, purged=True)
    assert unsettled(looks(*before, *[at_rest] * 14)) == ()
