from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.report.explanation.stacked_bars import stacked_bars

sizes = st.floats(-5, -0.001) | st.floats(0.001, 1e6) | st.just(0.0)
parts = st.lists(st.tuples(sizes, sizes), max_size=8)


@given(parts)
def test_segments_fill_the_bars_on_one_scale(sizes_us: list[tuple[float, float]]) -> None:
    keyed = [(f"part-{n}", a, b) for n, (a, b) in enumerate(sizes_us)]
    titles = {key: key for key, _, _ in keyed}
    totals = (sum(a for a, _ in sizes_us), sum(b for _, b in sizes_us))
    chart = stacked_bars(("A", "B"), totals, titles, keyed)
    if chart is None:
        assert not any(a > 0 or b > 0 for a, b in sizes_us)
        return
    ends = []
    for bar in chart.bars:
        at = 0.0
        for segment in bar.segments:
            assert segment.at == pytest.approx(at, abs=1e-6)
            assert segment.width >= 0
            at += segment.width
        ends.append(at)
    assert max(ends) == pytest.approx(100) or max(b.total_at for b in chart.bars) == pytest.approx(
        100
    )
    assert len(chart.links) == len(chart.bars[0].segments) == len(chart.legend)


def test_negative_parts_are_not_drawn() -> None:
    chart = stacked_bars(
        ("A", "B"), (9.0, 12.0), {"run": "running", "wire": "wire"},
        [("run", 10.0, 12.0), ("wire", -1.0, 0.0)],
    )  # fmt: skip
    assert chart is not None
    assert [segment.title for segment in chart.bars[0].segments] == ["running"]
    assert chart.bars[0].total_at == pytest.approx(75), "the whole ends before its parts"
    excess = chart.bars[0].excess
    assert excess is not None
    assert excess.at == pytest.approx(75)
    assert excess.width == pytest.approx(100 / 12)
    assert chart.bars[0].description == "A, 9 µs: running: 10 µs, counted twice: 1 µs"
    assert chart.bars[1].excess is None
    assert chart.exceeds
