"""Test latencies of attempts, and percentiles as metrics."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.metrics import by_name, merged, read_metrics
from millrace.analysis.compare.model import RunAnalysis
from millrace.errors import DamagedResult, UserError
from millrace.model.run_spec import WorkloadDefinition
from millrace.store.records import HistogramRecord, StoredAttempt
from tests.support.hdr import FINE, LATENCIES, encoded
from tests.support.known import known
from tests.support.query_runs import WORKLOAD, Levels, QueryRun, Values

_, P99, _ = read_metrics(WorkloadDefinition.model_validate(WORKLOAD))


def record(
    values: Sequence[int],
    *,
    of: Literal["transaction", "statement"] = "transaction",
    name: str = "point-query",
    kind: Literal["service", "response"] = "service",
) -> HistogramRecord:
    total_s = sum(values) / 1e9
    return HistogramRecord("measure", of, name, kind, encoded(values, FINE), len(values), total_s)


def attempt(*histograms: HistogramRecord) -> StoredAttempt:
    stored = QueryRun(("mysql-5.6.24",), ("point-query",), (1,), 1).build()
    return replace(stored.attempts[0], histograms=histograms)


def test_a_percentile_is_a_metric_in_seconds() -> None:
    one = attempt(record([1_000_000] * 99 + [5_000_000]))
    assert P99.value(one) == pytest.approx(1e-3, rel=1e-3)
    assert P99.value(attempt()) is None
    assert P99.value(attempt(record([]))) is None


def test_response_time_is_taken_where_there_is_one_else_service_time() -> None:
    service, response = record([1_000_000]), record([9_000_000], kind="response")
    assert P99.value(attempt(service, response)) == pytest.approx(9e-3, rel=1e-3)
    assert P99.value(attempt(service)) == pytest.approx(1e-3, rel=1e-3)


def test_statements_are_not_transactions() -> None:
    assert P99.value(attempt(record([1_000_000], of="statement"))) is None


def test_transactions_of_several_names_are_merged_not_averaged() -> None:
    one = attempt(record([1_000_000] * 990), record([8_000_000] * 10, name="payment"))
    assert P99.value(one) == pytest.approx(1e-3, rel=1e-3)
    assert P99.value(attempt(record([1_000_000]), record([8_000_000], name="payment"))) == (
        pytest.approx(8e-3, rel=1e-3)
    )


def test_percentiles_are_compared_over_blocks_as_any_metric() -> None:
    stored = QueryRun(("mysql-5.6.24", "mysql-9.7.4"), ("point-query",), (1,), 5).build()
    slower = tuple(
        replace(
            a,
            histograms=(
                record([round((3 if "9.7" in a.instances[0].server.name else 2) * 1e6) + a.id]),
            ),
        )
        for a in stored.attempts
    )
    analysis = compare_run(replace(stored, attempts=slower))
    (comparison,) = (c for c in analysis.comparisons(analysis.metrics[1]))
    assert comparison.metric.name == "p99"
    assert comparison.verdict == "regression"
    assert known(comparison.estimate).ratio == pytest.approx(1.5, rel=2e-3)


def test_latencies_of_a_treatment_are_those_of_all_its_trials() -> None:
    source = random.Random(1)
    trials = [[round(source.lognormvariate(13, 0.5)) for _ in range(200)] for _ in range(3)]
    found = by_name([attempt(record(values)) for values in trials])
    everything = sorted(value for values in trials for value in values)
    (latency,) = found
    assert (latency.of, latency.name, latency.time) == ("transaction", "point-query", "service")
    assert latency.count == 600
    assert latency.mean_s == pytest.approx(sum(everything) / 600 / 1e9)
    assert latency.percentiles_s([50])[0] == pytest.approx(everything[299] / 1e9, rel=1e-3)
    assert latency.maximum_s == pytest.approx(everything[-1] / 1e9, rel=1e-3)


def test_transactions_come_first_and_what_never_happened_not_at_all() -> None:
    begin = record([1_000], of="statement", name="BEGIN")
    never = record([], of="statement", name="ROLLBACK")
    found = by_name([attempt(begin, record([5_000]), never)])
    assert [(latency.of, latency.name) for latency in found] == [
        ("transaction", "point-query"), ("statement", "BEGIN"),
    ]  # fmt: skip
    assert by_name([]) == ()


def test_a_histogram_that_cannot_be_read_names_its_trial() -> None:
    broken = attempt(replace(record([1_000]), encoded="AAAA"))
    with pytest.raises(DamagedResult, match=r"trial treatment-0-0: the histogram of point-query"):
        P99.value(broken)


def test_histograms_of_other_layouts_are_not_merged() -> None:
    coarse = replace(record([5_000]), encoded=encoded([5_000], LATENCIES))
    with pytest.raises(UserError, match="latencies cannot be merged: histograms of different"):
        merged([attempt(record([5_000])), attempt(coarse)], of="transaction", time="service")


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
