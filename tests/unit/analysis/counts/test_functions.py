"""Test which functions are named for a difference between two trees of calls."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.counts.functions import function_differences
from millrace.analysis.counts.model import FunctionDifference
from millrace.model.instruction_counts import CallPath

Paths = dict[CallPath, float]

BASE: Paths = {
    ("run",): 1_000,
    ("run", "parse"): 4_000,
    ("run", "parse", "copy"): 500,
    ("run", "execute"): 2_000,
    ("run", "execute", "open"): 3_000,
    ("run", "execute", "open", "lock"): 1_500,
    ("run", "execute", "read"): 6_000,
    ("run", "execute", "read", "copy"): 2_000,
}


def differing(b: Paths, a: Paths = BASE) -> list[tuple[str, float]]:
    found = function_differences(a, b, {})
    return [(each.name, each.difference) for each in found]


def first(b: Paths) -> FunctionDifference:
    return function_differences(BASE, b, {"read": "server"})[0]


def changed(changes: Mapping[CallPath, float]) -> Paths:
    """Return the base's paths with these costs added; paths without costs are gone."""
    found = {path: BASE.get(path, 0) + changes.get(path, 0) for path in {**BASE, **changes}}
    return {path: cost for path, cost in found.items() if cost}


def test_equal_trees_do_not_differ() -> None:
    assert differing(dict(BASE)) == []


def test_a_function_that_takes_more_is_named_and_not_all_its_callers() -> None:
    found = first(changed({("run", "execute", "read"): 700}))
    assert found == FunctionDifference(
        name="read", file="server", callers=("run", "execute"), a=8_000, b=8_700, difference=700
    )
    assert differing(changed({("run", "execute", "read"): 700})) == [("read", 700)]


def test_a_planted_function_is_named_first_with_all_that_it_calls() -> None:
    extra = ("run", "execute", "read", "check")
    found = first(changed({extra: 300, (*extra, "copy"): 900, (*extra, "verify"): 50}))
    assert (found.name, found.only) == ("check", "B")
    assert found.difference == pytest.approx(1_250)
    assert found.callers == ("run", "execute", "read")


def test_a_function_that_went_is_named_too() -> None:
    gone = {path: cost for path, cost in BASE.items() if "lock" not in path}
    assert differing(gone) == [("lock", -1_500)]


def test_renamed_functions_are_no_difference() -> None:
    renamed = {
        tuple({"open": "open_v2"}.get(name, name) for name in path): cost
        for path, cost in BASE.items()
    }
    assert differing(renamed) == []


def test_a_function_in_between_differs_by_its_own_instructions() -> None:
    through: Paths = {}
    for path, cost in BASE.items():
        within = path[:2] == ("run", "execute")
        through[(*path[:1], "dispatch", *path[1:]) if within else path] = cost
    through["run", "dispatch"] = 40
    assert differing(through) == [("dispatch", 40)]


def test_a_callee_that_moved_below_another_function_differs_by_itself() -> None:
    through: Paths = {}
    for path, cost in BASE.items():
        within = path[:3] == ("run", "execute", "read")
        through[(*path[:2], "dispatch", *path[2:]) if within else path] = cost
    through["run", "execute", "dispatch", "read"] += 800
    assert differing(through) == [("read", 800)]


def test_a_function_that_a_compiler_put_into_its_caller_is_no_difference() -> None:
    inlined = changed({
        ("run", "execute", "open", "lock"): -1_500, ("run", "execute", "open"): 1_500,
    })  # fmt: skip
    assert differing(inlined) == []


def test_two_changes_are_named_each_the_larger_first() -> None:
    both = changed({("run", "parse"): -600, ("run", "execute", "open", "lock"): 200})
    assert differing(both)[:2] == [("parse", -600), ("lock", 200)]


def test_functions_without_a_name_belong_to_their_callers() -> None:
    a = changed({("run", "parse", "[unknown]"): 300})
    b = changed({("run", "parse", "[unknown]", "[unknown]"): 400})
    assert differing(b, a) == [("parse", 100)]


def test_a_function_differs_by_all_its_places_together() -> None:
    places = changed({
        ("run", "parse", "log"): 90, ("run", "execute", "open", "log"): 200,
        ("run", "execute", "read", "log"): 110, ("run", "execute", "read", "copy"): -80,
        ("run", "parse", "copy"): 80,
    })  # fmt: skip
    found = function_differences(BASE, places, {})
    assert [(each.name, each.difference, each.places) for each in found] == [
        ("log", 400, 3), ("parse", 170, 1),
    ]  # fmt: skip
    assert found[0].callers == ("run", "execute", "open")


NAMES = st.sampled_from("abcdef")
TREES = st.dictionaries(
    st.lists(NAMES, max_size=5).map(lambda names: ("run", *names)),
    st.integers(1, 10_000).map(float),
    min_size=1,
    max_size=20,
)


@given(TREES, TREES)
def test_the_other_way_round_the_signs_are_the_opposite(a: Paths, b: Paths) -> None:
    there = {each.name: each.difference for each in function_differences(a, b, {})}
    back = {each.name: each.difference for each in function_differences(b, a, {})}
    assert there == pytest.approx({name: -difference for name, difference in back.items()})
