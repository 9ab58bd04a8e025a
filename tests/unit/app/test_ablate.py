"""Test `millrace explain --ablate` without servers: its experiment, records and messages."""

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.analysis.explain.ablation import Ablation
from millrace.analysis.explain.explanation import Explanation
from millrace.app import ablate as use_case
from millrace.app.execution import Caller
from millrace.app.explain import ExplainedRun
from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import begin_run, new_run_record
from millrace.errors import Interrupted, TrialFailed
from millrace.experiment.model import Plan
from millrace.model.events import Emitted, Notice
from millrace.store.records import AttemptResult, InstanceRecord, OptionRecord, StoredRun
from millrace.store.store import Store
from tests.support.builders import OWNER
from tests.support.explained import SUSPECTS, explained_study, study_run
from tests.support.measured import alone
from tests.support.observed_trials import A, B

BLOCKS = 3
WITH_BINARY_LOG = "with binary log as in the base"


def explanation(*options: OptionRecord) -> Explanation:
    """Return a comparison of A with the binary log on, and of B with it off and these options."""
    found = explained_study()
    instance = found.b.instance
    assert isinstance(instance, InstanceRecord)
    b = replace(found.b, instance=replace(instance, options=options))
    suspect = replace(SUSPECTS[0], settings={"log_bin": ("ON", "OFF")})
    return replace(found, b=b, likely_causes=(suspect, SUSPECTS[1]))


EVENTS: list[Emitted] = []


def measure(path: Path, stored: StoredRun, *found: Explanation) -> Ablation:
    """Ablate the likely causes of a comparison, and return the result."""
    EVENTS.clear()
    explained = ExplainedRun(stored, found)
    caller = Caller("millrace explain", EVENTS.append)
    (tested,) = use_case.ablate(path, explained, caller, blocks=BLOCKS).explanations
    assert tested.ablation is not None
    return tested.ablation


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store; new runs get the study's host, and nothing is installed."""
    host = study_run().run.host

    def new_run(plan: Plan, caller: Caller) -> RunSelection:
        return RunSelection(new_run_record(plan, host, {}, caller.command), plan, is_new=True)

    monkeypatch.setattr(use_case, "new_run", new_run)
    alone(monkeypatch)
    monkeypatch.setattr("millrace.servers.install.find", lambda _name: None)
    return tmp_path / "results.sqlite"


def stand_in_execution(
    monkeypatch: pytest.MonkeyPatch, *, blocks: int = BLOCKS, fails: str = "nothing"
) -> None:
    """End trials at once in this many blocks, then stop the run.

    Trials of one configuration fail.

    The run is not stopped when these were all blocks."""

    def execute_run(_stack: object, store: Store, chosen: RunSelection, _caller: object) -> None:
        begin_run(store, chosen.run, chosen.plan)
        for trial in store.load_run(chosen.run.id).trials:
            if trial.block < blocks:
                claimed = store.claim(
                    trial.id, OWNER, "2026-05-01T12:00:00Z", is_alive=lambda _owner: False
                )
                assert claimed is not None
                levels = {each.id: each.levels for each in chosen.plan.treatments}
                failed = fails in str(levels[trial.treatment_id]["configuration"])
                reason = "mysqld: does not start" if failed else None
                result = AttemptResult(
                    "failed" if failed else "finished",
                    failed_step="start" if failed else None,
                    reason=reason,
                    measurements=study_run(profiled=0).attempts[0].measurements,
                )
                store.finish(claimed, result, "2026-05-01T12:00:10Z")
        if blocks < BLOCKS:
            raise Interrupted("interrupted", hint="the same command continues")

    monkeypatch.setattr(use_case, "execute_run", execute_run)


def newest(path: Path) -> StoredRun:
    with Store.open(path) as store:
        return store.load_run(store.find_run("latest").id)


def test_the_run_is_recorded_with_what_it_tests(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_execution(monkeypatch)
    parent = study_run()
    found = measure(path, parent, explanation())
    measured = newest(path)
    test = measured.run.spec.tested
    assert test is not None
    levels = {each.id: each.levels for each in measured.treatments}
    assert test.run == parent.run.id
    assert (levels[test.base]["server"], levels[test.candidate]["server"]) == (A, B)
    assert [*test.treatments] == ["binary log"]
    assert str(levels[test.treatments["binary log"]]["configuration"]).endswith(WITH_BINARY_LOG)
    assert found.run_id == measured.run.id
    assert found.left_out == test.left_out
    assert "compiler: part of the build" in test.left_out[0]
    assert [each.share.n for each in found.recovered] == [BLOCKS]
    aligned, *not_aligned = next(
        each.text.splitlines() for each in EVENTS if isinstance(each, Notice) and B in each.text
    )
    assert aligned == f"{B} with binary log: log_bin = ON, server_id = 1"
    assert not_aligned == [f"not aligned: {clause}" for clause in test.left_out]


@pytest.mark.parametrize(
    ("left_out", "needed"), [(None, {}), ("no such option", {"server_id": "1"})]
)
def test_what_an_option_needs_is_left_as_it_was_given(
    left_out: str | None, needed: dict[str, str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_execution(monkeypatch)
    given = OptionRecord("server_id", "7", "mine", False, left_out)
    measure(path, study_run(), explanation(given))
    (aligned,) = (
        definition.to_json()["optional"]
        for name, definition in newest(path).run.spec.configurations.items()
        if name.endswith(WITH_BINARY_LOG)
    )
    assert aligned == {"log_bin": True, **needed}


def test_ablation_without_results_points_to_the_reasons(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_execution(monkeypatch, fails=WITH_BINARY_LOG)
    with pytest.raises(TrialFailed, match="has results of A, of B and of an alignment"):
        measure(path, study_run(), explanation())


def test_a_test_that_is_stopped_begins_anew_and_keeps_what_it_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_execution(monkeypatch, blocks=1)
    parent = study_run()
    with pytest.raises(Interrupted) as stopped:
        measure(path, parent, explanation())
    assert f"millrace explain {parent.run.id}" in (stopped.value.hint or "")
    with Store.open(path) as store:
        assert [run.id for run in store.ablations_of(parent.run.id)] == [newest(path).run.id]
