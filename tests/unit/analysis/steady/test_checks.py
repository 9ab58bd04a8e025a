"""Test the server's state at both ends of a measured part, and its effect on steady state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import databases
from millrace.analysis.steady.checks import SteadyCheck, steady_checks
from millrace.model.instance_facts import ServerStateFact
from millrace.model.steady_limits import SteadyLimits

POOL = {"pool_pages": 8_000, "pool_data_pages": 6_000, "pool_free_pages": 2_000}
BEGIN = {
    **POOL, "pages_asked_for": 1_000, "pages_fetched": 500, "dirty_pages": 400, "history": 100,
    "log_position": 1_000_000, "checkpoint": 900_000,
}  # fmt: skip
END = {**BEGIN, "pages_asked_for": 5_000_000, "log_position": 1_200_000, "checkpoint": 1_100_000}
STATE = {
    "begin": BEGIN, "end": END, "log_capacity_bytes": 2_000_000, "since_begin_s": 30.5,
    "statistics": {"sbtest1": {"age_s": 400.0, "rows": 100_000}},
}  # fmt: skip
VARIABLES = {"innodb_max_dirty_pages_pct": "90.000000"}
FIGURES = tuple(BEGIN)
STORAGE = databases.get("mysql").storage


def gate(
    name: str,
    *,
    begin: Mapping[str, Any] | None = None,
    end: Mapping[str, Any] | None = None,
    transactions: float = 100_000,
    rows_changed: float = 0,
    variables: Mapping[str, str] = VARIABLES,
    **state: Any,
) -> SteadyCheck:
    """Return the check of that name, on a trial that is usual except for these values."""
    changed = {
        **STATE, "begin": {**BEGIN, **(begin or {})}, "end": {**END, **(end or {})}, **state
    }  # fmt: skip
    found = steady_checks(
        ServerStateFact.model_validate(changed),
        STORAGE.limits(variables),
        transactions=transactions,
        rows_changed=rows_changed,
    )
    return next(each for each in found if each.name == name)


def test_a_server_at_rest_passes_every_gate() -> None:
    found = steady_checks(
        ServerStateFact.model_validate(STATE),
        STORAGE.limits(VARIABLES),
        transactions=100_000,
        rows_changed=0,
    )
    assert [each.name for each in found] == [
        "buffer pool", "dirty pages", "checkpoint age", "purge lag", "statistics",
    ]  # fmt: skip
    assert {each.result for each in found} == {"passed"}
    assert all(each.figures for each in found)


@pytest.mark.parametrize("state", [{}, {"begin": None}, {"begin": {}, "end": {}}])
def test_what_no_server_told_is_unknown(state: Mapping[str, Any]) -> None:
    found = steady_checks(
        ServerStateFact.model_validate(state), SteadyLimits(), transactions=1, rows_changed=0
    )
    assert {each.result for each in found} == {"unknown"}


@given(st.sets(st.sampled_from(FIGURES)), st.booleans(), st.booleans())
def test_a_version_that_lacks_figures_fails_no_gate(
    lacking: set[str], tells_capacity: bool, tells_statistics: bool
) -> None:
    state = {
        key: {name: value for name, value in figures.items() if name not in lacking}
        for key, figures in (("begin", BEGIN), ("end", END))
    }
    more = {
        **({"log_capacity_bytes": 2_000_000} if tells_capacity else {}),
        **({"statistics": STATE["statistics"], "since_begin_s": 30} if tells_statistics else {}),
    }
    found = steady_checks(
        ServerStateFact.model_validate({**state, **more}),
        SteadyLimits(),
        transactions=100_000,
        rows_changed=0,
    )
    assert "failed" not in {each.result for each in found}
    by_name = {each.name: each.result for each in found}
    assert (by_name["purge lag"] == "unknown") == ("history" in lacking)
    assert (by_name["statistics"] == "unknown") == (not tells_statistics)


@pytest.mark.parametrize(
    ("begin", "end", "result"),
    [
        (0, 4_000, "failed"),  # 0 to 50 %: the same growth again exceeds 90 %
        (0, 2_000, "passed"),  # 0 to 25 %
        (4_000, 6_000, "failed"),  # 50 to 75 %
        (7_000, 7_200, "passed"),  # at the limit, and no longer growing
        (6_000, 3_000, "passed"),
    ],
)
def test_dirty_pages_fail_where_they_head_for_their_limit(
    begin: int, end: int, result: str
) -> None:
    found = gate("dirty pages", begin={"dirty_pages": begin}, end={"dirty_pages": end})
    assert found.result == result


def test_the_limit_of_dirty_pages_is_the_servers_own() -> None:
    low = {"innodb_max_dirty_pages_pct": "50"}
    begin, end = {"dirty_pages": 0}, {"dirty_pages": 2_000}
    found = gate("dirty pages", variables=low, begin=begin, end=end)
    assert found.result == "failed"
    assert "50 %" in found.figures
    assert gate("dirty pages", begin=begin, end=end).result == "passed"


@pytest.mark.parametrize(
    ("written", "age", "result"),
    [
        (900_000, 900_000, "failed"),  # from 5 to 45 % of 2 MB
        (300_000, 400_000, "passed"),
        (5_000_000, 1_400_000, "passed"),  # it has wrapped around
        (1_000_000, 100_000, "passed"),
    ],
)
def test_the_checkpoints_age_fails_where_it_heads_for_the_logs_end(
    written: int, age: int, result: str
) -> None:
    position = 1_000_000 + written
    found = gate("checkpoint age", end={"log_position": position, "checkpoint": position - age})
    assert found.result == result


def test_the_size_of_the_log_is_what_the_server_has_now_or_what_its_files_take() -> None:
    files = {"innodb_log_file_size": "50331648", "innodb_log_files_in_group": "2"}
    own = gate("checkpoint age", variables=files)
    assert "5 % of the redo log was in use at the begin" in own.figures
    by_files = gate("checkpoint age", variables=files, log_capacity_bytes=None)
    assert "0 % of the redo log was in use at the begin" in by_files.figures
    assert gate("checkpoint age", log_capacity_bytes=None).result == "unknown"


@pytest.mark.parametrize(
    ("grown", "transactions", "result"),
    [(60_000, 100_000, "failed"), (30_000, 100_000, "passed"), (60_000, 3_000_000, "passed")],
)
def test_purge_fails_where_it_lags_by_more_than_its_own_cycle(
    grown: int, transactions: float, result: str
) -> None:
    found = gate("purge lag", end={"history": 100 + grown}, transactions=transactions)
    assert found.result == result


@pytest.mark.parametrize(
    ("free", "fetched", "asked", "result"),
    [
        (1_000, 1_500, 5_000_000, "failed"),
        (2_000, 1_500, 5_000_000, "passed"),  # evicts old pages: steadily bound by I/O
        (1_000, 500, 5_000_000, "passed"),  # new pages of a table that grows
        (1_000, 1_500, 500_000_000, "passed"),  # too few to matter
    ],
)
def test_a_buffer_pool_fails_while_it_fills(
    free: int, fetched: int, asked: int, result: str
) -> None:
    end = {"pool_free_pages": free, "pages_fetched": fetched, "pages_asked_for": asked}
    assert gate("buffer pool", end=end).result == result


@pytest.mark.parametrize(
    ("age_s", "rows_changed", "result"),
    [
        (12.0, 0, "failed"),
        (12.0, 50_000, "passed"),  # caused by the load itself
        (29.9, 0, "passed"),  # as old as the measured part, to a second
        (40.0, 0, "passed"),
    ],
)
def test_statistics_are_not_calculated_anew_but_for_changes(
    age_s: float, rows_changed: float, result: str
) -> None:
    found = gate(
        "statistics",
        rows_changed=rows_changed,
        statistics={"sbtest1": {"age_s": age_s, "rows": 100_000}},
    )
    assert found.result == result
    assert ("sbtest1" in found.figures) == (result == "failed")
