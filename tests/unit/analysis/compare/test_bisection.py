"""Test a search read back from its trials: results, skipped members, and the next member."""

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.bisection import (
    INSTALL,
    OpenTrial,
    bisection,
    is_reversed,
    trials_to_go,
)
from millrace.analysis.compare.metrics import read_metrics
from millrace.model.run_spec import Bisects
from millrace.report.bisection import answer, as_html, as_json, notes
from millrace.stats.bisection_model import Found, Measured, Next, NoChange, Skipped
from millrace.store import records
from tests.support.builders import bare_attempt, study
from tests.support.known import known
from tests.support.measured import result_of
from tests.support.seconds import events

NAMES = ("v1", "v2", "v3", "v4", "v5")

# A trial: its member, and its attempts: a speed, or the step at which it failed.
Trial = tuple[int, Sequence[float | str]]


def bisected(trials: Sequence[Trial], names: tuple[str, ...] = NAMES) -> records.StoredRun:
    """Return a run of these trials, a block each."""
    kept = study().run
    asked = Bisects(members=names, workload="load-data", confidence=0.95, margin=0.02)
    run = replace(kept, spec=kept.spec.replace(bisects=asked))
    return records.StoredRun(
        run,
        tuple(
            records.TreatmentRecord(name, place, {"server": name}, {"server": name})
            for place, name in enumerate(names)
        ),
        tuple(records.TrialRecord(f"t{n}", names[of], n, n) for n, (of, _) in enumerate(trials)),
        tuple(
            _attempt(n, number, what)
            for n, (_, attempts) in enumerate(trials)
            for number, what in enumerate(attempts, start=1)
        ),
    )


def _attempt(trial: int, number: int, what: float | str) -> records.StoredAttempt:
    result = result_of(None if isinstance(what, str) else what)
    failure = {"failed_step": what, "reason": "mysqld: does not start"}
    return bare_attempt(
        100 * trial + number,
        f"t{trial}",
        number=number,
        outcome=result.outcome,
        measurements=result.measurements,
        **(failure if isinstance(what, str) else {}),
    )


def going_on(speeds: Sequence[float], sd: float, seed: int = 1, most: int = 80) -> list[Trial]:
    """Return the trials of a search that continues to its end."""
    source = random.Random(seed)
    trials: list[Trial] = []
    while len(trials) < most:
        step = bisection(bisected(trials)).step
        if not isinstance(step, Next):
            break
        speed = speeds[step.index] * source.lognormvariate(0, sd)
        trials.append((step.index, [speed]))
    return trials


def test_the_first_trials_are_of_the_ends() -> None:
    found = bisection(bisected([]))
    assert isinstance(found.step, Next)
    assert (found.step.index, found.trials, found.none) == (0, 0, None)
    assert trials_to_go(found) is None


def test_a_change_is_found_between_its_neighbours() -> None:
    found = bisection(bisected(going_on([100, 100, 100, 90, 90], 0.01)))
    assert isinstance(found.step, Found)
    assert (found.step.first, found.step.last) == (3, 3)
    assert known(found.ratio)[1] < 0.9 < known(found.ratio)[2]
    assert trials_to_go(found) == 0
    assert "between v3 and v4: rows loaded per second is" in answer(found)
    document = as_json(found)
    assert (document["outcome"], document["last_good"]) == ("found", "v3")
    assert document["first_bad"] == ["v4"]
    assert sum(m["probability"] for m in document["members"]) + document["none"] == pytest.approx(1)


def test_no_change_is_reported_when_levels_are_equal() -> None:
    found = bisection(bisected(going_on([100] * 5, 0.005)))
    assert isinstance(found.step, NoChange)
    assert "no change between v1 and v5 beyond 2 %" in answer(found)


def test_a_server_that_fails_twice_is_passed_over_with_the_reason() -> None:
    trials = [*going_on([100, 100, 100, 90, 90], 0.01)[:8], (2, ["start", "start"])]
    found = bisection(bisected(trials))
    assert found.seen[-1] == Skipped(2)
    assert found.members[2].skipped == "failed at start: mysqld: does not start"
    assert "v3 was passed over" in next(notes(found))
    assert found.open is None
    assert isinstance(found.step, Next)
    assert found.step.index != 2


def test_what_failed_once_or_was_interrupted_is_tried_again() -> None:
    assert bisection(bisected([(0, [100.0]), (4, ["start"])])).open == OpenTrial(1, 4)
    assert bisection(bisected([(0, [100.0]), (4, [])])).open == OpenTrial(1, 4)
    assert bisection(bisected([(0, [100.0]), (4, ["start", 90.0])])).open is None


def test_a_server_that_cannot_be_had_is_not_tried_again() -> None:
    found = bisection(bisected([(0, [100.0]), (4, [90.0]), (2, [INSTALL])]))
    assert found.open is None
    assert found.members[2].skipped.startswith("failed at install")


def test_lost_end_is_reported_when_it_fails() -> None:
    found = bisection(bisected([(0, [100.0]), (4, ["start", "start"])]))
    assert found.lost_end == "v5: failed at start: mysqld: does not start"


