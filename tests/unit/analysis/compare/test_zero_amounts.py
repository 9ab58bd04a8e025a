"""Test amounts that may be 0, such as the lag of a replica that kept up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from tests.unit.analysis.query_runs import Levels, QueryRun, Values

A, B = "mysql-5.6.24", "mysql-8.0.12"
LAGS: dict[str, tuple[float, ...]] = {A: (0.1, 0.2, 0.3), B: (0.0, 0.1, 0.5)}
LAG = {"title": "lag", "unit": "s", "direction": "lower", "numerator": ["mean_lag_s"]}


def lagging(lags: dict[str, tuple[float, ...]] = LAGS) -> RunAnalysis:
    def measured(levels: Levels, block: int) -> Values:
        return {"mean_lag_s": lags[str(levels["server"])][block]}

    stored = QueryRun((A, B), ("point-query",), (8,), 3, also=measured).build()
    workload = stored.run.spec.workload.to_json()
    workload["metrics"]["mean_lag"] = LAG
    spec = stored.run.spec.replace(workload=workload)
    return compare_run(replace(stored, run=replace(stored.run, spec=spec)))


def test_the_mean_is_over_all_trials_and_the_ratio_over_those_above_zero() -> None:
    a, b = (each.metrics["mean_lag"] for each in lagging().treatments)
    assert a.zeros == 0
    assert a.level == pytest.approx(a.summary.geometric_mean)
    assert (b.zeros, b.summary.n) == (1, 2)
    assert b.level == pytest.approx(0.2)
    assert [trial.block for trial in b.trials] == [1, 2]


def test_a_throughput_of_zero_is_no_amount() -> None:
    found = lagging({A: (0.1,) * 3, B: (0.0,) * 3}).treatments[1]
    assert "mean_lag" not in found.metrics
    assert found.metrics["throughput"].zeros == 0
