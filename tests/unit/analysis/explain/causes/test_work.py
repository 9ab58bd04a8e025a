"""Test differences in rows and work as likely causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.analysis.explain.causes.evidence import Evidence
from millrace.analysis.explain.causes.ranking import rank_causes
from millrace.analysis.explain.plans import PlanComparison
from millrace.stats.mean import mean_estimate
from tests.unit.analysis.explain.causes.cases import Seen, case, named, suspects, truth


def test_rows_of_which_more_are_read_by_the_same_plan() -> None:
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
