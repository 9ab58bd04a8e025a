"""Test the time breakdown of each statement, from its samples."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.explain.statement_breakdown import (
    StatementBreakdown,
    statement_breakdown_differences,
    statement_breakdowns,
)
from tests.support.asked_statements import CLIENTS, TRANSACTION, Asked, Look, Seen, trial
from tests.support.known import known
from tests.support.observed_trials import seen


def us(account: StatementBreakdown) -> dict[str, float]:
    return {part.key: part.us.mean for part in account.parts}


def test_the_account_of_each_statement_is_what_happened() -> None:
    found = {each.name: each for each in statement_breakdowns([Seen(TRANSACTION).trial()])}
    assert list(found) == ["BEGIN", "select", "update", "COMMIT"]
    expected: dict[str, dict[str, float]] = {
        "BEGIN": {"running": 4, "client_wire": 6},
        "select": {"running": 30, "data_read": 10, "client_wire": 9},
        "update": {"running": 25, "lock": 60, "client_wire": 9},
        # Waits for a thread that flushes the log count as waits for the flush.
        "COMMIT": {"running": 10, "lock": 10, "log_flush": 120, "client_wire": 9},
    }
    for name, parts in expected.items():
        result = {key: value for key, value in us(found[name]).items() if value}
        assert result == {key: pytest.approx(value, abs=0.01) for key, value in parts.items()}, name
        assert found[name].times == pytest.approx(TRANSACTION[name].times, rel=1e-3)
        assert found[name].latency.mean == pytest.approx(TRANSACTION[name].latency, rel=1e-3)
        assert found[name].unaccounted.us.mean == pytest.approx(0, abs=0.05)


def test_running_time_is_divided_by_scheduler_events() -> None:
    scheduled = {"select": (300, 100), "update": (0, 12), "COMMIT": (5, 4)}
    trials = [Seen(TRANSACTION, scheduled=scheduled).trial(block) for block in range(2)]
    found = {each.name: each for each in statement_breakdowns(trials)}
    assert us(found["select"])["on_cpu"] == pytest.approx(22.5, abs=0.01)
    assert us(found["select"])["runnable"] == pytest.approx(7.5, abs=0.01)
    assert us(found["update"])["runnable"] == pytest.approx(25, abs=0.01)
    assert us(found["update"])["on_cpu"] == 0
    # Twelve equal looks leave it open; nine are too few, and so are none.
    (part,) = (part for part in found["update"].parts if part.key == "on_cpu")
    assert 0.5 < known(part.us.high) < 25
    assert us(found["COMMIT"])["running"] == pytest.approx(10, abs=0.01)
    assert us(found["BEGIN"])["running"] == pytest.approx(4, abs=0.01)
    for each in found.values():
        assert each.unaccounted.us.mean == pytest.approx(0, abs=0.05)
        assert {"running", "on_cpu"} - us(each).keys()


def test_a_part_is_shared_out_where_it_is_in_all_trials() -> None:
    scheduled = dict.fromkeys(TRANSACTION, (30, 10))
    a = [Seen(TRANSACTION, scheduled=scheduled).trial(block) for block in range(2)]
    b = [Seen(TRANSACTION, scheduled=scheduled).trial(0), Seen(TRANSACTION).trial(1)]
    for found, expected in ((a, {"on_cpu", "runnable"}), (b, {"running"})):
        for each in statement_breakdown_differences(a, found):
            keys = {line.key for line in each.breakdown.lines}
            assert keys & {"running", "on_cpu", "runnable"} == expected
            assert each.breakdown.unknown == ()
            assert each.breakdown.unaccounted.difference.mean == pytest.approx(0, abs=0.01)


def test_what_was_not_seen_of_a_statement_is_unaccounted() -> None:
    asked = {**TRANSACTION, "update": replace(TRANSACTION["update"], unseen=50.0)}
    found = {each.name: each for each in statement_breakdowns([Seen(asked).trial()])}
    # No sample hit it: the looks' time is that of the others.
    assert found["update"].unaccounted.us.mean == pytest.approx(50, abs=0.1)
    assert found["select"].unaccounted.us.mean == pytest.approx(0, abs=0.1)


def test_nobody_looked_or_there_is_nothing_to_tell_apart() -> None:
    looks = [Look("a", "running", 100, 1.0), Look(None, "network", 10, 0.1)]
    alone = trial(looks, {"a": (1, 100.0)})
    several = {"a": (1, 50.0), "b": (1, 50.0)}
    for nothing in (alone, trial([], several), trial([], several, result={"states": []})):
        assert statement_breakdowns([nothing]) == ()
        assert statement_breakdown_differences([nothing], [nothing]) == ()
    (a, b) = statement_breakdowns([trial(looks, several)])
    assert (us(a)["running"] > 0, us(b)["running"]) == (True, 0.0)


def test_older_observations_are_missing_once() -> None:
    complete = Seen(TRANSACTION).trial()
    observations = complete.attempt.observations
    states = known(observations.states).model_copy(update={"statements": None})
    before = observations.model_copy(update={"states": states})
    older = seen(replace(complete.attempt, observations=before), CLIENTS)
    assert older.statements is None
    lacks = [lack for lack in older.missing if "which statement" in lack.what]
    assert [lack.hint for lack in lacks] == ["measure again with this millrace"]
    assert not [lack for lack in complete.observed.missing if "statement" in lack.what]
    # The breakdown of the transaction does not need them.
    assert older.states is not None


def test_differences_are_of_the_statement_that_differs() -> None:
    source = np.random.default_rng(7)
    slow = {**TRANSACTION, "update": Asked(1, {"running": 25.0, "lock": 160.0, "network": 9.0})}
    a = [Seen(TRANSACTION, 20_000, source).trial(block) for block in range(5)]
    b = [Seen(slow, 20_000, source).trial(block) for block in range(5)]
    found = statement_breakdown_differences(a, b)
    assert found[0].name == "update"
    assert found[0].of_operation.mean == pytest.approx(100, rel=0.01)
    assert found[0].a_times == pytest.approx(1, rel=1e-3)
    assert found[0].b_times == pytest.approx(1, rel=1e-3)
    line = found[0].breakdown.lines[0]
    assert (line.key, line.significant) == ("lock", True)
    assert line.difference.mean == pytest.approx(100, rel=0.1)
    others = [line for each in found[1:] for line in each.breakdown.lines if line.significant]
    assert others == []
    # One correction for all rows of the table.
    ps = [line.adjusted_p for each in found for line in each.breakdown.lines]
    tested = [p for p in ps if p is not None]
    assert min(tested) == pytest.approx(known(line.difference.p_value) * len(tested))


def test_a_difference_adds_up() -> None:
    source = np.random.default_rng(11)
    a = [Seen(TRANSACTION, 5_000, source).trial(block) for block in range(3)]
    b = [Seen(TRANSACTION, 5_000, source).trial(block) for block in range(3)]
    for each in statement_breakdown_differences(a, b):
        account = each.breakdown
        lines = math.fsum(line.difference.mean for line in account.lines)
        left = account.unaccounted.difference.mean
        assert lines + left == pytest.approx(account.latency.mean, abs=1e-9)


def test_blocks_and_statements_that_only_one_side_has_are_left_out() -> None:
    with_more = {**TRANSACTION, "delete": Asked(1, {"running": 5.0})}
    a = [Seen(TRANSACTION).trial(block) for block in (0, 1)]
    b = [Seen(with_more).trial(block) for block in (1, 2)]
    found = statement_breakdown_differences(a, b)
    assert {each.name for each in found} == TRANSACTION.keys()
    assert {each.breakdown.blocks for each in found} == {(1,)}


NAMES = ("BEGIN", "select", "update")
LOOKS = st.builds(
    lambda statement, state_class, count, seconds, part: Look(
        statement, state_class, count, seconds, int(count * part)
    ),
    st.sampled_from([None, *NAMES]),
    st.sampled_from(
        ["running", "lock", "log_flush", "data_read", "page_fault", "network", "other"]
    ),
    st.integers(1, 1_000),
    st.floats(0.001, 10.0),
    st.floats(0, 1),
)


@given(
    st.lists(LOOKS, min_size=1, max_size=30),
    st.lists(st.integers(1, 20), min_size=len(NAMES), max_size=len(NAMES)),
)
def test_statements_add_up_to_what_was_under_way(
    looks: Sequence[Look], times: Sequence[int]
) -> None:
    """The parts of all executions sum to the share of samples with any statement under way.

    The share is of a client's cycle."""
    latencies = {name: (n, 10.0) for name, n in zip(NAMES, times, strict=True)}
    made = trial(looks, latencies)
    under_way = math.fsum(each.seconds for each in looks if each.statement is not None)
    share = under_way / math.fsum(each.seconds for each in looks)
    result = math.fsum(
        account.times * part.us.mean
        for account in statement_breakdowns([made])
        for part in account.parts
    )
    assert result == pytest.approx(share * made.observed.cycle_us, rel=1e-6, abs=1e-6)
