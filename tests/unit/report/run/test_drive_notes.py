"""Test the report on steady and unsteady trials, in every format."""

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.report.run import drive_notes, notes
from millrace.report.run.drive_notes import steady_conditions, steady_warnings
from millrace.report.run.drive_tables import cost_table, latency_table
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.json import ReportDocument
from tests.support.builders import study
from tests.support.driven_runs import TWO, falling_candidate, few
from tests.support.query_runs import Levels, QueryRun, Values
from tests.support.seconds import Series, events


def test_trials_that_were_not_steady_are_counted_with_their_reasons() -> None:
    (line,) = list(steady_warnings(falling_candidate(2)))
    assert line.startswith("2 of 5 trials of mysql-8.0.12 were not steady: throughput fell by ")
    assert line.endswith(" % over the measured part")
    refused, counted = list(steady_warnings(falling_candidate(4)))
    assert refused.startswith("1 comparison is inconclusive: ")
    assert counted.startswith("4 of 5 trials of mysql-8.0.12")


def test_warnings_name_the_first_of_many_treatments() -> None:
    def series(_levels: Levels, _block: int) -> Series:
        return events(list(14_000 - 200.0 * np.arange(30)), warmup=[14_000.0] * 5)

    tests = ("point-query", "update-index", "insert", "oltp_read_write")
    run = QueryRun(TWO, tests, (8,), 3, series=series).build()
    lines = list(steady_warnings(compare_run(run)))
    assert len(lines) == 1 + 6 + 1
    assert lines[0].startswith("4 comparisons are inconclusive: ")
    assert lines[-1] == "2 more treatments had trials that were not steady"


def test_steady_and_short_trials_are_conditions_not_warnings() -> None:
    steady, short = falling_candidate(), falling_candidate(n_seconds=3)
    assert list(steady_warnings(steady)) == list(steady_warnings(short)) == []
    assert list(steady_conditions(steady)) == [
        "10 of 10 trials were steady while they were measured"
    ]
    (line,) = steady_conditions(short)
    assert line.startswith("10 of 10 trials were too short to tell ")
    by_work = falling_candidate(parameters={"operations": 100_000})
    (line,) = steady_conditions(by_work)
    assert line.startswith("a steady state is not asked for: ")
    assert not list(steady_conditions(compare_run(study())))
    assert set(steady_warnings(falling_candidate(2))) <= set(
        drive_notes.warnings(falling_candidate(2))
    )


@pytest.mark.parametrize("output_format", list(FORMATS))
def test_no_format_minds_what_is_not_known(output_format: str) -> None:
    for n_seconds in (1, 3):
        assert render(falling_candidate(n_seconds=n_seconds), output_format)


def test_json_has_every_trial_with_its_course_and_gates() -> None:
    document = ReportDocument.model_validate_json(render(falling_candidate(4), "json"), strict=True)
    assert document.comparisons[0].unsteady is not None
    base, other = document.treatments
    assert {trial.state for trial in base.steadiness} == {"steady"}
    assert [trial.block for trial in other.steadiness] == [0, 1, 2, 3, 4]
    assert [trial.trend for trial in other.steadiness[:4]] == ["drift"] * 4
    assert other.steadiness[0].enough_s == pytest.approx(35.0)
    assert {gate.result for gate in base.steadiness[0].checks} == {"unknown"}
    loads = json.loads(render(compare_run(study()), "json"))["treatments"][0]
    assert {trial["state"] for trial in loads["steadiness"]} == {"does not apply"}
    assert json.loads(render(falling_candidate(), "json"))["comparisons"][0]["unsteady"] is None


WAKEUP = {
    "disable_idle_states": True, "busy_poll": True, "client_cpus": [1], "polled": True,
    "on_cpus": [1], "kept_awake_by": {"latency_request": True, "pollers": 2},
    "reason": "a sleeping CPU takes 52 µs to run again, one kept awake 4 µs",
    "idle_wakeup_us": 52.31, "awake_wakeup_us": 4.06,
}  # fmt: skip


@pytest.mark.parametrize("output_format", list(FORMATS))
@pytest.mark.parametrize("open_loop", [False, True])
def test_every_format_takes_driven_clients(output_format: str, open_loop: bool) -> None:
    analysis = few(open_loop=open_loop, statements=("BEGIN", "COMMIT"), wakeup=WAKEUP)
    text = render(analysis, output_format)
    assert "nan" not in re.findall(r"\b\w+\b", text.lower())
    if output_format == "html":
        assert text.index('id="latencies"') < text.index('id="costs"') < text.index('id="p99"')


def test_a_bulk_load_has_neither() -> None:
    analysis = compare_run(study())
    assert latency_table(analysis, "transaction") is None
    assert cost_table(analysis) is None
    assert drive_notes.conditions(analysis) == []
    assert drive_notes.warnings(analysis) == []


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


