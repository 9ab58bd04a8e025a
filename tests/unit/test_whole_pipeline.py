"""Test the whole pipeline on fake servers: plan, trials, store, verdicts, explanations, reports."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import RunAnalysis
from millrace.app.explain import explanations_of_report
from millrace.campaign import forecast
from millrace.errors import DamagedResult
from millrace.experiment.estimate import Estimate
from millrace.experiment.model import Experiment
from millrace.experiment.plan import expand
from millrace.experiment.read import read
from millrace.report.run.formats import FORMATS, render
from millrace.report.run.html import as_html
from millrace.store.records import StoredAttempt, StoredRun
from millrace.store.store import Store
from millrace.workloads.defaults import in_open_loop
from tests.fake_family.family import Script
from tests.support.fake_servers import fakes
from tests.support.fakes import HOST, Fakes

WAIT = "wait/io/file/log"
BASE = Script(waits={WAIT: 1e-4})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with fakes(tmp_path, monkeypatch):
        yield tmp_path


@pytest.fixture
def measured(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[StoredRun, Experiment]:
    """Return a run of this host, and its experiment, which may be planned again."""
    fake = Fakes(place, {"fake-1": BASE, "fake-2": Script(seed=2, waits={WAIT: 1e-4})})
    stored = fake.run()
    monkeypatch.setattr("millrace.campaign.forecast.facts.host_id", lambda _facts: HOST.id)
    return stored, read(place / "fakes.toml", scale=None, context=fake.context())


ESTIMATE = Estimate(80.0, 60.0, 1.0, 0, "", 0, 0)


def verdict(analysis: RunAnalysis) -> str | None:
    """Return the verdict of the only comparison in the metric of the run."""
    (first,) = (group.comparisons[0] for group in analysis.groups)
    return first.verdict


def wait_us(attempt: StoredAttempt) -> int:
    """Return the time of the only wait in an operation, in µs."""
    waits = attempt.observations.waits
    assert waits is not None
    assert waits.events is not None
    (event,) = waits.events
    return round(1e6 * event.wait_s / event.count)


def test_regression_is_found_and_its_waits_are_reported(place: Path) -> None:
    slow = Script(operation_s=0.0012, seed=2, waits={WAIT: 3e-4})
    stored = Fakes(place, {"fake-1": BASE, "fake-2": slow}).run()
    assert [attempt.outcome for attempt in stored.attempts] == ["finished"] * 8
    analysis = compare_run(stored)
    assert verdict(analysis) == "regression"
    found = {wait_us(attempt) for attempt in stored.attempts}
    assert found == {100, 300}
    (explanation,) = explanations_of_report(stored, analysis.base, ())
    assert [wait.name for wait in explanation.waits] == [WAIT]
    for name in FORMATS:
        assert "fake-2" in render(analysis, name)
    assert WAIT in as_html(analysis, [explanation])
    assert json.loads(render(analysis, "json"))["schema"].startswith("millrace.report/")


def test_plan_forecasts_detectable_changes_from_earlier_noise(
    place: Path, measured: tuple[StoredRun, Experiment]
) -> None:
    stored, experiment = measured

    def visible(**changes: Any) -> forecast.ForeseenChanges | None:
        plan = expand(replace(experiment, **changes), seed=1)
        with Store.open(place / "results.sqlite") as store:
            return forecast.foreseen_changes(plan, store, ESTIMATE)

    found, with_more = visible(), visible(blocks=16)
    assert found is not None
    assert with_more is not None
    assert (found.run, found.blocks, with_more.blocks) == (stored.run.id, 4, 16)
    assert 0 < with_more.largest < found.smallest == found.largest
    assert visible(blocks=2) is None  # no interval
    assert visible(max_time_s=30.0) is None  # holds one block
    other = visible(name="another")  # of which only the workload was measured
    assert other is not None
    assert (found.is_of_plan, other.is_of_plan) == (True, False)
    assert other.largest == found.largest
    assert visible(name="another", slices=not experiment.slices) is None
    same_name = {**experiment.workload, "version": experiment.workload["version"] + 1}
    assert visible(name="another", workload=same_name) is None
    # The throughput of a rate of their own hardly varies, and latencies are another figure.
    assert visible(name="another", workload=in_open_loop(experiment.workload)) is None
    with_rate = {**experiment.parameters, "rate": 100}
    assert visible(name="another", parameters=with_rate) is None


def test_a_plan_is_forecast_without_earlier_runs_that_are_damaged(
    place: Path, measured: tuple[StoredRun, Experiment]
) -> None:
    stored, experiment = measured
    plan = expand(experiment, seed=1)
    alike = expand(replace(experiment, name="another"), seed=1)
    with Store.open(place / "results.sqlite") as store:
        measured_s = forecast.expected_here_s(plan, store)
        sha256 = stored.attempts[0].artefacts[0].sha256
        store.artefacts.path(sha256).unlink()
        with pytest.raises(DamagedResult):
            store.load_run(stored.run.id)
        assert forecast.expected_here_s(plan, store) != measured_s
        assert forecast.foreseen_changes(plan, store, ESTIMATE) is None
        assert forecast.foreseen_changes(alike, store, ESTIMATE) is None


def test_servers_that_are_alike_differ_in_nothing(place: Path) -> None:
    stored = Fakes(place, {"fake-1": BASE, "fake-2": BASE}).run()
    assert verdict(compare_run(stored)) == "equivalent"


@pytest.mark.parametrize("step", ["initialise", "start", "measure"])
def test_a_server_that_fails_has_a_failed_verdict_with_its_words(place: Path, step: str) -> None:
    broken = Script(failures={step: "no room for the log"})
    stored = Fakes(place, {"fake-1": BASE, "fake-2": broken}).run(blocks=1)
    (failed,) = (each for each in stored.attempts if each.outcome == "failed")
    assert failed.failed_step == step
    assert "no room for the log" in (failed.reason or "")
    assert verdict(compare_run(stored)) == "failed"


def test_an_option_is_compared_where_a_server_has_it(place: Path) -> None:
    checked = Script(options={"checksums": "off"}, option_costs={"checksums=on": 1.2})
    stored = Fakes(place, {"fake-1": checked}).run(
        blocks=3,
        compare='factor = "options.checksums"\nbase = "off"',
        factors='[factors.options]\nchecksums = ["off", "on"]',
    )
    effective = {attempt.instances[0].effective["checksums"] for attempt in stored.attempts}
    assert effective == {"off", "on"}
    assert verdict(compare_run(stored)) == "regression"