def test_a_change_may_hide_in_a_server_that_was_passed_over() -> None:
    trials = [
        trial if trial[0] != 3 else (3, ["start", "start"])
        for trial in going_on([100, 100, 100, 90, 90], 0.002)
    ]
    trials = [*trials, *[(2, [100.0 + n / 10]) for n in range(3)]]
    found = bisection(bisected(trials))
    assert isinstance(found.step, Found)
    assert (found.step.first, found.step.last) == (3, 4)
    assert "v5 (or v4, which could not be measured)" in answer(found)


@pytest.mark.parametrize(("bad", "reversed_"), [(110.0, True), (90.0, False), (101.0, False)])
def test_ends_that_are_the_wrong_way_round_are_noticed(bad: float, reversed_: bool) -> None:
    source = random.Random(2)
    speeds = {0: 100.0, 4: bad}
    trials = [(end, [speeds[end] + source.gauss(0, 0.3)]) for _ in range(4) for end in (0, 4)]
    assert is_reversed(bisection(bisected(trials))) is reversed_
    assert not is_reversed(bisection(bisected(trials[:6])))


def test_what_is_to_go_is_about_what_it_takes() -> None:
    speeds = [100, 100, 100, 98, 98]
    whole = going_on(speeds, 0.012, seed=5, most=200)
    found = bisection(bisected(whole[:12]))
    to_go = known(trials_to_go(found))
    assert (len(whole) - 12) / 6 < to_go <= 100


@given(st.lists(st.sampled_from([90.0, 95.0, 100.0, 101.0]), max_size=6), st.integers(0, 3))
def test_pages_and_documents_take_every_search(speeds: list[float], failing: int) -> None:
    trials: list[Trial] = [(n % 2 * 4, [speed]) for n, speed in enumerate(speeds)]
    trials += [(1 + n % 3, ["start", "start"]) for n in range(failing)]
    found = bisection(bisected(trials))
    assert all(isinstance(each, Measured | Skipped) for each in found.seen)
    assert as_json(found)["trials"] == len(speeds)
    assert answer(found)
    page = as_html(found)
    assert "nan" not in page
    assert page.count("<circle") == (len(speeds) if found.members[0].values else 0)


def test_the_page_shows_the_change() -> None:
    page = as_html(bisection(bisected(going_on([100, 100, 100, 90, 90], 0.01))))
    assert page.count('class="row is-new"') == 2
    assert "◂ the change" in page


def test_metrics_are_those_of_the_workload() -> None:
    found = bisection(bisected([]))
    assert found.metric == read_metrics(found.run.spec.workload)[0]


def driven(stored: records.StoredRun, *, falling: Collection[int]) -> records.StoredRun:
    """Return the run with driven clients, whose throughput falls in the trials of these members."""

    def with_seconds(attempt: records.StoredAttempt, member: int) -> records.StoredAttempt:
        source = random.Random(attempt.id)
        slope = 0.01 if member in falling else 0.0
        rates = [1000 * (1 - slope * at) * source.lognormvariate(0, 0.005) for at in range(30)]
        measurements = (*attempt.measurements, records.MeasurementRecord("transactions", 30_000.0))
        return replace(attempt, series=events(rates), measurements=measurements)

    members = {each.id: NAMES.index(each.treatment_id) for each in stored.trials}
    attempts = tuple(with_seconds(each, members[each.trial_id]) for each in stored.attempts)
    return replace(stored, attempts=attempts)


CHANGE = [100, 100, 100, 90, 90]


@pytest.mark.parametrize("falling", [(0, 1, 2, 3, 4), (3, 4)])
def test_a_change_is_not_called_where_trials_were_not_steady(falling: tuple[int, ...]) -> None:
    trials = going_on(CHANGE, 0.01)
    found = bisection(driven(bisected(trials), falling=falling))
    assert isinstance(found.step, Found)
    assert "those from it on" in found.unsteady
    assert ("the servers before v4" in found.unsteady) == (0 in falling)
    assert answer(found).startswith("no answer in rows loaded per second, after ")
    document = as_json(found)
    assert (document["outcome"], document["first_bad"]) == ("not steady", None)
    assert document["unsteady"] == found.unsteady
    assert "◂ the change" not in as_html(found)
    # The search need not find anything; but a few trials are awaited, as verdicts do.
    early = bisection(driven(bisected(trials[:10]), falling=range(5)))
    assert isinstance(early.step, Next)
    assert early.unsteady
    assert not bisection(driven(bisected(trials[:9]), falling=range(5))).unsteady


def test_steady_trials_and_few_others_speak_against_nothing() -> None:
    stored = bisected(going_on(CHANGE, 0.01))
    assert not bisection(driven(stored, falling=())).unsteady
    assert not bisection(driven(stored, falling=(1,))).unsteady
    assert not bisection(stored).unsteady  # loads have no steady state


def test_without_a_change_all_servers_are_one_side() -> None:
    stored = bisected(going_on([100.0] * 5, 0.002))
    found = bisection(driven(stored, falling=range(5)))
    assert isinstance(found.step, NoChange)
    assert " trials of the servers (" in found.unsteady
