"""Test `--fail-on`: the exit status of a verdict that a CI job fails on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.analysis import ci_gate
from millrace.analysis.compare.compare_run import compare_run
from millrace.app import report as use_case
from tests.support.builders import Fails, RunBuilder, keep, noisy
from tests.support.called import millrace
from tests.support.history_points import run_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    keep(run_of("run-1", ratio=0.8), path)
    return path


def report(store: Path, *arguments: str) -> tuple[int, str, str]:
    done = millrace("report", "--store", store, *arguments)
    return done.returncode, done.stdout, done.stderr


def table(path: Path, head: str, rows: Iterable[str]) -> Path:
    path.write_text("\n".join([head, *rows]) + "\n", "utf-8")
    return path


def pairs(path: Path, ratios: list[float]) -> Path:
    rows = (f"{i},old,1000\n{i},new,{1000 * ratio}" for i, ratio in enumerate(ratios))
    return table(path, "block,treatment,value", rows)


def history(path: Path, values: list[float]) -> Path:
    return table(path, "label,value", (f"c{i},{value}" for i, value in enumerate(values)))


def test_report_exits_with_10_only_with_fail_on(store: Path) -> None:
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


GATES = ("regression", "inconclusive", "regression,inconclusive")
BASE, CANDIDATE, OTHER = "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.33"
FASTER = noisy(2.0, 5, seed=3)


def kept(place: Path, load_s: Mapping[Any, Sequence[float | Fails | None]]) -> Path:
    """Return a store with a run of these times."""
    path = place / "made.sqlite"
    keep(RunBuilder(load_s).build(), path)
    return path


@pytest.mark.parametrize("fail_on", GATES)
@pytest.mark.parametrize(
    "load_s",
    [
        {BASE: noisy(3.0, 5), CANDIDATE: [Fails()] * 5},
        {BASE: [Fails()] * 5, CANDIDATE: FASTER},
        {BASE: noisy(3.0, 5), CANDIDATE: FASTER, OTHER: [Fails()] * 5},
        {BASE: noisy(3.0, 5), CANDIDATE: (*FASTER[:4], Fails())},
        {BASE: noisy(3.0, 5), CANDIDATE: noisy(4.0, 5), OTHER: [Fails()] * 5},
    ],
)
def test_a_failed_trial_passes_no_gate(
    load_s: Mapping[str, Sequence[float | Fails]], fail_on: str, tmp_path: Path
) -> None:
    store = kept(tmp_path, load_s)
    assert report(store)[0] == 0
    for output in ("terminal", "json"):
        status, _, error = report(store, "--format", output, "--fail-on", fail_on)
        assert status == 3
        assert " failed" in error


@pytest.mark.parametrize(
    "load_s",
    [
        {BASE: noisy(3.0, 5), CANDIDATE: [None] * 5},
        {BASE: noisy(3.0, 5), CANDIDATE: FASTER, OTHER: [None] * 5},
        {BASE: noisy(3.0, 10), CANDIDATE: (*noisy(2.0, 9, seed=3), None)},
        {BASE: [None] * 5, CANDIDATE: [None] * 5},
        {BASE: noisy(3.0, 5)},
    ],
)
def test_what_was_planned_and_not_compared_is_inconclusive(
    load_s: Mapping[str, Sequence[float | None]], tmp_path: Path
) -> None:
    store = kept(tmp_path, load_s)
    for fail_on, wanted in zip(GATES, (0, 11, 11), strict=True):
        assert report(store, "--fail-on", fail_on)[0] == wanted


def test_tests_that_were_left_out_are_inconclusive(tmp_path: Path) -> None:
    run = RunBuilder({BASE: noisy(3.0, 5), CANDIDATE: FASTER}).build()
    design = run.run.design.replace(left_out_tests=("scan",))
    spec = run.run.spec.replace(design=design)
    keep(replace(run, run=replace(run.run, spec=spec)), tmp_path / "made.sqlite")
    status, text, error = report(tmp_path / "made.sqlite", "--fail-on", "inconclusive")
    assert status == 11
    assert "test scan, left out" in error
    assert "are missing: scan" in text


def test_a_run_that_is_whole_and_no_slower_passes(tmp_path: Path) -> None:
    store = kept(tmp_path, {BASE: noisy(3.0, 5), CANDIDATE: FASTER})
    for fail_on in GATES:
        assert report(store, "--fail-on", fail_on)[0] == 0


def test_group_without_base_is_inconclusive() -> None:
    analysis = compare_run(RunBuilder({BASE: noisy(3.0, 5), CANDIDATE: FASTER}).build())
    (group,) = analysis.groups
    alone = replace(group, treatments=group.treatments[1:], comparisons=())
    (found,) = ci_gate.of_run(replace(analysis, groups=(group, alone)))
    assert (found.kind, found.subject) == ("inconclusive", f"{CANDIDATE}, which has no base")


@pytest.mark.parametrize(("times", "wanted"), [(noisy(4.0, 5), 10), ([Fails()] * 5, 3)])
def test_a_run_and_its_report_end_alike(
    times: Sequence[float | Fails], wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = kept(tmp_path, {BASE: noisy(3.0, 5), CANDIDATE: times})
    monkeypatch.setattr(
        "millrace.app.execution.run", lambda path, *_, **__: use_case.report(path, "latest")
    )
    file = tmp_path / "study.toml"
    text = f'workload = "load-data"\n[factors]\nserver = ["{BASE}", "{CANDIDATE}"]\n'
    text += "[parameters]\nrows = 1000\n"
    file.write_text(f'name = "study"\n{text}[compare]\nfactor = "server"\nbase = "{BASE}"\n')
    millrace("run", file, "--store", store, "--fail-on", "regression", status=wanted)
    assert report(store, "--fail-on", "regression")[0] == wanted


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
        done = millrace(
            "analyze", "paired", file, *output, "--direction", "higher", "--fail-on", fail_on
        )
        assert done.returncode == status, done.stderr


def test_one_failure_of_the_gate_is_singular(tmp_path: Path) -> None:
    for values, said in (
        ([0.9, 0.901, 0.899] * 6, "--fail-on regression: 1 regression: new"),
        ([0.5, 1.5, 1.0], "--fail-on inconclusive: 1 inconclusive: new"),
    ):
        file = pairs(tmp_path / "pairs.csv", values)
        done = millrace("analyze", "paired", file, "--direction", "higher", "--fail-on", GATES[2])
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
    millrace(
        "analyze", "series", file, "--direction", "higher", "--fail-on", GATES[2], status=status
    )


@pytest.mark.parametrize("command", ["paired", "series"])
@pytest.mark.parametrize("fail_on", ["regression", "inconclusive"])
def test_a_gate_is_refused_when_the_direction_is_assumed(
    tmp_path: Path, command: str, fail_on: str
) -> None:
    write = pairs if command == "paired" else history
    file = write(tmp_path / "values.csv", [1.0, 1.1, 0.9] * 4)
    assert millrace("analyze", command, file).returncode == 0
    done = millrace("analyze", command, file, "--fail-on", fail_on)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--direction lower" in done.stderr


def test_one_series_of_unknown_direction_refuses_the_gate(tmp_path: Path) -> None:
    rows = (f"a,c{i},{100 + i % 3},ms\nb,c{i},{100 + i % 3},score" for i in range(8))
    file = table(tmp_path / "values.csv", "series,label,value,unit", rows)
    done = millrace("analyze", "series", file, "--fail-on", "regression", status=2)
    assert "unit 'score'" in done.stderr


@pytest.mark.parametrize("unit", ["usec", "msec", "nsec", "ms (p95)", "cycles", "errors", "bytes"])
def test_higher_costs_fail_the_gate(tmp_path: Path, unit: str) -> None:
    rows = (f"{i},old,{1001 + i % 3},{unit}\n{i},new,{1201 + i % 3},{unit}" for i in range(8))
    file = table(tmp_path / "pairs.csv", "block,treatment,value,unit", rows)
    assert millrace("analyze", "paired", file, "--fail-on", "regression").returncode == 10
