"""Test differences in rows and work as likely causes."""

from dataclasses import replace

import pytest

from millrace.analysis.explain.causes.evidence import Evidence, SideEvidence
from millrace.analysis.explain.causes.ranking import rank_causes
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.plans import PlanComparison
from millrace.model.measurements import BUFFER_POOL_READ_REQUESTS
from millrace.stats.mean import mean_estimate
from millrace.store.records import MeasurementRecord
from tests.support.cause_cases import Seen, case, named, suspects, truth


def test_rows_read_are_a_cause_when_plans_are_equal() -> None:
    a = Seen(truth(cpu_user=100.0), {"Innodb_rows_read": 10.0})
    b = Seen(truth(cpu_user=200.0), {"Innodb_rows_read": 21.0})
    assert named(suspects(a, b))[0] == ("work", "rows read")


@pytest.mark.parametrize(("few", "many"), [(0.0067, 0.0511), (0.0, 0.3), (10.0, 10.4)])
def test_rows_that_observers_may_have_read_are_no_other_work(few: float, many: float) -> None:
    a = Seen(truth(cpu_user=100.0), {"Innodb_rows_read": few})
    b = Seen(truth(cpu_user=200.0), {"Innodb_rows_read": many})
    assert "work" not in [each.kind for each in suspects(a, b)]


def test_a_row_costs_no_more_than_an_operation_did() -> None:
    a = Seen(truth(cpu_user=100.0), {"Innodb_rows_read": 0.01})
    b = Seen(truth(cpu_user=1000.0), {"Innodb_rows_read": 1.01})
    (rows,) = [each for each in suspects(a, b) if each.kind == "work"]
    assert rows.share == pytest.approx(112 / 900, rel=0.05)


def with_pages(found: Evidence, a: float, b: float) -> Evidence:
    """Return evidence in which an operation of each side asked for this many pages."""

    def requesting(side: SideEvidence, pages: float) -> SideEvidence:
        def measured(trial: ObservedTrial) -> ObservedTrial:
            count = pages * trial.observed.work.operations
            asked = MeasurementRecord(BUFFER_POOL_READ_REQUESTS, count)
            measurements = (*trial.attempt.measurements, asked)
            return replace(trial, attempt=replace(trial.attempt, measurements=measurements))

        return replace(side, trials=tuple(map(measured, side.trials)))

    return replace(found, a=requesting(found.a, a), b=requesting(found.b, b))


def test_pages_differ_by_the_same_plan() -> None:
    found = case(Seen(truth(cpu_user=100.0)), Seen(truth(cpu_user=1000.0)))
    plan = PlanComparison("count", None, None, same=True, different=())
    first = rank_causes(with_pages(replace(found, plans=(plan,)), 62.0, 1420.0))[0]
    assert (first.kind, first.about) == ("work", "pages read")
    assert first.sentence.startswith(
        "A transaction asked the buffer pool for 62 pages in A and 1,420 in B by the same plan"
    )


@pytest.mark.parametrize(("a", "b"), [(62.0, 62.0), (3.0, 9.0), (600.0, 900.0), (1420.0, 62.0)])
def test_pages_are_no_cause_where_versions_may_count_differently(a: float, b: float) -> None:
    found = case(Seen(truth(cpu_user=100.0)), Seen(truth(cpu_user=1000.0)))
    assert "work" not in [each.kind for each in rank_causes(with_pages(found, a, b))]


def test_pages_add_nothing_to_another_plan_or_more_rows() -> None:
    found = with_pages(with_other_plan(last_order=6.0), 62.0, 1420.0)
    assert "work" not in [each.kind for each in rank_causes(found)]
    rows = case(
        Seen(truth(cpu_user=100.0), {"Innodb_rows_read": 10.0}),
        Seen(truth(cpu_user=200.0), {"Innodb_rows_read": 21.0}),
    )
    about = [each.about for each in rank_causes(with_pages(rows, 62.0, 1420.0))]
    assert ("rows read" in about, "pages read" in about) == (True, False)


def test_rows_of_an_engine_that_innodb_does_not_count() -> None:
    a = Seen(truth(cpu_user=100.0), {"Innodb_rows_read": 0.0, "Handler_read_next": 10.0})
    b = Seen(truth(cpu_user=200.0), {"Innodb_rows_read": 10.0, "Handler_read_next": 10.0})
    assert "work" not in [each.kind for each in suspects(a, b)]


def test_unequal_work_covers_as_much_as_there_was_of_it() -> None:
    a, b = Seen(truth(cpu_user=100.0)), Seen(truth(cpu_user=200.0), errors=0.05)
    found = suspects(a, b, unequal="unequal work: 5 % of the transactions ended in an error")
    assert named(found)[0] == ("cpu", "CPU time")
    (unequal,) = [each for each in found if each.kind == "work"]
    assert (unequal.share or 1.0) < 0.2
    assert unequal.sentence.startswith("5 % of the transactions ended in an error")
    assert unequal.evidence == ()


def test_less_unequal_work_on_the_worse_side_explains_nothing() -> None:
    a, b = Seen(truth(cpu_user=100.0), errors=0.05), Seen(truth(cpu_user=200.0))
    found = suspects(a, b, unequal="unequal work: 5 % of the transactions ended in an error")
    assert "work" not in [each.kind for each in found]


def test_unequal_work_of_a_gain_is_that_of_the_loss() -> None:
    a, b = Seen(truth(cpu_user=100.0)), Seen(truth(cpu_user=300.0), errors=0.5)
    shares = [
        each.share
        for sides in ((a, b), (b, a))
        for each in suspects(*sides, unequal="unequal work: more failed")
        if each.kind == "work"
    ]
    assert shares[0] == pytest.approx(shares[1], rel=0.02)


def with_other_plan(**took_us: float) -> Evidence:
    """Return evidence of 100 µs more CPU time, where ``last_order`` has another plan."""
    found = case(Seen(truth(cpu_user=100.0)), Seen(truth(cpu_user=200.0)))
    plan = PlanComparison("last_order", None, None, same=False, different=("a table scan in B",))
    took = {name: mean_estimate([us - 1, us, us + 1]) for name, us in took_us.items()}
    return replace(found, plans=(plan,), statements=took)


def test_another_plan_explains_what_its_statement_takes_and_no_more() -> None:
    (plan,) = [each for each in rank_causes(with_other_plan(last_order=6.0)) if each.kind == "plan"]
    assert plan.share == pytest.approx(0.06, rel=0.05)
    assert "and takes 6 µs more of a transaction" in plan.sentence
    assert "consistent with" not in plan.sentence
    assert named(rank_causes(with_other_plan(last_order=6.0)))[0] == ("cpu", "CPU time")
    (most,) = [each for each in rank_causes(with_other_plan(last_order=300)) if each.kind == "plan"]
    assert most.share == pytest.approx(1.0, rel=0.05)


def test_another_plan_of_a_statement_that_takes_as_long_explains_nothing() -> None:
    assert "plan" not in [each.kind for each in rank_causes(with_other_plan(last_order=-2.0))]


def test_another_plan_may_explain_all_where_its_statements_time_is_not_known() -> None:
    for found in (with_other_plan(), with_other_plan(update_stock=90.0)):
        (plan,) = [each for each in rank_causes(found) if each.kind == "plan"]
        assert plan.share == pytest.approx(1.0, rel=0.05)
        assert "consistent with" in plan.sentence
