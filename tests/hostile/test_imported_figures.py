"""Test that figures which only an import or a damaged store has are refused, or shown."""

import json
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.explain.explanation import explain
from millrace.model import measurements
from millrace.model.documents import as_lines
from millrace.report.run.html import as_html
from millrace.stats import histogram
from millrace.stats.histogram import Layout
from millrace.store import attempt_files, checked
from millrace.store.checked import NotARecord
from millrace.store.records import LoopRecord, MeasurementRecord, StoredRun
from tests.support.explained import study_run
from tests.support.hdr import FINE, encoded, varint, wrapped
from tests.support.observed_trials import A, B
from tests.support.query_runs import QueryRun

_SMALL = QueryRun(("mysql-5.6.24", "mysql-5.7.22"), ("point-query",), (1,))
_COUNTS = (measurements.TRANSACTIONS, measurements.ROWS_READ, measurements.SKIPPED, "errors_1205")


@pytest.mark.parametrize("name", _COUNTS)
@pytest.mark.parametrize("odd", [-1, -1e-20, 1e20, 2.0**63])
def test_counts_that_no_client_reaches_are_refused(name: str, odd: float) -> None:
    run = _SMALL.build()
    checked.require_consistent_run(run)
    first, *others = run.attempts
    kept = [each for each in first.measurements if each.name != name]
    first = replace(first, measurements=(*kept, MeasurementRecord(name, odd, "server")))
    with pytest.raises(NotARecord, match=name):
        checked.require_consistent_run(replace(run, attempts=(first, *others)))


@pytest.mark.parametrize("longest_s", [0.0, 5e-324, 1e-300, 1e20])
def test_a_lag_of_any_length_is_drawn(longest_s: float) -> None:
    analysis = compare_run(_SMALL.build())
    group, *others = analysis.groups
    lag = ((0.0, 0.0), (longest_s, longest_s))
    lagging = replace(group, treatments=tuple(replace(t, lag=lag) for t in group.treatments))
    page = as_html(replace(analysis, groups=(lagging, *others)))
    assert 'id="lag"' in page
    assert "nan" not in page.partition('id="lag"')[2].partition("</section>")[0]


@pytest.mark.parametrize("name", [measurements.duration_s("measure"), measurements.ROUND_S])
@pytest.mark.parametrize("odd", [0.0, -1.0])
def test_trials_that_took_no_time_explain_nothing(name: str, odd: float) -> None:
    run = study_run(profiled=0)
    attempts = tuple(
        replace(
            each,
            measurements=(
                *(kept for kept in each.measurements if kept.name != name),
                MeasurementRecord(name, odd, "server"),
            ),
        )
        for each in run.attempts
    )
    checked.require_consistent_run(replace(run, attempts=attempts))
    (found,) = explain(replace(run, attempts=attempts), factor="server", base=A, candidate=B)
    assert not found.a.trials


@pytest.mark.parametrize("duration_s", [0.0, 5e-324, 1e-20, 1e20])
def test_loops_of_any_length_are_drawn(duration_s: float) -> None:
    run = _SMALL.build()
    made = [
        LoopRecord(loop=n, transactions=2**64 - 1, errors=0, duration_s=duration_s) for n in (1, 2)
    ]
    figures = attempt_files.parse_loops(as_lines(made))
    attempts = tuple(replace(each, loops=figures) for each in run.attempts)
    page = as_html(compare_run(replace(run, attempts=attempts)))
    section = page.partition('id="loops"')[2].partition("</section>")[0]
    assert section
    assert not {"inf", "nan"} & set(section.replace('"', " ").replace(",", " ").split())


@pytest.mark.parametrize("name", ["transactions", "errors", "apparent_bytes", "allocated_bytes"])
def test_loops_of_negative_figures_are_refused(name: str) -> None:
    figures = {"loop": 1, "transactions": 1, "errors": 0, "duration_s": 1.0, name: -1}
    with pytest.raises(ValueError, match=name):
        attempt_files.parse_loops(json.dumps(figures).encode())


def with_histograms(run: StoredRun, **changes: Any) -> StoredRun:
    """Return a run with other values of all its histograms, which an import may have."""
    attempts = tuple(
        replace(each, histograms=tuple(replace(one, **changes) for one in each.histograms))
        for each in run.attempts
    )
    for each in attempts:
        attempt_files.check_histograms(attempt_files._HISTOGRAMS.dump_json(each.histograms))
    return replace(run, attempts=attempts)


@pytest.mark.parametrize(
    "odd",
    [
        {"encoded": encoded([0, 0, 0], FINE)},
        {"encoded": encoded([0, 1, 10**12], FINE)},
        {"count": 0},
        {"count": 2**63, "sum_s": 1e12},
    ],
    ids=["no time", "some", "none counted", "many counted"],
)
def test_latencies_that_no_client_measures_are_shown(odd: Mapping[str, Any]) -> None:
    page = as_html(compare_run(with_histograms(_SMALL.build(), **odd)))
    assert "nan" not in page.partition('id="latencies"')[2].partition("</section>")[0]


@pytest.mark.parametrize("n", [1024, 700])
def test_counts_that_do_not_add_up_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="is not plausible"):
        histogram.decode(wrapped(varint(2**54) * n, FINE))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_histogram_of_a_few_bytes_takes_little_memory(compressed: bool) -> None:
    many = b"\2" * (8 << 20)
    large = wrapped(many, Layout(1, 2**61, 5), compressed=compressed)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"too large|have no end"):
            histogram.decode(large)
        assert tracemalloc.get_traced_memory()[1] < 6 * len(many)
    finally:
        tracemalloc.stop()
    with pytest.raises(ValueError, match="too large"):
        histogram.decode(wrapped(b"\2", Layout(1, 2**61, 5)))


_INTERVAL = {"type": "interval", "part": "measure", "t_s": 1.0, "duration_s": 1, "transactions": 7}
_SECONDS = attempt_files.parse_series(f"{json.dumps(_INTERVAL)}\n".encode() * 60)


@pytest.mark.parametrize(
    "odd",
    [
        {key: value for key, value in _INTERVAL.items() if key != "t_s"},
        {**_INTERVAL, "t_s": "1"},
        {"type": "phase", "maintenance": {"parts": []}},
        {"type": "phase", "maintenance": {"from_s": 1.0, "parts": []}},
        {"type": "phase", "maintenance": {"from_s": 1.0, "parts": [{}]}},
        {"type": "phase", "maintenance": {"from_s": "1", "parts": [{"duration_s": 1.0}]}},
    ],
)
def test_seconds_that_reports_cannot_read_are_refused(odd: Mapping[str, Any]) -> None:
    attempt_files.parse_series(json.dumps(_INTERVAL).encode())
    with pytest.raises(NotARecord, match="line 1"):
        attempt_files.parse_series(json.dumps(odd).encode())


def test_seconds_of_a_schedule_may_lack_latencies() -> None:
    run = replace(_SMALL, open_loop=True).build()
    attempts = tuple(replace(each, series=_SECONDS) for each in run.attempts)
    assert compare_run(replace(run, attempts=attempts)).groups


def test_levels_without_what_they_stand_for_are_refused() -> None:
    run = _SMALL.build()
    first, *others = run.treatments
    with pytest.raises(NotARecord, match="has no level of server"):
        checked.require_consistent_run(
            replace(run, treatments=(replace(first, resolved={}), *others))
        )
