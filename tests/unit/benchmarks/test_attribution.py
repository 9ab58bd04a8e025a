"""Test the output of the benchmark of known causes."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.attribution import Named, score
from benchmarks.case_results import CaseResult, case_score, line
from benchmarks.cases import CASES, Case, CaseSize
from benchmarks.causes import CAUSES, NOTHING
from millrace.analysis.explain.causes.model import Kind, LikelyCause
from millrace.app.experiments import read_experiment


def named(cause: str, rank: int | None) -> Named:
    return Named("mysql-8.0.33", cause, rank, (), (100.0, 120.0), (), 1.0)


def test_goal_is_printed_when_all_causes_were_measured() -> None:
    found = [named(cause.name, 1 if n < 9 else 3) for n, cause in enumerate(CAUSES)]
    assert score("mysql-8.0.33", [*found, named(NOTHING.name, None)]) == (
        "mysql-8.0.33: named first 9 of 11 (wanted: 9), among the first 3 11 (wanted: 11); "
        "nothing named as a cause 0 times (wanted: 0)"
    )


def test_a_part_of_the_causes_has_no_goal() -> None:
    assert score("mysql-8.0.33", [named(CAUSES[0].name, 1)]) == (
        "mysql-8.0.33: named first 1 of 1, among the first 3 1"
    )
    assert score("mysql-8.0.33", [named(NOTHING.name, None)]) == (
        "mysql-8.0.33: nothing named as a cause 0 times (wanted: 0)"
    )


def likely(kind: Kind, about: str, *settings: str) -> LikelyCause:
    values = dict.fromkeys(settings, ("a", "b"))
    return LikelyCause(
        kind=kind, about=about, sentence=about, evidence=(), us=9.0, share=0.9, settings=values
    )


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def result(name: str, first: LikelyCause | None) -> CaseResult:
    headline = "B is slower." if first is None else f"B is slower (likely cause: {first.about})."
    return CaseResult(case_named(name), 0.5, first, first, headline, (), 60.0)


@pytest.mark.parametrize(
    ("name", "first", "is_right", "is_wrong_setting"),
    [
        ("sync-binlog", likely("option", "binary log", "sync_binlog"), True, False),
        ("sync-binlog", likely("option", "checksums of pages", "innodb_checksums"), False, True),
        ("sync-binlog", likely("client", "client and wire"), False, False),
        ("sync-binlog", None, False, False),
        ("count-scan", likely("cpu", "CPU time"), True, False),
        ("count-scan", likely("work", "pages read"), True, False),
        ("count-scan", None, True, False),
        ("count-scan", likely("plan", "plan"), False, True),
        ("a-a", None, True, False),
        ("a-a", likely("cpu", "CPU time"), False, False),
    ],
)
def test_case_is_right_where_the_first_cause_is_the_known_one(
    name: str, first: LikelyCause | None, is_right: bool, is_wrong_setting: bool
) -> None:
    found = result(name, first)
    assert (found.first_is_right, found.names_wrong_setting) == (is_right, is_wrong_setting)


def test_case_with_failed_trials_is_not_right() -> None:
    lost = replace(result("a-a", None), failed=("measure: the server ended",))
    assert not lost.first_is_right
    assert "WRONG; 1 trials failed: measure: the server ended" in line(lost)


def test_case_score_counts_right_causes_and_wrong_headlines() -> None:
    right = [result(case.name, None) for case in CASES if case.is_right(None)]
    wrong = result("null-join", likely("option", "binary log", "log_bin"))
    assert case_score([*right, wrong, *([wrong] * (12 - len(right) - 1))]) == (
        f"named first {len(right)} of 12 (wanted: 10); a wrong setting in {12 - len(right)} "
        "headlines (wanted: 1 at most)"
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case_is_an_experiment_of_two_sides(case: Case, tmp_path: Path) -> None:
    experiment = read_experiment(case.write(tmp_path, CaseSize(3, 1.0, 0.5)))
    compared = next(f for f in experiment.factors if f.name == experiment.compare.factor)
    assert len(compared.levels) == 2
    assert experiment.blocks == 3
