"""Test the charts of a run: bars, ratios, and lines."""

import functools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.common.charts import MOST_LINES
from millrace.report.run.charts import (
    bar_charts,
    have_one_axis,
    lag_charts,
    latency_charts,
    ratio_charts,
    relative_charts,
)
from millrace.report.run.html import as_html
from tests.support.builders import Fails, RunBuilder, noisy, study
from tests.support.known import known
from tests.support.query_runs import SERVERS, TESTS, Levels, QueryRun, usual_rate

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
        assert 0 <= known(ratio.low_at) <= known(ratio.at) + 1e-9
        assert known(ratio.at) <= known(ratio.high_at) + 1e-9 <= 100 + 1e-6
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
    ("mean_s", "labels"), [(4.6, ["−10 %", "−5 %", "0"]), (40.0, ["÷8", "−75 %", "−50 %", "0"])]
)
def test_ticks_are_round(mean_s: float, labels: list[str]) -> None:
    times_s = noisy(mean_s, 5, spread=0.001, seed=2)
    run = RunBuilder({"mysql-5.6.24": noisy(4, 5, spread=0.001), "mysql-5.7.22": times_s}).build()
    analysis = compare_run(run)
    (chart,) = ratio_charts(analysis, analysis.headline)
    assert [tick.label for tick in chart.ticks] == labels


@functools.cache
def whole_run() -> RunAnalysis:
    return compare_run(QueryRun().build())


def test_a_chart_a_test_a_line_a_number_of_clients_a_mark_a_server() -> None:
    charts = relative_charts(whole_run(), whole_run().headline)
    assert [chart.heading for chart in charts] == list(TESTS)
    for chart in charts:
        assert [tick.label for tick in chart.across] == list(SERVERS)
        assert [line.label for line in chart.lines] == ["clients 1", "clients 8", "clients 32"]
        assert all(len(line.marks) == len(SERVERS) for line in chart.lines)
        places = [m.x for line in chart.lines for m in line.marks]
        heights = [y for line in chart.lines for m in line.marks for y in (m.y, m.low_y, m.high_y)]
        assert all(0 <= place <= 100 for place in (*places, *(y for y in heights if y is not None)))


def test_faster_is_higher_and_the_base_is_at_one() -> None:
    chart = relative_charts(whole_run(), whole_run().headline)[0]
    line = chart.lines[0]
    by_server = dict(zip(SERVERS, line.marks, strict=True))
    assert by_server["mysql-5.6.24"].y == chart.one
    assert by_server["mysql-5.5.62"].y < by_server["mysql-5.6.24"].y < by_server["mysql-9.7.4"].y
    assert known(chart.band)[0] < known(chart.one) < known(chart.band)[1]
    mark = by_server["mysql-9.7.4"]
    assert known(mark.high_y) < mark.y < known(mark.low_y)
    assert "regression" in mark.title


def test_a_line_joins_one_family_only() -> None:
    line = relative_charts(whole_run(), whole_run().headline)[0].lines[0]
    assert [len(piece.split(" ")) for piece in line.pieces] == [5, 2]


def test_a_line_is_broken_where_a_server_failed() -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        return Fails() if levels["server"] == "mysql-5.7.22" else None

    analysis = compare_run(QueryRun(fails=fails).build())
    line = relative_charts(analysis, analysis.headline)[0].lines[0]
    assert len(line.marks) == len(SERVERS) - 1
    assert [len(piece.split(" ")) for piece in line.pieces] == [2, 2, 2]


def test_charts_share_an_axis_unless_one_test_would_flatten_the_others() -> None:
    assert have_one_axis(relative_charts(whole_run(), whole_run().headline))

    def rate(levels: Levels) -> float:
        slow = levels["test"] == "insert" and levels["server"] == "mysql-9.7.4"
        return usual_rate(levels) / (8 if slow else 1)

    analysis = compare_run(QueryRun(rate=rate).build())
    charts = relative_charts(analysis, analysis.headline)
    assert not have_one_axis(charts)
    spread = [line.marks[4].y - line.marks[0].y for line in (chart.lines[0] for chart in charts)]
    assert min(spread) > 40, "each chart uses its height"


