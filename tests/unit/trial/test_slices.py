"""Test the parts of sides in a drive in slices, against rates that are known."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import TrialFailed
from millrace.loadgen.events import DriveResult, LoadResult, PhaseResult, Slice, read_event
from millrace.trial.slices import by_side, given_up, loads_by_side, trimmed_mean

MS = 1_000_000
Speed = Callable[[int, int], float]
"""Milliseconds of a slice of 100 transactions, by side and number of the slice."""


def slices_of(sides: int, groups: int, took_ms: Speed) -> list[Slice]:
    drawn = random.Random(1)
    made: list[Slice] = []
    now_ns = 0
    for _ in range(groups):
        order = drawn.sample(range(sides), sides)
        for side in (*order, *reversed(order)):
            until_ns = now_ns + round(took_ms(side, len(made)) * MS)
            made.append(Slice(side, now_ns, until_ns, 100, 0))
            now_ns = until_ns
    return made


def result_of(slices: list[Slice], sides: int) -> LoadResult:
    def records(count: int) -> list[dict[str, Any]]:
        service = {"encoded": "", "count": count, "sum_s": 1.0, "min_s": 0.0, "max_s": 1.0}
        return [
            {"name": "point", "count": count, "errors": {}, "retries": 0, "rows": count,
             "affected_rows": 0, "bytes_sent": 1, "bytes_received": 1, "service": service,
             "response": None}
        ]  # fmt: skip

    def count_of(side: int) -> int:
        return sum(each.transactions for each in slices if each.side == side)

    event = read_event(
        {
            "type": "phase", "kind": "drive", "name": "measure", "test": "point",
            "protocol": "prepared", "primary": True, "duration_s": 9.0, "warmup_s": 2.0,
            "connect_s": 0.2, "partial": False, "partial_reason": None, "clients": 1, "threads": 1,
            "busy_poll": False, "cpus": None, "pacing": {"kind": "closed"}, "mean_gap_s": 1e-6,
            "transactions": records(100 * len(slices)), "statements": records(100 * len(slices)),
            "client": {"user_s": 1.0, "system_s": 1.0, "voluntary_switches": 1,
                       "involuntary_switches": 1},
            "sides": [
                {"transactions": records(count_of(side)), "statements": records(count_of(side)),
                 "rollbacks": side, "mean_gap_s": 1e-6}
                for side in range(sides)
            ],
            "slices": [list(each) for each in slices],
        }
    )  # fmt: skip
    assert isinstance(event, DriveResult)
    return LoadResult("8.0", (event,))


def rates_of(slices: list[Slice], sides: int) -> list[float]:
    """Return the transactions a second by the trimmed time."""
    found = by_side(result_of(slices, sides), sides, 0)
    counts = [sum(one.transactions for one in slices if one.side == s) for s in range(sides)]
    return [count / each.trimmed_s for count, each in zip(counts, found, strict=True)]


@given(st.integers(2, 8), st.floats(0.5, 2.0))
def test_a_known_ratio_is_found_whatever_the_host_does_meanwhile(sides: int, ratio: float) -> None:
    def took_ms(side: int, number: int) -> float:
        wandering = 1 + 0.5 * math.sin(number / 200)
        return 5 * wandering * (ratio if side else 1.0)

    rates = rates_of(slices_of(sides, 400, took_ms), sides)
    for rate in rates[1:]:
        assert rates[0] / rate == pytest.approx(ratio, rel=2e-3)


@given(st.floats(0.001, 1.0))
def test_a_side_that_rests_after_its_slices_loses_that_share_of_its_rate(slowdown: float) -> None:
    slices = slices_of(2, 50, lambda side, _number: 5.0 * (1 + side * slowdown))
    rested = [each._replace(rested_ns=round(5 * MS * each.side * slowdown)) for each in slices]
    base, slowed = by_side(result_of(rested, 2), 2, 0)
    share = slowdown / (1 + slowdown)
    assert base.rested_share == 0.0
    assert slowed.rested_share == pytest.approx(share, abs=1e-6)
    assert base.trimmed_s / slowed.trimmed_s == pytest.approx(1 - share, abs=1e-6)


def test_stalls_of_one_side_are_in_its_plain_time_alone() -> None:
    def took_ms(side: int, number: int) -> float:
        return 500.0 if side == 1 and number % 40 < 2 else 5.0

    slices = slices_of(2, 200, took_ms)
    base, stalled = by_side(result_of(slices, 2), 2, 0)
    assert base.trimmed_s == pytest.approx(stalled.trimmed_s, rel=1e-9)
    driven = stalled.result.driven()
    quiet = base.result.driven()
    assert driven is not None
    assert quiet is not None
    assert driven.duration_s > 3 * quiet.duration_s


def test_each_side_has_its_own_records_and_its_share_of_the_rest() -> None:
    slices = slices_of(2, 50, lambda side, _number: 5.0 + side)
    found = by_side(result_of(slices, 2), 2, 0)
    for side, each in enumerate(found):
        driven = each.result.driven()
        assert driven is not None
        assert driven.transactions[0].count == 100 * 100
        assert driven.rollbacks == side
        assert driven.duration_s == pytest.approx(100 * (5.0 + side) / 1000)
        assert driven.warmup_s == 1.0
        assert driven.sides is None
        assert each.slices == 100


def test_the_ratio_to_the_base_is_right_whichever_side_stalls_in_some_groups() -> None:
    drawn = random.Random(3)

    def took_ms(side: int, number: int) -> float:
        stalled = side == 0 and number % 60 < 12
        return 5.0 * (20.0 if stalled else 1.0) * drawn.lognormvariate(0, 0.01 + 0.1 * side)

    slices = slices_of(3, 2_000, took_ms)
    found = by_side(result_of(slices, 3), 3, 1)
    assert found[2].trimmed_s / found[1].trimmed_s == pytest.approx(1.0, rel=0.01)


def test_a_single_group_of_slow_transactions_is_a_measurement() -> None:
    slices = slices_of(2, 1, lambda side, _number: 1_000.0 + 100.0 * side)
    found = by_side(result_of(slices, 2), 2, 0)
    assert found[1].trimmed_s / found[0].trimmed_s == pytest.approx(1.1)


def test_groups_without_a_transaction_of_each_side_do_not_count() -> None:
    slices = slices_of(2, 1, lambda _side, _number: 5.0)
    slices[1] = slices[1]._replace(transactions=0)
    with pytest.raises(TrialFailed, match="did transactions of each server succeed") as failed:
        by_side(result_of(slices, 2), 2, 0)
    assert "error logs" in (failed.value.hint or "")


def test_a_round_that_was_given_up_shows_how_long_the_others_waited() -> None:
    result = result_of(slices_of(2, 1, lambda _side, _number: 5.0), 2)
    (driven,) = result.drives
    assert given_up(result, 0) == {}
    assert driven.sides is not None
    sides = [side.replace(before=10, before_s=3.0) for side in driven.sides]
    waited = replace(result, phases=(driven.replace(unanswered_s=124.0, sides=sides),))
    mean_s = (1.0 + 3.0) / (sides[0].transactions[0].count + 10)
    assert given_up(waited, 0) == {"unanswered_s": 124.0, "base_transaction_s": mean_s}


def loads_of(slices: list[Slice], sides: int, *, besides_s: float) -> LoadResult:
    """Return loads whose statements take ``besides_s`` times the side outside of slices."""

    def phase(name: str, side: int) -> PhaseResult:
        own = [each for each in slices if each.side == side] if name == "load" else None
        sliced_s = sum(each.until_ns - each.from_ns for each in own or ()) / 1e9
        return PhaseResult(
            name=name, kind="load_data" if name == "load" else "statement",
            duration_s=besides_s * side + sliced_s, affected_rows=1, warnings=0, rows_sent=1,
            bytes_sent=1, generator_wait_s=None, result=None, side=side, round_s=4.0,
            slices=None if own is None else tuple(own),
        )  # fmt: skip

    names = ("create", "load", "finish")
    return LoadResult("8.0", tuple(phase(name, side) for name in names for side in range(sides)))


@given(st.integers(2, 8), st.floats(0.5, 2.0))
def test_a_load_has_its_trimmed_slices_and_the_whole_end_of_its_statement(
    sides: int, ratio: float
) -> None:
    def took_ms(side: int, number: int) -> float:
        wandering = 1 + 0.5 * math.sin(number / 200)
        stalled = 100 if number % 100 == 3 else 1
        return 5 * wandering * stalled * (ratio if side else 1.0)

    result = loads_of(slices_of(sides, 200, took_ms), sides, besides_s=2.0)
    found = loads_by_side(result, sides, 0, ("load", "finish"))
    for side, each in enumerate(found):
        assert [phase.name for phase in each.result.phases] == ["create", "load", "finish"]
        assert (each.phase, each.slices, each.round_s) == ("load", 400, 8.0)
        assert each.result.client is None
        sliced_s = each.trimmed_s - 2.0 * side
        assert sliced_s / found[0].trimmed_s == pytest.approx(ratio if side else 1.0, rel=5e-3)
        assert each.result.phases[1].duration_s > each.trimmed_s  # with all of its stalls


def test_a_load_of_too_few_rows_for_slices_is_no_measurement() -> None:
    slices = [each._replace(transactions=0) for each in slices_of(2, 1, lambda _side, _n: 1.0)]
    with pytest.raises(TrialFailed, match="too few rows"):
        loads_by_side(loads_of(slices, 2, besides_s=0.0), 2, 0, ("load",))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_a_trimmed_mean_is_that_of_the_middle(values: list[float]) -> None:
    cut = len(values) // 5
    middle = sorted(values)[cut : len(values) - cut]
    assert trimmed_mean(values) == pytest.approx(sum(middle) / len(middle), abs=1e-6)
