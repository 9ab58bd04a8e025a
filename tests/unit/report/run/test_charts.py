from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.compare_run import compare_run
from millrace.report.run.charts import bar_charts, ratio_charts
from tests.support.builders import RunBuilder, noisy, study

times = st.lists(st.floats(min_value=0.01, max_value=1e4), min_size=3, max_size=3)


@given(times, times, st.sampled_from(["throughput", "time", "count_time"]))
def test_every_mark_lies_in_the_chart(base: list[float], other: list[float], name: str) -> None:
    analysis = compare_run(RunBuilder({"mysql-5.6.24": base, "mysql-5.7.22": other}).build())
    metric = next(metric for metric in analysis.metrics if metric.name == name)
    for chart in bar_charts(analysis, metric):
        marks = [tick.at for tick in chart.ticks]
        for bar in chart.bars:
            marks += [point.at for point in bar.points]
            marks += [at for at in (bar.at, bar.low_at, bar.high_at) if at is not None]
        assert all(-1e-9 <= mark <= 100 + 1e-9 for mark in marks)
        assert chart.ticks[0].at == 0
        assert 2 <= len(chart.ticks) <= 8
    for ratios in ratio_charts(analysis, metric):
        (ratio,) = ratios.ratios
        assert ratio.at is not None
        assert ratio.low_at is not None
        assert ratio.high_at is not None
        assert 0 <= ratio.low_at <= ratio.at + 1e-9
        assert ratio.at <= ratio.high_at + 1e-9 <= 100 + 1e-6
        assert 0 < ratios.margin_low_at < ratios.one_at < ratios.margin_high_at < 100
        assert len({tick.label for tick in ratios.ticks}) == len(ratios.ticks) <= 12


def test_groups_share_an_axis() -> None:
    analysis = compare_run(study())
    bars, ratios = (
        bar_charts(analysis, analysis.headline),
        ratio_charts(analysis, analysis.headline),
    )
    assert len({chart.ticks for chart in bars}) == len({chart.ticks for chart in ratios}) == 1
    assert [chart.heading for chart in bars] == ["default", "wmf"]


def test_worse_is_left_for_rates_and_right_for_times() -> None:
    analysis = compare_run(study())
    rate, time = analysis.metrics[:2]
    assert "worse" in ratio_charts(analysis, rate)[0].left
    assert "worse" in ratio_charts(analysis, time)[0].right


def test_a_treatment_without_a_result_keeps_its_row() -> None:
    analysis = compare_run(study())
    (failed,) = (b for c in bar_charts(analysis, analysis.headline) for b in c.bars if b.at is None)
    assert (failed.label, failed.value) == ("mariadb-10.2.11", "failed")


def test_a_wild_interval_is_cut_and_marked() -> None:
    base, other = noisy(4, 3), (4.0, 9.0, 2.0)
    calm = noisy(4.1, 3, seed=5)
    run = RunBuilder({"mysql-5.6.24": base, "mysql-5.7.22": other, "mysql-8.0.12": calm}).build()
    analysis = compare_run(run)
    (chart,) = ratio_charts(analysis, analysis.headline)
    wild = chart.ratios[0]
    assert wild.low_cut
    assert wild.high_cut


@pytest.mark.parametrize(
    ("mean_s", "labels"),
    [
        (4.6, ["−10 %", "−5 %", "0"]),
        (40.0, ["÷8", "−75 %", "−50 %", "0"]),
    ],
)
def test_ticks_are_round(mean_s: float, labels: list[str]) -> None:
    times_s = noisy(mean_s, 5, spread=0.001, seed=2)
    run = RunBuilder({"mysql-5.6.24": noisy(4, 5, spread=0.001), "mysql-5.7.22": times_s}).build()
    analysis = compare_run(run)
    (chart,) = ratio_charts(analysis, analysis.headline)
    assert [tick.label for tick in chart.ticks] == labels
