"""Test `--fail-on`: the exit status of a verdict that a CI job fails on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.analysis.builders import keep
from tests.unit.analysis.history_points import run_of
from tests.unit.cli.called import millrace


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    keep(run_of("run-1", ratio=0.8), path)
    return path


def report(store: Path, *arguments: str) -> tuple[int, str, str]:
    done = millrace("report", "--store", store, *arguments)
    return done.returncode, done.stdout, done.stderr


def pairs(path: Path, ratios: list[float]) -> Path:
    rows = [f"{i},old,1000\n{i},new,{1000 * ratio}" for i, ratio in enumerate(ratios)]
    path.write_text("block,treatment,value\n" + "\n".join(rows) + "\n", "utf-8")
    return path


def history(path: Path, values: list[float]) -> Path:
    rows = [f"c{i},{value}" for i, value in enumerate(values)]
    path.write_text("label,value\n" + "\n".join(rows) + "\n", "utf-8")
    return path


def test_a_report_with_a_regression_exits_with_10_only_where_asked(store: Path) -> None:
    assert report(store)[0] == 0
    status, text, error = report(store, "--fail-on", "regression")
    assert status == 10
    assert text == report(store)[1]
    assert "--fail-on regression: " in error


def test_a_regression_outranks_an_inconclusive_verdict(store: Path) -> None:
    assert report(store, "--fail-on", "inconclusive,regression")[0] == 10


def test_a_report_without_what_the_gate_names_exits_with_0(store: Path) -> None:
    arguments = ("--margin", "60", "--fail-on", "regression,inconclusive")
    assert report(store, *arguments)[0] == 0


def test_documents_for_programs_are_whole_before_the_gate_fails(store: Path) -> None:
    arguments = ("--format", "json")
    status, document, _ = report(store, *arguments, "--fail-on", "regression")
    assert (status, document) == (10, report(store, *arguments)[1])


def test_a_verdict_that_is_none_is_refused(store: Path) -> None:
    status, text, error = report(store, "--fail-on", "regresion")
    assert (status, text) == (2, "")
    assert "regression, inconclusive" in error


@pytest.mark.parametrize(
    ("ratios", "fail_on", "status"),
    [
        ([0.9, 0.901, 0.899] * 6, "regression", 10),
        ([1.1, 1.101, 1.099] * 6, "regression,inconclusive", 0),
        ([0.5, 1.5, 1.0], "regression", 0),
        ([0.5, 1.5, 1.0], "inconclusive", 11),
        ([0.5, 1.5, 1.0], "regression,inconclusive", 11),
        ([1.0, 1.0001, 0.9999] * 6, "regression,inconclusive", 0),
    ],
)
def test_pairs_can_gate(tmp_path: Path, ratios: list[float], fail_on: str, status: int) -> None:
    file = pairs(tmp_path / "pairs.csv", ratios)
    for output in ((), ("--json",)):
        done = millrace("analyze", "paired", file, *output, "--fail-on", fail_on)
        assert done.returncode == status, done.stderr


def test_one_failure_of_the_gate_is_singular(tmp_path: Path) -> None:
    for values, said in (
        ([0.9, 0.901, 0.899] * 6, "--fail-on regression: 1 regression: new"),
        ([0.5, 1.5, 1.0], "--fail-on inconclusive: 1 inconclusive: new"),
    ):
        file = pairs(tmp_path / "pairs.csv", values)
        done = millrace("analyze", "paired", file, "--fail-on", "regression,inconclusive")
        assert said in done.stderr


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([100.0, 101, 99, 100.5] * 5 + [80.0, 81, 79, 80.5] * 5, 10),
        ([100.0, 101, 99, 100.5] * 5 + [120.0, 121, 119, 120.5] * 5, 0),
        ([100.0, 101, 99, 100.5] * 5, 0),
        ([100.0, 101.0], 11),
    ],
)
def test_histories_can_gate(tmp_path: Path, values: list[float], status: int) -> None:
    file = history(tmp_path / "history.csv", values)
    done = millrace("analyze", "series", file, "--fail-on", "regression,inconclusive")
    assert done.returncode == status, done.stderr
