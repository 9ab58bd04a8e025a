"""Test that figures which only an import or a damaged store has are refused, or shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.explain.explanation import explain
from millrace.model import measurements
from millrace.model.documents import as_lines
from millrace.report.run.html import as_html
from millrace.store import checked, loops
from millrace.store.checked import NotARecord
from millrace.store.records import MeasurementRecord
from tests.unit.analysis.observations import A, B
from tests.unit.analysis.query_runs import QueryRun
from tests.unit.report.explanation.explained import study_run

_COUNTS = (measurements.TRANSACTIONS, measurements.ROWS_READ, measurements.SKIPPED, "errors_1205")


@pytest.mark.parametrize("name", _COUNTS)
@pytest.mark.parametrize("odd", [-1, -1e-20, 1e20, 2.0**63])
def test_counts_that_no_client_reaches_are_refused(name: str, odd: float) -> None:
    run = QueryRun().build()
    checked.stored_run(run)
    first, *others = run.attempts
    kept = [each for each in first.measurements if each.name != name]
    first = replace(first, measurements=(*kept, MeasurementRecord(name, odd, "server")))
    with pytest.raises(NotARecord, match=name):
        checked.stored_run(replace(run, attempts=(first, *others)))


@pytest.mark.parametrize("longest_s", [0.0, 5e-324, 1e-300, 1e20])
def test_a_lag_of_any_length_is_drawn(longest_s: float) -> None:
    analysis = compare_run(QueryRun().build())
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
    checked.stored_run(replace(run, attempts=attempts))
    (found,) = explain(replace(run, attempts=attempts), factor="server", base=A, candidate=B)
    assert not found.a.trials


@pytest.mark.parametrize("duration_s", [0.0, 5e-324, 1e-20, 1e20])
def test_loops_of_any_length_are_drawn(duration_s: float) -> None:
    run = QueryRun().build()
    made = [
        loops.LoopRecord(loop=n, transactions=2**64 - 1, errors=0, duration_s=duration_s)
        for n in (1, 2)
    ]
    figures = loops.parse(as_lines(made))
    attempts = tuple(replace(each, loops=figures) for each in run.attempts)
    page = as_html(compare_run(replace(run, attempts=attempts)))
    section = page.partition('id="loops"')[2].partition("</section>")[0]
    assert section
    assert not {"inf", "nan"} & set(section.replace('"', " ").replace(",", " ").split())


@pytest.mark.parametrize("name", ["transactions", "errors", "apparent_bytes", "allocated_bytes"])
def test_loops_of_negative_figures_are_refused(name: str) -> None:
    figures = {"loop": 1, "transactions": 1, "errors": 0, "duration_s": 1.0, name: -1}
    with pytest.raises(ValueError, match=name):
        loops.parse(json.dumps(figures).encode())
