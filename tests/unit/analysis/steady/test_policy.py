"""Test when steady states make two treatments incomparable, and the messages about it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.analysis.steady.policy import reasons, unsteady_sides
from millrace.analysis.steady.steadiness import State, SteadyCheck, TrialSteadiness
from millrace.report.run.sentences import answer, sentence
from millrace.stats.trend import Trend
from tests.support.query_runs import Levels, QueryRun
from tests.support.seconds import Series, events

BASE, OTHER = NAMES = ("mysql-5.6.24", "mysql-8.0.12")
STEADY = Trend("steady")
FALLS = Trend("drift", -0.07)
DIRTY = SteadyCheck(
    "dirty pages", "failed", "dirty pages still grew", "0 % to 80 %", "warm up for longer"
)


def trial(state: State, course: Trend = STEADY, *gates: SteadyCheck, enough_s: float = 35.0) -> Any:
    return TrialSteadiness(
        trial_id="t", block=0, state=state, figure="throughput", trend=course, checks=gates,
        seconds=30, warmup_s=5.0, measured_s=30.0, found_s=5.0, enough_s=enough_s,
        transactions=123_456,
    )  # fmt: skip


def side(unsteady: int, steady: int, other: State | None = None) -> list[TrialSteadiness]:
    return [
        *[trial("unsteady", FALLS)] * unsteady,
        *[trial("steady")] * steady,
        *([trial(other)] * 10 if other else []),
    ]


@pytest.mark.parametrize(
    ("base", "candidate", "refused"),
    [
        ((0, 10), (0, 10), False),
        ((0, 10), (3, 7), False),
        ((5, 5), (5, 5), False),
        ((0, 10), (6, 4), True),  # more than half
        ((6, 4), (6, 4), True),
        ((0, 10), (5, 5), True),  # Fisher: p = 0.033
        ((0, 10), (4, 6), False),  # p = 0.087
        ((0, 1), (1, 0), False),  # a single trial proves no pattern
        ((0, 3), (2, 1), True),
        ((0, 0), (0, 0), False),
        ((0, 0), (1, 1), False),
    ],
)
def test_a_verdict_is_refused_where_unsteady_trials_are_frequent_or_on_one_side(
    base: tuple[int, int], candidate: tuple[int, int], refused: bool
) -> None:
    said = unsteady_sides(side(*base), side(*candidate), names=NAMES)
    assert bool(said) == refused


@pytest.mark.parametrize("other", ["too short to tell", "not recorded", "does not apply"])
def test_nothing_is_refused_when_trials_are_too_short(other: State) -> None:
    assert unsteady_sides(side(0, 0, other), side(0, 0, other), names=NAMES) == ""
    # Nor do they dilute those that can.
    assert unsteady_sides(side(0, 3, other), side(2, 1, other), names=NAMES)


def test_the_reason_has_numbers_and_a_remedy_with_the_experiments_key() -> None:
    said = unsteady_sides(side(1, 9), side(7, 3), names=NAMES)
    assert said == (
        "not steady: 1 of 10 trials of mysql-5.6.24 (throughput fell by 7.0 % over the measured "
        "part) and 7 of 10 trials of mysql-8.0.12 (throughput fell by 7.0 % over the measured "
        "part); warm up for longer (warmup_s = 35, it was 5), or compare equal work "
        "(operations = 120000)"
    )


def test_waves_want_a_longer_measured_part_and_plans_other_statistics() -> None:
    waves = [trial("unsteady", Trend("wave", 0.2))] * 3
    assert "time_s = 120" in unsteady_sides(waves, waves, names=NAMES)
    other_plan = SteadyCheck(
        "plans", "failed", "another plan", "another plan of x", "name the index"
    )
    plans = [trial("unsteady", STEADY, other_plan)] * 3
    assert unsteady_sides(plans, plans, names=NAMES).endswith("; name the index")


def test_reasons_are_counted_and_their_amounts_are_medians() -> None:
    trials = [
        trial("unsteady", Trend("drift", -0.05)),
        trial("unsteady", Trend("drift", -0.30), DIRTY),
        trial("unsteady", Trend("drift", -0.07), DIRTY),
        trial("unsteady", Trend("drift", 0.50)),
    ]
    assert reasons(trials) == [
        "throughput fell by 7.0 % over the measured part",
        "dirty pages still grew",
        "throughput rose by 50 % over the measured part",
    ]
    shift = trial("unsteady", Trend("shift", None, 12))
    assert reasons([shift]) == ["throughput fell by much at once in the measured part"]


def compared(shape: Callable[[Levels, int], Any], **changes: Any) -> RunAnalysis:
    def series(levels: Levels, block: int) -> Series:
        name = f"{levels['server']}{block}".encode()
        noise = 0.01 * np.random.default_rng(list(name)).standard_normal(30)
        return events(list(14_000 * (shape(levels, block) + noise)), warmup=[14_000.0] * 5)

    run = QueryRun(NAMES, ("point-query",), (8,), 5, series=series, **changes)
    return compare_run(run.build())


def falling(levels: Levels, _block: int) -> Any:
    return 1 - 0.2 * np.arange(30) / 30 * (levels["server"] == OTHER)


def test_steady_trials_leave_the_verdict_as_it_is() -> None:
    (comparison,) = compared(lambda _levels, _block: np.ones(30)).comparisons()
    assert (comparison.verdict, comparison.unsteady) == ("regression", "")


def test_unsteady_trials_make_every_metric_inconclusive_and_say_why() -> None:
    analysis = compared(falling)
    for metric in analysis.metrics:
        (comparison,) = analysis.comparisons(metric)
        assert comparison.verdict == "inconclusive"
        assert comparison.reason == comparison.unsteady
        assert comparison.unsteady.startswith("not steady: 5 of 5 trials of mysql-8.0.12")
    said = sentence(analysis.comparisons()[0], analysis)
    assert "inconclusive, not steady: 5 of 5 trials" in said
    assert "operations = " in said
    assert "blocks are needed" not in said  # more blocks would not help
    assert answer(analysis) == (
        "Compared with mysql-5.6.24, mysql-8.0.12 has no verdict: 5 of 5 trials of mysql-8.0.12 "
        "were not steady."
    )


def test_unequal_work_is_in_the_reason_too() -> None:
    analysis = compared(
        falling,
        also=lambda levels, _block: {"errors": 90_000.0} if levels["server"] == OTHER else {},
    )
    reason = analysis.comparisons()[0].reason
    assert reason.startswith("unequal work: ")
    assert "; not steady: " in reason


def test_equal_work_is_compared_whatever_its_course() -> None:
    analysis = compared(falling, parameters={"operations": 100_000})
    assert analysis.comparisons()[0].unsteady == ""


def test_verdicts_are_rarely_refused_by_noise() -> None:
    """Simulate autocorrelated seconds with 3 trials a side, where few trials refuse most easily."""
    source = np.random.default_rng(11)
    refused = 0
    for _ in range(60):
        shapes = {}
        for server in NAMES:
            for block in range(3):
                noise = np.zeros(30)
                for i in range(1, 30):
                    noise[i] = 0.5 * noise[i - 1] + 0.04 * source.standard_normal()
                shapes[server, block] = 1 + noise
        run = QueryRun(
            NAMES, ("point-query",), (8,), 3,
            series=lambda levels, block, shapes=shapes: events(  # type: ignore[misc]
                list(14_000 * shapes[str(levels["server"]), block]), warmup=[14_000.0] * 5
            ),
        )  # fmt: skip
        refused += bool(compare_run(run.build()).comparisons()[0].unsteady)
    assert refused <= 1
