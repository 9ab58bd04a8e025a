"""Test changes from one look to the next: found, found again, withdrawn, never across segments."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.history.changes import Examined, Range, examine, is_settled, paired
from millrace.stats.change_points import Sensitivity
from millrace.store.history_records import ChangeRecord, ChangeState, History, Remeasured
from tests.support.history_points import NOW, OTHER_STATE, STATE, change, history, stepping

SEEDS = st.integers(0, 2**32 - 1)


def look(
    made: History, known: Sequence[ChangeRecord] = (), sensitivity: Sensitivity = "review"
) -> Examined:
    return examine(made, known, sensitivity=sensitivity, now_utc=NOW)


def remeasured(found: ChangeRecord, state: ChangeState, verdict: str) -> ChangeRecord:
    """Return the change after measuring the builds just before and after it."""
    before = f"v{int(found.earliest[1:]) - 1}"
    again = Remeasured(
        "run-c", before, found.latest, found.ratio, 0.88, 0.92, 8, verdict, "because", NOW
    )
    return replace(found, state=state, remeasured=again)


def test_a_step_is_a_candidate_at_its_first_point() -> None:
    found = look(history(stepping((40, 0.8))))
    (only,) = found.changes
    assert found.found == {only.id}
    assert found.lost == frozenset()
    assert (only.label, only.earliest, only.latest, only.state) == (
        "v40",
        "v40",
        "v40",
        "candidate",
    )
    assert only.low < 0.8 < only.high
    assert (only.n_points, only.found_utc, only.remeasured, only.note) == (80, NOW, None, None)


def test_a_series_that_does_not_move_has_none() -> None:
    assert look(history(stepping(seed=2))).changes == ()
    assert look(history([1.0])).changes == ()


@given(SEEDS, st.floats(0.5, 0.85))
def test_a_step_at_a_break_is_nobodys(seed: int, ratio: float) -> None:
    ratios = stepping((40, ratio), seed=seed)
    states = [STATE.id] * 40 + [OTHER_STATE.id] * 40
    without = [look(history(part)) for part in (ratios[:40], ratios[40:])]
    found = look(history(ratios, states))
    assert len(found.changes) == sum(len(each.changes) for each in without)
    assert "v40" not in {each.label for each in found.changes}


def test_points_of_one_state_are_compared_whatever_is_between_them() -> None:
    ratios = stepping((40, 0.8))
    states = [STATE.id if number % 2 else OTHER_STATE.id for number in range(80)]
    found = look(history(ratios, states))
    assert sorted(each.label for each in found.changes) == ["v40", "v41"]  # one per environment


@given(SEEDS, st.sampled_from(["review", "alert"]))
def test_the_same_points_again_change_nothing(seed: int, sensitivity: Sensitivity) -> None:
    made = history(stepping((30, 0.9), (55, 1.08), seed=seed))
    first = look(made, (), sensitivity)
    for _ in range(2):
        again = look(made, first.changes, sensitivity)
        assert again.changes == first.changes
        assert again.found <= first.found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ratio", [0.95, 0.9, 1.1])
def test_a_change_keeps_its_id_while_points_come(seed: int, ratio: float) -> None:
    ratios = stepping((40, ratio), n=120, seed=seed, sd=0.02)
    known: tuple[ChangeRecord, ...] = ()
    ids: set[str] = set()
    for points in range(44, 121):
        known = look(history(ratios[:points]), known).changes
        ids |= {each.id for each in known if abs(int(each.label[1:]) - 40) <= 3}
    assert len(ids) == 1
    (only,) = (each for each in known if each.id in ids)
    assert only.state == "candidate"


def test_what_a_measurement_withdrew_does_not_come_back() -> None:
    ratios = stepping((40, 0.8), n=120)
    (found,) = look(history(ratios[:80])).changes
    gone = remeasured(found, "withdrawn", "equivalent")
    assert is_settled(gone)
    for points in (80, 81, 120):
        for sensitivity in ("review", "alert"):
            again = look(history(ratios[:points]), [gone], sensitivity)
            assert again.changes == (gone,)
            assert again.found == frozenset()


def test_what_was_confirmed_stays_a_fact() -> None:
    (found,) = look(history(stepping((40, 0.8)))).changes
    fact = remeasured(found, "confirmed", "regression")
    assert look(history(stepping((40, 0.8))), [fact]).changes == (fact,)
    # Even where the look finds none of it any more.
    assert look(history(stepping(seed=2)), [fact]).changes == (fact,)


def test_a_real_change_beside_one_that_was_ruled_out_is_a_new_one() -> None:
    ruled_out = remeasured(change(38, 0.9), "withdrawn", "equivalent")
    found = look(history(stepping((40, 0.8))), [ruled_out])
    assert [each.label for each in found.changes] == ["v38", "v40"]
    assert [each.state for each in found.changes] == ["withdrawn", "candidate"]


def test_a_candidate_that_more_points_do_not_show_is_withdrawn_until_they_do() -> None:
    known = change(40, 0.9, n_points=60)
    flat, step = stepping(n=90, seed=2), stepping((40, 0.9), n=100, seed=2)
    first = look(history(flat[:80]), [known])
    (gone,) = first.changes
    assert (gone.state, gone.id) == ("withdrawn", known.id)
    assert gone.reason == "80 points do not show it any more"
    assert first.lost == {known.id}
    # The same points show it after all, which is not new.
    assert look(history(step[:80]), [gone]).changes == (gone,)
    (back,) = look(history(step), [gone]).changes
    assert (back.id, back.state, back.reason, back.n_points) == (known.id, "candidate", "", 100)


def test_the_pager_withdraws_nothing_that_the_list_shows() -> None:
    for seed in range(200):
        made = history(stepping((40, 0.985), seed=seed))
        listed = look(made)
        if listed.changes and not look(made, sensitivity="alert").changes:
            break
    else:
        pytest.fail("the sensitivities agree on every series")
    paged = look(made, listed.changes, "alert")
    assert paged.changes == listed.changes
    assert (paged.found, paged.lost) == (frozenset(), frozenset())


def test_an_undecided_measurement_does_not_keep_a_candidate_alive() -> None:
    undecided = remeasured(change(40, 0.9), "candidate", "inconclusive")
    (gone,) = look(history(stepping(seed=2)), [undecided]).changes
    assert gone.state == "withdrawn"
    (back,) = look(history(stepping((40, 0.9), n=90)), [gone]).changes
    assert back.state == "candidate"


def test_a_candidate_whose_point_was_taken_out_is_withdrawn() -> None:
    (gone,) = look(history(stepping(seed=2)), [change(200)]).changes
    assert (gone.state, gone.reason) == ("withdrawn", "its points were taken out")


def test_two_changes_that_begin_at_one_point_of_two_stores_have_one_id() -> None:
    one, other = (look(history(stepping((40, 0.8), n=n))).changes[0] for n in (80, 100))
    assert one.id == other.id


_ranges = st.builds(
    lambda index, left, right, rises: Range(index, index - left, index + right, rises),
    st.integers(0, 30),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
)


@given(st.lists(_ranges, max_size=8), st.lists(_ranges, max_size=8))
def test_pairs_are_one_to_one_and_alike(found: list[Range], known: list[Range]) -> None:
    pairs = paired(found, known)
    assert len(set(pairs.values())) == len(pairs)
    for number, place in pairs.items():
        assert found[number].rises == known[place].rises
        assert found[number].earliest <= known[place].latest
        assert known[place].earliest <= found[number].latest
    # Neither side has a point left that could have formed a pair.
    for number, one in enumerate(found):
        for place, other in enumerate(known):
            if number not in pairs and place not in pairs.values():
                assert not one.is_of(other)


@given(st.lists(_ranges, max_size=8, unique_by=lambda each: (each.index, each.rises)))
def test_what_is_the_same_is_paired_with_itself(ranges: list[Range]) -> None:
    assert paired(ranges, ranges) == {number: number for number in range(len(ranges))}
