"""Test that the values of a row match its ratio, in every format, whichever trials are missing."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.common.formatting import MISSING
from millrace.report.run import notes
from millrace.report.run.charts import bar_charts
from millrace.report.run.drive_tables import cost_table
from millrace.report.run.formats import as_csv
from millrace.report.run.json import as_json
from millrace.report.run.tables import results_table
from millrace.report.run.units import readable
from tests.support.builders import Fails, RunBuilder
from tests.support.query_runs import Levels, QueryRun

BASE, FIRST, SECOND = "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12"

# Blocks of a host whose speed varies by half; a trial may have failed or not been made.
seconds = st.floats(2.0, 6.0).map(lambda value: round(value, 3))
trial = st.one_of(seconds, seconds, st.just(Fails()), st.none())
runs = st.lists(st.tuples(trial, trial, trial), min_size=2, max_size=6)


def judged(blocks: list[tuple[float | Fails | None, ...]]) -> RunAnalysis:
    times = dict(zip((BASE, FIRST, SECOND), zip(*blocks, strict=True), strict=True))
    return compare_run(RunBuilder(times).build())


@given(runs)
@settings(max_examples=60)
def test_no_value_falls_where_its_ratio_rises(
    blocks: list[tuple[float | Fails | None, ...]],
) -> None:
    found = judged(blocks)
    levels = {
        (treatment.id, name): metric.level
        for treatment in found.treatments
        for name, metric in treatment.metrics.items()
    }
    for metric in found.metrics:
        for each in found.comparisons(metric):
            if each.estimate is not None:
                base, candidate = (
                    levels[side, metric.name] for side in (each.base_id, each.candidate_id)
                )
                assert candidate / base == pytest.approx(each.estimate.ratio)
    for row in csv.DictReader(io.StringIO(as_csv(found))):
        if row["ratio"]:
            shown = float(row["candidate_value"]) / float(row["base_value"])
            assert shown == pytest.approx(float(row["ratio"]))


# The base is slow in the first block, which the candidate lacks, and in no block that both have.
UNPAIRED: list[tuple[float | Fails | None, ...]] = [
    (6.0, Fails(), Fails()), (3.0, 3.3, 3.0), (3.0, 3.3, 3.0), (3.0, 3.3, 3.0),
]  # fmt: skip


def test_level_is_adjusted_for_blocks_that_a_candidate_missed() -> None:
    found = judged(UNPAIRED)
    (base, slower, alike) = (t.metrics["time"] for t in found.treatments)
    assert base.level == base.summary.geometric_mean > 3.3
    assert slower.level == pytest.approx(base.level * 1.1)
    assert alike.level == pytest.approx(base.level)
    assert slower.summary.geometric_mean == pytest.approx(3.3), "what was measured stays"


def test_one_value_of_a_server_is_shown_everywhere() -> None:
    found = judged(UNPAIRED)
    table = results_table(found, found.headline, found.time)
    (chart,) = bar_charts(found, found.headline)
    document = json.loads(as_json(found))
    for row, bar, cell, treatment in zip(
        table.sections[0].rows,
        chart.bars,
        document["matrices"][0]["rows"][0]["cells"],
        document["treatments"],
        strict=True,
    ):
        rate = row.cells[3]
        assert bar.value == f"{rate} rows/s"
        assert float(rate.replace(",", "")) == pytest.approx(cell["value"], rel=1e-3)
        throughput = treatment["metrics"]["throughput"]
        assert throughput["level"] == cell["value"]


def test_the_average_of_a_row_is_the_mean_that_its_ratio_is_of() -> None:
    # By the arithmetic mean the candidate takes less time, by the geometric one more.
    found = judged([(2.0, 3.0, 2.0), (6.0, 4.2, 6.0)] * 2)
    rows = results_table(found, found.headline, found.time).sections[0].rows
    base, candidate = (float(row.cells[1].replace(",", "")) for row in rows[:2])
    (estimate,) = (c.estimate for c in found.groups[0].comparisons
                   if c.metric.name == "time" and c.candidate == FIRST)  # fmt: skip
    assert estimate is not None
    assert candidate > base
    assert candidate / base == pytest.approx(estimate.ratio, rel=0.01)


@given(runs)
@settings(max_examples=40)
def test_no_row_of_a_table_contradicts_itself(
    blocks: list[tuple[float | Fails | None, ...]],
) -> None:
    found = judged(blocks)
    base, *candidates = results_table(found, found.headline, found.time).sections[0].rows
    for row in candidates:
        if row.cells[4] == MISSING:
            continue
        seconds, rate = (_number(row.cells[place]) - _number(base.cells[place]) for place in (1, 3))
        percent = _number(row.cells[4]) - 100
        # Displayed values are rounded, so a small difference may show as none.
        assert percent * rate >= 0
        assert percent * seconds <= 0


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def test_a_note_explains_a_value_that_no_trial_has() -> None:
    found = judged(UNPAIRED)
    said = (
        f"{FIRST} and {SECOND} did not finish the same blocks as the base: each one's value is "
        "the base's times the ratio over the blocks that both finished, not the mean of the trials"
    )
    assert said in notes.warnings(found)
    complete = judged(UNPAIRED[1:])
    assert not any("same blocks" in each for each in notes.warnings(complete))


def test_cpu_time_is_the_same_in_its_table_and_among_the_costs() -> None:
    def uneven(levels: Levels, block: int) -> dict[str, float]:
        return {"server_user_s": 2.0 if block % 2 else 40.0, "server_system_s": 0.0}

    run = QueryRun((BASE, FIRST), ("point-query",), (1,), blocks=4, also=uneven)
    found = readable(compare_run(run.build()))
    cpu = next(metric for metric in found.metrics if metric.name == "server_cpu")
    own = results_table(found, cpu, None).sections[0].rows
    costs = cost_table(found)
    assert costs is not None
    shown = [row.cells[1] for row in costs.sections[0].rows]
    for cost, row in zip(shown, own, strict=True):
        number, unit = cost.split()
        assert unit == cpu.unit
        assert _number(number) == pytest.approx(_number(row.cells[1]), rel=0.01)
