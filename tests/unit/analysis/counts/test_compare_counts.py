"""Test the comparison of treatments by instructions, and what is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.counts.compare_counts import (
    compare_counts,
    compare_stored,
    function_differences,
)
from millrace.analysis.counts.model import CountComparison, FunctionDifference
from millrace.analysis.explain.explanation import explain
from millrace.model.instruction_counts import CallPath, CountedStart, TreatmentStarts
from millrace.model.observations import Observations
from millrace.store.records import StoredRun
from tests.support.counted_starts import BASE, MORE, start, treatment, with_counts
from tests.support.explained import first_blocks, study_run
from tests.support.known import known
from tests.support.observed_trials import A, B


def compared(*others: TreatmentStarts, base: TreatmentStarts = BASE) -> CountComparison:
    (group,) = compare_counts([base, *others], "server", "old")
    (comparison,) = group.comparisons
    return comparison


def test_more_instructions_are_reported_with_interval_and_function() -> None:
    found = compared(MORE)
    assert found.verdict == "more"
    assert known(found.ratio).ratio == pytest.approx(1.064, abs=0.001)
    assert 1.06 < known(known(found.ratio).low) < 1.064
    assert (found.functions[0].name, found.functions[0].only) == ("extra", "B")
    assert found.base.spread == pytest.approx(0.0005, abs=0.0003)
    assert found.base.background == 25


def test_what_differs_less_than_starts_is_no_difference() -> None:
    again = treatment("again", [start(1001, 1000), start(1002, 1002), start(1001, 1002)])
    assert compared(again).verdict == "no difference shown"


def test_notes_name_compilers_and_kinds_when_programs_differ() -> None:
    first, second = compared(MORE).notes
    assert first.startswith("old was compiled by GCC 4.1.2, new by GCC 11.2.1 and clang 15.0.7: ")
    assert second.startswith("only new is a position-independent program (PIE)")
    assert compared(treatment("new", MORE.starts)).notes == ()
    assert compared(treatment("new", MORE.starts, program=None)).notes == ()


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ([], "no start of the server was counted"),
        ([start(1000, 1030)], "repetitions of the same statements differ by 3.0 %, more than 2 %"),
        ([start(1000, 1012), start(1012, 1000)], "by 1.2 %, more than 0.5 %"),
        (
            [start(1000, 1050, extra=50), start(1150, 1000, extra=90)],
            "more than 0.5 %; two starts differ most in extra",
        ),
        ([start(1000, 1004, 1008)] * 3, "each repetition executes more instructions than"),
        ([start(1008, 1004, 1000)] * 3, "0.8 % from the first to the last"),
        ([start(1060, 1010, 1000, 1000)] * 3, "each repetition executes fewer instructions than"),
        ([start(-1, 0, 1)], "took no more instructions"),
    ],
)
def test_counts_that_are_no_statements_are_refused(
    starts: Sequence[CountedStart], said: str
) -> None:
    found = compared(treatment("new", starts))
    assert (found.verdict, found.ratio, found.functions) == ("refused", None, ())
    assert said in known(found.candidate.refusal)


def test_repetitions_may_have_statements_that_take_more_in_every_start() -> None:
    wide = [start(1000, 1100, 1050), start(1001, 1101, 1051), start(1001, 1100, 1052)]
    found = compared(treatment("new", wide))
    assert found.verdict == "more"
    assert found.candidate.mean == pytest.approx(1050, rel=0.001)
    assert found.candidate.spread == pytest.approx(0.0005, abs=0.0004)
    without_one = [*wide, start(1000, 1100)]
    assert compared(treatment("new", without_one)).candidate.mean == pytest.approx(1050, rel=0.001)


def test_a_start_whose_repetitions_differ_is_left_out() -> None:
    found = compared(treatment("new", [*MORE.starts, start(1065, 1500, 1066)]))
    assert found.verdict == "more"
    assert (len(found.candidate.values), found.candidate.left_out) == (3, 1)


@pytest.mark.parametrize(("good", "verdict"), [(3, "more"), (2, "refused")])
def test_three_starts_count_beside_one_that_failed(good: int, verdict: str) -> None:
    found = compared(treatment("new", MORE.starts[:good], failure="it hangs", failed=1))
    assert found.verdict == verdict
    assert (len(found.candidate.values), found.candidate.left_out) == (good, 1)
    assert found.candidate.refusal == (None if verdict == "more" else "it hangs")


def test_a_failed_treatment_has_its_reason_and_the_base_is_compared_with_the_others() -> None:
    failed = treatment("broken", [], failure="it does not start")
    (group,) = compare_counts([BASE, failed, MORE], "server", "old")
    assert [each.verdict for each in group.comparisons] == ["refused", "more"]
    assert group.comparisons[0].candidate.refusal == "it does not start"


def test_tests_are_compared_each_with_its_own_base() -> None:
    other = [
        treatment(str(each.levels["server"]), each.starts, test="scan") for each in (BASE, MORE)
    ]
    groups = compare_counts([BASE, *other, MORE], "server", "old")
    assert [group.label for group in groups] == ["point-query", "scan"]
    assert all([each.verdict for each in group.comparisons] == ["more"] for group in groups)


def test_counts_of_equal_servers_rarely_differ() -> None:
    random = np.random.default_rng(1)
    different = 0
    for _ in range(400):
        sides = [
            treatment(
                name,
                [
                    start(
                        *(40_000 * (1 + 0.001 * random.standard_normal()) + random.normal(0, 20, 3))
                    )
                    for _ in range(4)
                ],
            )
            for name in ("old", "new")
        ]
        verdict = compared(sides[1], base=sides[0]).verdict
        assert verdict != "refused"
        different += verdict != "no difference shown"
    assert different / 400 < 0.075


def compared_in(
    stored: StoredRun, factor: str = "server", clients: int = 1
) -> CountComparison | None:
    a, b = (
        next(
            each
            for each in stored.treatments
            if each.levels["server"] == server and each.levels["clients"] == clients
        )
        for server in (A, B)
    )
    return compare_stored(stored, factor, a, b)


def failed(stored: StoredRun, number: int) -> StoredRun:
    """Return the run whose last attempts failed."""
    kept, lost = stored.attempts[:-number], stored.attempts[-number:]
    reason = "valgrind is not installed"
    broken = (
        replace(each, outcome="failed", reason=reason, observations=Observations()) for each in lost
    )
    return replace(stored, attempts=(*kept, *broken))


def test_counts_of_a_run_are_compared_by_their_starts() -> None:
    found = known(compared_in(study_run(counted=True)))
    assert found.verdict == "more"
    assert found.base.values == pytest.approx((1001, 1002, 1001), abs=1.0)
    assert [each.name for each in found.functions] == ["extra"]
    assert found.base.program is not None


def test_a_run_that_nobody_counted_has_no_comparison() -> None:
    assert compared_in(study_run()) is None
    (explanation,) = explain(study_run(), factor="server", base=A, candidate=B)
    assert explanation.instructions is None


def test_a_count_holds_for_any_number_of_clients() -> None:
    stored = study_run(counted=True, clients=(8, 1))
    assert compared_in(stored, clients=1) == compared_in(stored, clients=8)
    assert compared_in(stored, factor="clients") is None


def test_count_has_a_refusal_when_it_is_missing() -> None:
    stored = with_counts(study_run(), {A: BASE.starts})
    found = known(compared_in(stored))
    assert found.verdict == "refused"
    assert found.candidate.refusal == "no start of the server was counted"
    found = known(compared_in(failed(study_run(counted=True), 1)))
    assert found.candidate.refusal == "valgrind is not installed"


def test_counts_are_no_measurements() -> None:
    """A trial in valgrind is slow: it must not enter a time, a verdict or a failure."""
    stored = study_run(counted=True)
    (with_them,) = explain(stored, factor="server", base=A, candidate=B)
    (without,) = explain(study_run(), factor="server", base=A, candidate=B)
    assert with_them.a == without.a
    assert with_them.b == without.b
    lost = failed(stored, len(MORE.starts))
    (explanation,) = explain(lost, factor="server", base=A, candidate=B)
    assert explanation.b.failed == 0
    assert explanation.missing == without.missing


def test_more_instructions_are_among_the_facts() -> None:
    (found,) = explain(study_run(counted=True), factor="server", base=A, candidate=B)
    (cause,) = (each for each in found.likely_causes if each.kind == "instructions")
    assert cause.certainty.is_fact
    assert cause.sentence.startswith("B executes 1.06 times the instructions per statement: 1,001")
    assert "extra, with all that it calls: 64.3 more" in cause.evidence


@pytest.mark.parametrize("blocks", [0, 2])
def test_counts_alone_are_explained(blocks: int) -> None:
    stored = study_run(counted=True)
    counts = {A: BASE.starts, B: MORE.starts}
    stored = with_counts(first_blocks(study_run(profiled=0), blocks), counts) if blocks else stored
    (found,) = explain(stored, factor="server", base=A, candidate=B)
    assert found.instructions is not None


# Functions that make a difference between two trees of calls.

Paths = dict[CallPath, float]

TREE: Paths = {
    ("run",): 1_000,
    ("run", "parse"): 4_000,
    ("run", "parse", "copy"): 500,
    ("run", "execute"): 2_000,
    ("run", "execute", "open"): 3_000,
    ("run", "execute", "open", "lock"): 1_500,
    ("run", "execute", "read"): 6_000,
    ("run", "execute", "read", "copy"): 2_000,
}


def differing(b: Paths, a: Paths = TREE) -> list[tuple[str, float]]:
    found = function_differences(a, b, {})
    return [(each.name, each.difference) for each in found]


def first(b: Paths) -> FunctionDifference:
    return function_differences(TREE, b, {"read": "server"})[0]


def changed(changes: Mapping[CallPath, float]) -> Paths:
    """Return the base's paths with these costs added; paths without costs are gone."""
    found = {path: TREE.get(path, 0) + changes.get(path, 0) for path in {**TREE, **changes}}
    return {path: cost for path, cost in found.items() if cost}


def test_equal_trees_do_not_differ() -> None:
    assert differing(dict(TREE)) == []


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
    gone = {path: cost for path, cost in TREE.items() if "lock" not in path}
    assert differing(gone) == [("lock", -1_500)]


def test_renamed_functions_are_no_difference() -> None:
    renamed = {
        tuple({"open": "open_v2"}.get(name, name) for name in path): cost
        for path, cost in TREE.items()
    }
    assert differing(renamed) == []


def test_a_function_in_between_differs_by_its_own_instructions() -> None:
    through: Paths = {}
    for path, cost in TREE.items():
        within = path[:2] == ("run", "execute")
        through[(*path[:1], "dispatch", *path[1:]) if within else path] = cost
    through["run", "dispatch"] = 40
    assert differing(through) == [("dispatch", 40)]


def test_a_callee_that_moved_below_another_function_differs_by_itself() -> None:
    through: Paths = {}
    for path, cost in TREE.items():
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
    found = function_differences(TREE, places, {})
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
