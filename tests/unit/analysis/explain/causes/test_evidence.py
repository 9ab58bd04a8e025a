"""Test which evidence exceeds chance, and the reason for no likely cause."""

from dataclasses import replace

import pytest

from millrace.analysis.explain.causes.evidence import Evidence, is_larger
from millrace.analysis.explain.causes.ranking import rank_causes, why_no_causes
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.time_breakdown import breakdown_difference, time_breakdown
from tests.support.cause_cases import EXACT, Seen, case, truth
from tests.support.known import known
from tests.support.observed_trials import seen


@pytest.mark.parametrize(("blocks", "larger"), [(2, False), (3, True)])
def test_two_blocks_that_are_apart_may_be_so_by_chance(blocks: int, larger: bool) -> None:
    better = {block: 0.01 * block for block in range(blocks)}
    worse = {block: 1.0 + 5.0 * block for block in range(blocks)}
    assert is_larger(better, worse, by=0.1) == larger


def test_two_blocks_are_enough_for_what_is_significant() -> None:
    assert is_larger({0: 0.0, 1: 0.0}, {0: 3.0, 1: 3.001}, by=0.1)
    assert not is_larger({0: 0.0}, {0: 3.0}, by=0.1)
    assert not is_larger({}, {}, by=0.1)


def _with_a_trial_that_nobody_watched(found: Evidence) -> Evidence:
    """Return evidence whose last block of B has a much longer latency and no breakdown."""
    *others, last = found.b.trials
    slow = EXACT.trial(truth(wire=90_000.0), last.block)
    observations = slow.attempt.observations.model_copy(update={"states": None})
    made = replace(slow.attempt, observations=observations)
    trials = (*others, replace(slow, attempt=made, observed=seen(made)))
    of_a, of_b = time_breakdown(found.a.trials), time_breakdown(trials)
    different = known(breakdown_difference(known(of_a), known(of_b)))
    return replace(found, b=replace(found.b, trials=trials), differences=different)


def test_latencies_are_those_of_the_blocks_with_an_account() -> None:
    found = case(Seen(truth()), Seen(truth(wire=80.0)))
    whole, less = found.better_latency_us, _with_a_trial_that_nobody_watched(found)
    assert less.differences.blocks == found.differences.blocks[:-1]
    assert not less.why_not_different
    assert less.better_latency_us == pytest.approx(whole, rel=0.01)


def test_why_nobody_is_suspected() -> None:
    same = case(Seen(truth()), Seen(truth()))
    assert (
        why_no_causes(same)
        == "No cause follows from the times: latencies do not differ by more than chance."
    )
    little = replace(case(Seen(truth()), Seen(truth(wire=80.0))), margin=9.0)
    assert why_no_causes(little).startswith(
        "No cause follows from the times: latencies do not differ by more than 900 %."
    )


def test_parts_that_differ_for_certain_where_latencies_do_not() -> None:
    found = case(Seen(truth(cpu_user=20.0, wire=35.0)), Seen(truth(cpu_user=30.0, wire=25.0)))
    assert rank_causes(found) == ()
    result = why_no_causes(found)
    assert "do not differ by more than chance. Parts of them do: " in result
    assert "on CPU, user (10 µs more in B)" in result
    assert "client and wire (9.99 µs less in B)" in result


def test_one_block_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.cause_cases.BLOCKS", 1)
    found = case(Seen(truth()), Seen(truth(wire=80.0)))
    assert (
        why_no_causes(found)
        == "No cause follows from the times: latencies of one block may differ by chance."
    )


def test_a_difference_that_nothing_explains() -> None:
    found = case(Seen(truth()), Seen(truth(wire=80.0)))
    found = replace(found, differences=replace(found.differences, lines=()))
    assert rank_causes(found) == ()
    assert "nothing that was seen makes 2 % of the difference or more" in why_no_causes(found)


def _seen_otherwise(found: Evidence, **of_work: float | None) -> Evidence:
    """Return evidence of the same trials with other figures of the clients' work on side A."""

    def changed(trial: ObservedTrial) -> ObservedTrial:
        work = replace(trial.observed.work, **of_work)  # type: ignore[arg-type]
        return replace(trial, observed=replace(trial.observed, work=work))

    a = replace(found.a, trials=tuple(map(changed, found.a.trials)))
    of_a, of_b = time_breakdown(a.trials), time_breakdown(found.b.trials)
    different = known(breakdown_difference(known(of_a), known(of_b)))
    return replace(found, a=a, differences=different)


def test_queue_grows_with_cpu_time_where_the_clients_time_is_not_known() -> None:
    """Servers that take turns share one client process."""
    found = case(
        Seen(truth(cpu_user=100.0, runnable=50.0)), Seen(truth(cpu_user=300.0, runnable=140.0))
    )
    alone = _seen_otherwise(found, client_cpu_s=None)
    alone = _seen_otherwise(replace(alone, a=alone.b, b=alone.a), client_cpu_s=None)
    (cpu,) = [each for each in rank_causes(alone) if each.about == "CPU time"]
    assert "of the queue for CPUs" in cpu.sentence
    assert "queue for CPUs" not in [each.about for each in rank_causes(alone)]


def test_part_grew_from_zero_where_the_other_side_is_below_it_by_chance() -> None:
    found = case(Seen(truth(wire=0.0)), Seen(truth(wire=40.0, cpu_user=900.0)))
    below = _seen_otherwise(found, gap_s=45e-6)
    line = next(line for line in below.differences.lines if line.key == "client_wire")
    assert line.a_us == pytest.approx(-40.0, abs=2.0)
    assert any(line.below_zero)
    assert "client_wire" not in below.growth_us  # a defect of the breakdown
    unsure = replace(line, a=None, significant=True)
    lines = tuple(unsure if each is line else each for each in below.differences.lines)
    by_chance = replace(below, differences=replace(below.differences, lines=lines))
    assert by_chance.growth_us["client_wire"] == pytest.approx(40.0, abs=2.0)
