"""Test the tables of trials that filled their disk."""

from dataclasses import replace
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.model.instance_facts import FullDiskFact
from millrace.report.calibration import head_line
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.full_disk_tables import full_disk_tables, outcome
from millrace.report.run.json import ReportDocument
from millrace.report.run.sentences import answer
from tests.support.query_runs import Levels, QueryRun

SERVERS = ("mysql-5.6.24", "mariadb-11.8.9")

FACT: dict[str, Any] = {
    "trouble": "error", "trouble_s": 3.25, "error_code": "1114", "error": "The table is full",
    "free_bytes": 0, "reads": 6, "reads_answered": 6, "commits_while_full": 0, "waiting_s": 0.0,
    "ended": None, "recovery_s": 0.25, "recovery_limit_s": 90.0, "stop_failed": None,
    "restart_s": 2.0, "restart_failed": None, "committed_rows": 64_000, "lost_rows": 0,
    "refused_rows": 0, "unanswered_rows": 0, "unreadable": None,
}  # fmt: skip
CRASHED = {"trouble": "end", "ended": "ended by signal 6 (SIGABRT)", "recovery_s": None}
UNREADABLE = {"lost_rows": None, "refused_rows": None, "unanswered_rows": None}


def analysis(**changes: Any) -> RunAnalysis:
    """Return a run in which the first server had an error, and the other one ``changes``."""

    def facts(levels: Levels) -> dict[str, Any]:
        return {"full_disk": {**FACT, **(changes if levels["server"] == SERVERS[1] else {})}}

    return compare_run(QueryRun(SERVERS, ("point-query",), (8,), 3, facts=facts).build())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "error; writes again by itself; no row lost"),
        ({"trouble": None, "recovery_s": 0.1}, "writes on; no row lost"),
        ({"trouble": None, "reads": 0, "reads_answered": 0}, "did not fill the disk; no row lost"),
        ({"trouble": "silence"}, "no answer; writes again by itself; no row lost"),
        ({"recovery_s": 49.5}, "error; writes again by itself within 1 minute; no row lost"),
        ({"recovery_s": 61}, "error; writes again by itself within 2 minutes; no row lost"),
        ({"recovery_s": None}, "error; needs a restart; no row lost"),
        (CRASHED, "it crashed; needs a restart; no row lost"),
        ({**CRASHED, "trouble": "error"}, "error, then it crashed; needs a restart; no row lost"),
        (
            {
                **CRASHED,
                "restart_s": None,
                "restart_failed": "no",
                "unreadable": "no",
                **UNREADABLE,
            },
            "it crashed; does not start again",
        ),
        ({"unreadable": "no", **UNREADABLE}, "error; writes again by itself; rows cannot be read"),
        ({"lost_rows": 1}, "error; writes again by itself; 1 row lost"),
        ({"refused_rows": 256}, "error; writes again by itself; 256 refused rows written"),
        ({"unanswered_rows": 256}, "error; writes again by itself; no row lost"),
    ],
)
def test_outcome_has_trouble_way_out_and_rows(changes: dict[str, Any], words: str) -> None:
    assert outcome(FullDiskFact.model_validate({**FACT, **changes})) == words


def test_the_overview_has_a_row_a_server_and_a_column_a_case() -> None:
    overview, details = full_disk_tables(analysis(**CRASHED, reads_answered=2, unanswered_rows=256))
    (section,) = overview.sections
    assert [row.cells for row in section.rows] == [
        (SERVERS[0], "error; writes again by itself; no row lost"),
        (SERVERS[1], "it crashed; needs a restart; no row lost"),
    ]
    assert [row.is_base for row in section.rows] == [True, False]
    rows = [row.cells for section in details.sections for row in section.rows]
    assert len(rows) == 2 * 3  # one a trial
    assert rows[0] == (
        SERVERS[0], "error after 3.25 s: The table is full",
        "reads were answered; no commit", "wrote again after 250 ms", "started in 2 s",
        "none of 64,000 committed rows lost",
    )  # fmt: skip
    assert rows[3] == (
        SERVERS[1], "it crashed after 3.25 s",
        "it ended by signal 6 (SIGABRT); 2 of 6 reads were answered; no commit", "it had crashed",
        "started in 2 s",
        "none of 64,000 committed rows lost; 256 written that it had not answered",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "No committed row was lost. No server crashed."),
        (CRASHED, "No committed row was lost. Crashed: X."),
        (
            {"recovery_s": None, "lost_rows": 1, "refused_rows": 2},
            (
                "Committed rows were lost or cannot be read: X. Refused changes were made: X. No "
                "server crashed. Did not write again without a restart: X."
            ),
        ),
    ],
)
def test_the_answer_names_who_lost_rows_crashed_or_hung(
    changes: dict[str, Any], words: str
) -> None:
    assert answer(analysis(**changes)).replace(SERVERS[1], "X") == words


def test_details_of_a_server_without_trouble() -> None:
    of_others = {"trouble": None, "trouble_s": 20.5, "free_bytes": 70_000_000}
    _, details = full_disk_tables(analysis(**of_others, reads=0, reads_answered=0))
    row = details.sections[0].rows[3]
    assert row.cells[1:3] == ("none in 20.5 s of writing, with 70.0 MB left", "it was not full")


def test_details_of_a_server_that_hangs_and_does_not_start() -> None:
    _, details = full_disk_tables(
        analysis(
            trouble="silence", recovery_s=None, reads_answered=0, commits_while_full=1,
            stop_failed="not gone", restart_s=None, restart_failed="corrupt", unreadable="corrupt",
            **UNREADABLE,
        )
    )  # fmt: skip
    row = details.sections[0].rows[3]
    assert row.cells[1:] == (
        "no answer, after 3.25 s of writing", "no read was answered; 1 transaction committed",
        "no commit within 90 s", "had to be killed; does not start: corrupt",
        "cannot be read",
    )  # fmt: skip


def test_full_disk_runs_have_no_calibration_line() -> None:
    assert head_line(replace(analysis(), calibrations=())) is None


@pytest.mark.parametrize("output_format", [name for name in FORMATS if name not in ("csv", "json")])
def test_every_format_has_the_tables(output_format: str) -> None:
    text = render(analysis(**CRASHED), output_format)
    assert "When the disk was full" in text
    assert "When the disk was full" not in render(
        compare_run(QueryRun(SERVERS, ("point-query",), (8,), 3).build()), output_format
    )


def test_the_json_report_has_each_trial() -> None:
    text = render(analysis(**CRASHED), "json")
    document = ReportDocument.model_validate_json(text, strict=True)
    assert [len(each.full_disk) for each in document.treatments] == [3, 3]
    assert document.treatments[1].full_disk[0].model_dump() == {**FACT, **CRASHED}