def test_no_chart_is_drawn_of_more_lines_than_signs() -> None:
    many = tuple(range(1, MOST_LINES + 2))
    analysis = compare_run(QueryRun(SERVERS[:2], TESTS[:2], many, 3).build())
    assert relative_charts(analysis, analysis.headline) == ()


def test_nothing_to_compare_is_no_chart() -> None:
    analysis = compare_run(QueryRun(("mysql-5.6.24",), blocks=2).build())
    assert relative_charts(analysis, analysis.headline) == ()


def test_latency_curves_rise_and_say_what_they_are() -> None:
    charts = latency_charts(whole_run().groups, whole_run().factor)
    assert len(charts) == len(whole_run().groups)
    for chart in charts:
        assert [line.label for line in chart.lines] == list(SERVERS)
        assert chart.across[-1].label == "99"  # 360 requests give no 99.9th percentile
        for line in chart.lines:
            heights = [mark.y for mark in line.marks]
            assert heights == sorted(heights, reverse=True)
            assert all(0 <= height <= 100 for height in heights)
        places = [tick.at for tick in chart.across]
        assert places == sorted(places)
        assert all(tick.label.endswith("s") for tick in chart.up)
    assert charts[0].lines[0].marks[1].title.startswith("mysql-5.5.62, 50 % within: ")


def test_latency_curves_of_too_many_servers_are_left_out() -> None:
    names = tuple(f"mysql-8.0.{number}" for number in range(MOST_LINES + 1))
    analysis = compare_run(QueryRun(names, TESTS[:1], (1,), 1, base=names[0]).build())
    assert latency_charts(analysis.groups, analysis.factor) == ()


@pytest.mark.parametrize("blocks", [1, 2])
def test_few_blocks_have_marks_with_or_without_intervals(blocks: int) -> None:
    analysis = compare_run(QueryRun(blocks=blocks).build())
    mark = relative_charts(analysis, analysis.headline)[0].lines[0].marks[0]
    assert (mark.low_y is None) == (blocks == 1)


LAG = tuple((at / 4, min(at, 80 - at) / 8) for at in range(81))


@pytest.fixture(scope="module")
def analysis() -> RunAnalysis:
    return compare_run(QueryRun(SERVERS[1:3], TESTS[:2], (1,)).build())


def test_a_line_a_replica_that_fell_behind_and_caught_up(analysis: RunAnalysis) -> None:
    group = analysis.groups[0]
    assert lag_charts([group], analysis.factor) == ()
    first, *others = group.treatments
    lagging = replace(group, treatments=(replace(first, lag=LAG), *others))
    (chart,) = lag_charts([lagging], analysis.factor)
    (line,) = chart.lines
    assert line.label in first.label
    assert all(0 <= mark.x <= 100 and 0 <= mark.y <= 100 for mark in line.marks)
    assert min(line.marks, key=lambda mark: mark.y).title.endswith("10.0 s: 5 s behind")
    assert [tick.label for tick in chart.across] == ["0 s", "5 s", "10 s", "15 s", "20 s"]
    assert line.marks[0].y == line.marks[-1].y == 100


def test_a_replica_that_never_fell_behind_has_a_flat_line(analysis: RunAnalysis) -> None:
    group = analysis.groups[0]
    flat = replace(group.treatments[0], lag=((0.0, 0.0),))
    (chart,) = lag_charts([replace(group, treatments=(flat,))], analysis.factor)
    assert {mark.y for mark in chart.lines[0].marks} == {100}


def test_a_long_run_keeps_its_page_small_and_its_peak(analysis: RunAnalysis) -> None:
    group = analysis.groups[0]
    lag = tuple((at / 4, 100.0 if at == 50_001 else 1.0) for at in range(100_000))
    long = replace(group.treatments[0], lag=lag)
    (chart,) = lag_charts([replace(group, treatments=(long,))], analysis.factor)
    (points,) = chart.lines[0].pieces
    assert points.count(" ") < 2000
    assert ",0.00" in points


def test_the_page_has_the_lag_of_a_run_with_a_replica_alone(analysis: RunAnalysis) -> None:
    assert 'id="lag"' not in as_html(analysis)
    group = analysis.groups[0]
    lagging = replace(group, treatments=tuple(replace(t, lag=LAG) for t in group.treatments))
    page = as_html(replace(analysis, groups=(lagging, *analysis.groups[1:])))
    assert 'id="lag"' in page
    assert "Lag of the replica over time" in page
