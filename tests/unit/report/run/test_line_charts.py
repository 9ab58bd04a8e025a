"""Test charts of relative throughput by server, and of latency by percentile."""

from __future__ import annotations

import functools

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.common.charts import MOST_LINES
from millrace.report.run.line_charts import have_one_axis, latency_charts, relative_charts
from tests.support.builders import Fails
from tests.support.query_runs import SERVERS, TESTS, Levels, QueryRun, usual_rate


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
    assert chart.band is not None
    assert chart.one is not None
    assert chart.band[0] < chart.one < chart.band[1]
    mark = by_server["mysql-9.7.4"]
    assert mark.low_y is not None
    assert mark.high_y is not None
    assert mark.high_y < mark.y < mark.low_y
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


def test_more_lines_than_can_be_told_apart_are_no_chart() -> None:
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