@pytest.mark.parametrize(
    ("figures", "words", "result"),
    [
        (
            {"errors": 100_000.0},
            "ended in",
            r"transactions ended in an error: mysql-8.0.12 [\d.]+ %",
        ),
        (
            {"late": 15_000.0, "skipped": 1_500.0},
            "schedule",
            r"not all .* was kept: mysql-8.0.12 10.0 % late, 1.0 % skipped",
        ),
        (
            {"settled": 0.0, "settle_duration_s": 600.0},
            "began to measure",
            r"3 of 6 trials began to measure before .* after waiting 600.0 s",
        ),
        ({"warmup_steady": 0.0}, "steady", r"3 of 6 trials began to measure before .* was steady"),
        (
            {"load_generator_user_s": 40.0},
            "took most of",
            r"the load generator took [^:]*: mysql-8.0.12 [\d.]+ %",
        ),
    ],
)
def test_warnings_have_the_figures_of_the_server(
    figures: Mapping[str, float], words: str, result: str
) -> None:
    line = note(few(of_8_0(figures), open_loop=words == "schedule"), words)
    assert re.fullmatch(result, line)


def test_steady_warmups_have_no_warning() -> None:
    assert not any("steady" in line for line in notes.warnings(few(of_8_0({"warmup_steady": 1.0}))))


@pytest.mark.parametrize(
    ("reads", "found", "said"),
    [
        (0.0, "cached", "the buffer pool served all page reads"),
        (40.0, "cached", "the buffer pool served all page reads but 0.01 %"),
        (200.0, "between", "the buffer pool could not serve 0 % to 0.05 % of page reads"),
        (200_000.0, "io_bound", "the buffer pool could not serve 0 % to 50 % of page reads"),
    ],
)
def test_conditions_have_the_residency_of_the_tables(reads: float, found: str, said: str) -> None:
    values = {"buffer_pool_reads": reads, "buffer_pool_read_requests": 400_000.0}
    analysis = few(of_8_0(values), facts=facts_of_8_0(residency=found))
    assert said in note(analysis, "of page reads" if reads >= 100 else "page reads")


def facts_of_8_0(**facts: Any) -> Any:
    return lambda levels: facts if levels["server"] == "mysql-8.0.12" else {"residency": "cached"}


def test_warnings_have_the_figures_of_partly_cached_tables() -> None:
    why = "100 of 40,000 pages asked for were fetched"
    facts = facts_of_8_0(residency="between", residency_why=why)
    line = note(few(facts=facts), "neither cached")
    assert line.startswith("reads in 3 of 6 trials ")
    assert line.endswith(f": {why}")


def test_warnings_name_what_the_server_still_did() -> None:
    facts = facts_of_8_0(unsettled=["812 pages are dirty", "the log is written to"])
    line = note(few(of_8_0({"settled": 0.0}), facts=facts), "began to measure")
    assert line.endswith(" s: 812 pages are dirty, the log is written to")


def test_conditions_count_snapshots_that_were_not_kept() -> None:
    line = note(few(facts=facts_of_8_0(snapshot_not_kept="the disk is full")), "snapshot")
    assert line.startswith("3 of 6 trials loaded their tables themselves")
    assert line.endswith(": the disk is full")
    none = few(facts=facts_of_8_0(snapshot_not_kept=None))
    assert not any("snapshot" in line for line in drive_notes.conditions(none))


def test_conditions_have_saved_time_and_client_share() -> None:
    saved = {"snapshot_restore_s": 2.0, "snapshot_saved_s": 42.0}
    assert note(few(of_8_0(saved)), "snapshots") == "snapshots saved 120.0 s of loading"
    assert "of the host’s CPU time" in note(few(), "the load generator used")


def test_conditions_have_the_way_of_idle_cpus_with_its_reason() -> None:
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


def test_warnings_name_tables_loaded_in_another_way() -> None:
    facts = {"load_method": "multi_row", "load_method_reason": "the server refuses LOAD DATA LOCAL"}
    line = note(few(facts=lambda _levels: facts), "loaded by")
    assert "by multi_row, because the server refuses LOAD DATA LOCAL: " in line


def test_subtitle_has_constants_in_words() -> None:
    assert "no TLS · closed loop · 3 blocks" in notes.subtitle(few())
    text = notes.subtitle(few(open_loop=True))
    assert "open loop, 5,000 transactions/s · arrivals poisson" in text
    tls = few(factors={"tls": [True]})
    assert " · TLS · " in notes.subtitle(tls)
    option = few(factors={"options.sync_binlog": [1], "options.log_bin": [True]})
    assert " · sync_binlog = 1 · log_bin on · " in notes.subtitle(option)
    theirs = few(factors={"rate": ["fast"]})
    assert " · rate fast · " in notes.subtitle(theirs), "the factor of a workload of the user's own"
