"""Test the output of the benchmark of known causes."""

from __future__ import annotations

from benchmarks.attribution import Named, score
from benchmarks.causes import CAUSES, NOTHING


def named(cause: str, rank: int | None) -> Named:
    return Named("mysql-8.0.33", cause, rank, (), (100.0, 120.0), (), 1.0)


def test_the_goal_is_told_where_all_causes_were_measured() -> None:
    found = [named(cause.name, 1 if n < 9 else 3) for n, cause in enumerate(CAUSES)]
    assert score("mysql-8.0.33", [*found, named(NOTHING.name, None)]) == (
        "mysql-8.0.33: named first 9 of 11 (wanted: 9), among the first 3 11 (wanted: 11); "
        "nothing named as a cause 0 times (wanted: 0)"
    )


def test_a_part_of_the_causes_has_no_goal() -> None:
    assert score("mysql-8.0.33", [named(CAUSES[0].name, 1)]) == (
        "mysql-8.0.33: named first 1 of 1, among the first 3 1"
    )
    assert score("mysql-8.0.33", [named(NOTHING.name, None)]) == (
        "mysql-8.0.33: nothing named as a cause 0 times (wanted: 0)"
    )
