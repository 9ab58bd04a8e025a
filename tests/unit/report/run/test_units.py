"""Test latencies in units that fit them."""

from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.run.units import readable
from tests.support.builders import study
from tests.support.driven_runs import few


def test_latencies_are_scaled_for_readers_and_times_of_loads_are_not() -> None:
    analysis = few()
    scaled = readable(analysis)
    units = {metric.name: metric.unit for metric in scaled.metrics}
    assert units == {"throughput": "transactions/s", "p99": "µs", "server_cpu": "µs"}
    before, after = (each.treatments[0].metrics["p99"] for each in (analysis, scaled))
    assert after.summary.geometric_mean == pytest.approx(1e6 * before.summary.geometric_mean)
    assert after.trials[0].value == pytest.approx(1e6 * before.trials[0].value)
    assert after.summary.cv == before.summary.cv
    assert {c.metric.unit for c in scaled.comparisons(scaled.metrics[1])} == {"µs"}
    assert readable(compare_run(study())) == compare_run(study())


def test_the_cpu_time_of_a_row_is_scaled_too() -> None:
    analysis = few()
    of_rows = tuple(
        metric.replace(denominator=("rows",)) if metric.name == "server_cpu" else metric
        for metric in analysis.metrics
    )
    scaled = readable(replace(analysis, metrics=of_rows))
    assert {metric.name: metric.unit for metric in scaled.metrics}["server_cpu"] == "µs"
