"""Test the report on driven clients: latencies, CPU time, work, conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.common.formatting import latency_text
from millrace.report.common.tables import Table
from millrace.report.run import drive_notes, notes
from millrace.report.run.drive_tables import cost_table, latency_table
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.maintenance_tables import maintenance_tables
from millrace.report.run.schema import ReportDocument
from millrace.report.run.tables import sizes_table
from millrace.report.run.units import readable
from tests.support.builders import study
from tests.support.query_runs import Levels, QueryRun, Values, nothing_else

TWO = ("mysql-5.6.24", "mysql-8.0.12")
WAKEUP = {
    "disable_idle_states": True, "busy_poll": True, "client_cpus": [1], "polled": True,
    "on_cpus": [1], "kept_awake_by": {"latency_request": True, "pollers": 2},
    "reason": "a sleeping CPU takes 52 µs to run again, one kept awake 4 µs",
    "idle_wakeup_us": 52.31, "awake_wakeup_us": 4.06,
}  # fmt: skip


def few(also: Any = nothing_else, **changes: Any) -> RunAnalysis:
    return compare_run(QueryRun(TWO, ("point-query",), (8,), 3, also=also, **changes).build())


def rows(table: Table | None) -> list[tuple[str, ...]]:
    assert table is not None
    return [row.cells for section in table.sections for row in section.rows]


@pytest.mark.parametrize("output_format", list(FORMATS))
@pytest.mark.parametrize("open_loop", [False, True])
def test_every_format_takes_driven_clients(output_format: str, open_loop: bool) -> None:
    analysis = few(open_loop=open_loop, statements=("BEGIN", "COMMIT"), wakeup=WAKEUP)
    text = render(analysis, output_format)
    assert "nan" not in re.findall(r"\b\w+\b", text.lower())
    if output_format == "html":
        assert text.index('id="latencies"') < text.index('id="costs"') < text.index('id="p99"')


def test_json_holds_latencies_work_and_conditions_in_si_units() -> None:
    document = ReportDocument.model_validate_json(render(few(), "json"), strict=True)
    treatment = document.treatments[0]
    (latency,) = treatment.latencies
    assert (latency.of, latency.time, latency.count) == ("transaction", "service", 360)
    assert latency.percentiles_s["50"] < latency.percentiles_s["99.9"] <= latency.maximum_s < 0.01
    assert [work.block for work in treatment.work] == [0, 1, 2]
    assert treatment.conditions is not None
    assert treatment.conditions.client_s == pytest.approx(9e-6)
    assert {metric.name: metric.unit for metric in document.metrics}["p99"] == "s"
    assert (
        ReportDocument.model_validate_json(render(compare_run(study()), "json"))
        .treatments[0]
        .latencies
        == []
    )


def test_latencies_have_their_unit_and_response_time_its_row() -> None:
    cells = rows(latency_table(few(), "transaction"))
    assert [row[:3] for row in cells] == [(name, "point-query", "service") for name in TWO]
    assert all(re.fullmatch(r"[\d.,]+ (µs|ms|s)", text) for row in cells for text in row[3:-1])
    cells = rows(latency_table(few(open_loop=True), "transaction"))
    assert [row[2] for row in cells] == ["service", "response"] * 2


def test_statements_are_shown_where_a_transaction_has_several() -> None:
    assert latency_table(few(statements=("point_select",)), "statement") is None
    several = few(statements=("BEGIN", "point_select", "COMMIT"))
    assert len(rows(latency_table(several, "statement"))) == 6


def test_costs_are_a_transaction_s() -> None:
    cells = rows(cost_table(few()))
    assert cells[0] == ("mysql-5.6.24", "50 µs", "9 µs", "1.01", "26.4 %", "0 %")


def test_a_bulk_load_has_neither() -> None:
    analysis = compare_run(study())
    assert latency_table(analysis, "transaction") is None
    assert cost_table(analysis) is None
    assert drive_notes.conditions(analysis) == []
    assert drive_notes.warnings(analysis) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4.21e-5, "42.1 µs"), (0.0012399, "1.24 ms"), (2.5, "2.5 s"), (0.9999, "1 s"),
        (0.00099999, "1 ms"), (999e-6, "999 µs"), (5e-7, "500 ns"), (3599.0, "3,600 s"),
        (0.0, "0 ns"),
    ],
)  # fmt: skip
def test_latencies_as_text(seconds: float, text: str) -> None:
    assert latency_text(seconds) == text


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


def note(analysis: RunAnalysis, words: str) -> str:
    lines = [*notes.warnings(analysis), *drive_notes.conditions(analysis)]
    (line,) = [line for line in lines if words in line]
    return line


def of_8_0(values: Mapping[str, float]) -> Any:
    def also(levels: Levels, _block: int) -> Values:
        return values if levels["server"] == "mysql-8.0.12" else {}

    return also


def test_a_quiet_run_has_no_warnings_but_those_of_the_host() -> None:
    assert notes.warnings(few()) == ["this host makes results less trustworthy: virtual machine"]


def test_errors_are_told() -> None:
    line = note(few(of_8_0({"errors": 100_000.0})), "ended in an error")
    assert re.fullmatch(r"transactions ended in an error: mysql-8.0.12 [\d.]+ %", line)


def test_late_and_skipped_requests_are_told() -> None:
    line = note(few(of_8_0({"late": 15_000.0, "skipped": 1_500.0}), open_loop=True), "schedule")
    assert line.endswith("mysql-8.0.12 10.0 % late, 1.0 % skipped")


def test_trials_that_had_not_settled_are_told() -> None:
    line = note(few(of_8_0({"settled": 0.0, "settle_duration_s": 600.0})), "began to measure")
    assert line.startswith("3 of 6 trials began to measure before")
    assert line.endswith("after waiting 600.0 s")


def test_trials_that_were_not_steady_are_told() -> None:
    line = note(few(of_8_0({"warmup_steady": 0.0})), "steady")
    assert line.startswith("3 of 6 trials began to measure before")
    assert not any("steady" in line for line in notes.warnings(few(of_8_0({"warmup_steady": 1.0}))))


def test_a_load_generator_that_took_most_of_the_host_is_told() -> None:
    line = note(few(of_8_0({"load_generator_user_s": 40.0})), "took most of")
    assert "mysql-8.0.12" in line
    assert "mysql-5.6.24" not in line


@pytest.mark.parametrize(
    ("reads", "found", "said"),
    [
        (0.0, "cached", "the buffer pool served all page reads"),
        (40.0, "cached", "the buffer pool served all page reads but 0.01 %"),
        (200.0, "between", "the buffer pool could not serve 0 % to 0.05 % of page reads"),
        (200_000.0, "io_bound", "the buffer pool could not serve 0 % to 50 % of page reads"),
    ],
)
def test_cached_or_not_is_told_as_the_runner_found_it(reads: float, found: str, said: str) -> None:
    values = {"buffer_pool_reads": reads, "buffer_pool_read_requests": 400_000.0}
    analysis = few(of_8_0(values), facts=facts_of_8_0(residency=found))
    assert said in note(analysis, "of page reads" if reads >= 100 else "page reads")


def facts_of_8_0(**facts: Any) -> Any:
    return lambda levels: facts if levels["server"] == "mysql-8.0.12" else {"residency": "cached"}


def test_a_bit_of_both_is_told_with_its_figures() -> None:
    why = "100 of 40,000 pages asked for were fetched"
    facts = facts_of_8_0(residency="between", residency_why=why)
    line = note(few(facts=facts), "neither cached")
    assert line.startswith("reads in 3 of 6 trials ")
    assert line.endswith(f": {why}")


def test_what_still_went_on_is_told() -> None:
    facts = facts_of_8_0(unsettled=["812 pages are dirty", "the log is written to"])
    line = note(few(of_8_0({"settled": 0.0}), facts=facts), "began to measure")
    assert line.endswith(" s: 812 pages are dirty, the log is written to")


def test_snapshots_that_could_not_be_kept_are_told() -> None:
    line = note(few(facts=facts_of_8_0(snapshot_not_kept="there is no room")), "snapshot")
    assert line.startswith("3 of 6 trials loaded their tables themselves")
    assert line.endswith(": there is no room")
    none = few(facts=facts_of_8_0(snapshot_not_kept=None))
    assert not any("snapshot" in line for line in drive_notes.conditions(none))


def test_what_snapshots_saved_and_the_client_took_are_told() -> None:
    saved = {"snapshot_restore_s": 2.0, "snapshot_saved_s": 42.0}
    assert note(few(of_8_0(saved)), "snapshots") == "snapshots saved 120.0 s of loading"
    assert "of the host’s CPU time" in note(few(), "the load generator used")


def test_how_sleeping_cpus_were_dealt_with_is_told_with_the_reason() -> None:
    line = note(few(wakeup=WAKEUP), "awake")
    assert line.startswith("idle CPUs were kept awake and clients polled on CPU 1 (")
    assert line.endswith(" 52 µs to run again, one kept awake 4 µs)")
    # The option set for many clients was not applied.
    off = {"disable_idle_states": False, "busy_poll": True, "polled": False, "reason": "asked for"}
    said = "idle CPUs could sleep and clients did not poll (asked for)"
    assert note(few(wakeup=off), "sleep") == said

    shared = {
        "disable_idle_states": False,
        "shared_cpu": 1,
        "polled": False,
        "reason": "it is slow to wake",
    }
    line = note(few(wakeup=shared), "sleep")
    assert line.startswith("idle CPUs could sleep, and CPU 1 was shared")
    assert line.endswith("(it is slow to wake)")


def test_tables_that_were_loaded_in_another_way_are_told() -> None:
    facts = {"load_method": "multi_row", "load_method_reason": "the server refuses LOAD DATA LOCAL"}
    line = note(few(facts=lambda _levels: facts), "loaded by")
    assert "by multi_row, because the server refuses LOAD DATA LOCAL: " in line


def test_constants_are_told_in_words() -> None:
    assert "no TLS · closed loop · 3 blocks" in notes.subtitle(few())
    text = notes.subtitle(few(open_loop=True))
    assert "open loop, 5,000 transactions/s · arrivals poisson" in text
    tls = few(factors={"tls": [True]})
    assert " · TLS · " in notes.subtitle(tls)
    option = few(factors={"options.sync_binlog": [1], "options.log_bin": [True]})
    assert " · sync_binlog = 1 · log_bin on · " in notes.subtitle(option)
    theirs = few(factors={"rate": ["fast"]})
    assert " · rate fast · " in notes.subtitle(theirs), "the factor of a workload of the user's own"


def test_variables_that_differ_alike_everywhere_are_told_once() -> None:
    text = render(compare_run(QueryRun().build()), "html")
    assert text.count("<summary>mysql-9.7.4 against mysql-5.6.24") == 1


def test_maintenance_has_its_tables_and_the_clients_three_parts() -> None:
    figures: Values = {
        "maintenance_s": 3.0, "maintenance_statements": 10.0, "maintenance_longest_s": 0.7,
        "file_removal_s": 1.0, "maintenance_own_s": 2.0,
        "before_s": 5.0, "during_s": 3.0, "after_s": 5.0,
        "before_transactions": 5_000.0, "during_transactions": 1_500.0, "after_transactions": 0.0,
    }  # fmt: skip
    analysis = few(also=lambda _levels, _block: figures)
    statements, parts = maintenance_tables(analysis)
    assert rows(statements)[0] == (
        TWO[0], "300 ms", "100 ms", "200 ms", "33.3 %", "700 ms", "30",
    )  # fmt: skip
    assert [row[1:4] for row in rows(parts)[:3]] == [
        ("before", "1,000", "100.0 %"), ("during", "500", "50.0 %"), ("after", "0", "0.0 %"),
    ]  # fmt: skip
    for output_format in ("terminal", "markdown", "html"):
        assert statements.title in render(analysis, output_format)
    document = ReportDocument.model_validate_json(render(analysis, "json"), strict=True)
    maintenance = document.treatments[0].maintenance
    assert maintenance is not None
    assert maintenance.removal_s == pytest.approx(0.1)
    assert maintenance_tables(few()) == []


def test_maintenance_that_is_only_partly_stored_is_none() -> None:
    partly: Values = {"maintenance_s": 3.0, "maintenance_statements": 10.0, "before_s": 5.0}
    assert maintenance_tables(few(also=lambda _levels, _block: partly)) == []


def test_tables_that_maintenance_may_have_dropped_have_no_sizes() -> None:
    sizes: Values = {"table_allocated_bytes": 4096.0, "table_rows": 50.0}
    dropped: Values = {
        "maintenance_s": 3.0, "maintenance_statements": 1.0, "maintenance_longest_s": 3.0,
        **{f"{part}_{what}": 1.0 for part in ("before", "during", "after")
           for what in ("s", "transactions")},
    }  # fmt: skip
    table = sizes_table(few(also=lambda _levels, _block: sizes))
    assert table is not None
    assert rows(table)[0][1:4] == ("50", "4.1 kB", "81.9 bytes")
    analysis = few(also=lambda _levels, _block: {**sizes, **dropped})
    assert sizes_table(analysis) is None
    assert {treatment.table_rows for treatment in analysis.treatments} == {None}


def test_a_trial_that_did_not_measure_removals_says_why() -> None:
    figures: Values = {
        "maintenance_s": 3.0, "maintenance_statements": 1.0, "maintenance_longest_s": 3.0,
        **{f"{part}_{what}": 1.0 for part in ("before", "during", "after")
           for what in ("s", "transactions")},
    }  # fmt: skip
    analysis = few(
        also=lambda _levels, _block: figures,
        facts=lambda _levels: {"file_removal_unknown": "this kernel traces no events"},
    )
    assert rows(maintenance_tables(analysis)[0])[0][2:5] == ("–", "–", "–")
    assert any(
        "removing files is not known" in line and line.endswith("traces no events")
        for line in notes.warnings(analysis)
    )
