"""`millrace explain --test-suspects`: what is asked for, recorded and told, without servers."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.analysis.explain.model import Explanation
from millrace.app import ablate
from millrace.campaign import scheduler as runner
from millrace.campaign.resume import Chosen
from millrace.errors import Interrupted, TrialFailed
from millrace.experiment.model import Plan
from millrace.store.records import AttemptResult, InstanceRecord, OptionRecord, StoredRun
from millrace.store.store import Store
from tests.unit.analysis.builders import OWNER
from tests.unit.analysis.observations import A, B
from tests.unit.report.explanation.explained import SUSPECTS, explained_study, study_run

BLOCKS = 3
WITH_BINARY_LOG = "with binary log as in the base"


def explanation(*options: OptionRecord) -> Explanation:
    """A has the binary log on, B has not, and was given these options."""
    found = explained_study()
    instance = found.b.instance
    assert isinstance(instance, InstanceRecord)
    b = replace(found.b, instance=replace(instance, options=options))
    suspect = replace(SUSPECTS[0], settings={"log_bin": ("ON", "OFF")})
    return replace(found, b=b, likely_causes=(suspect, SUSPECTS[1]))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store; new runs are recorded as of the study's host, and nothing is installed."""
    host = study_run().run.host

    def new_run(plan: Plan) -> Chosen:
        return Chosen(runner.new_run_record(plan, host, {}, "millrace explain"), plan, is_new=True)

    monkeypatch.setattr(ablate, "new_run", new_run)
    monkeypatch.setattr(ablate, "quiet_host", lambda _purpose: nullcontext())
    monkeypatch.setattr("millrace.servers.install.find", lambda _name: None)
    return tmp_path / "results.sqlite"


def carrying_out(
    monkeypatch: pytest.MonkeyPatch, *, blocks: int = BLOCKS, fails: str = "nothing"
) -> None:
    """Trials end at once in so many blocks, those of a configuration in a failure; then the run is
    stopped, unless that were all."""

    def carry_out(_stack: object, store: Store, chosen: Chosen, *, retry_failed: bool) -> None:
        assert not retry_failed
        runner.begin(store, chosen.run, chosen.plan)
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

    monkeypatch.setattr(ablate, "carry_out", carry_out)


def newest(path: Path) -> StoredRun:
    with Store.open(path) as store:
        return store.load_run(store.find_run("latest").id)


def test_the_run_is_recorded_with_what_it_tests(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    carrying_out(monkeypatch)
    parent = study_run()
    found = ablate.measure_aligned(path, parent, explanation(), blocks=BLOCKS)
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
    assert "compiler: of the build" in test.left_out[0]
    assert [each.share.n for each in found.recovered] == [BLOCKS]
    assert f"{B} with binary log: log_bin = ON, server_id = 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("left_out", "needed"), [(None, {}), ("no such option", {"server_id": "1"})]
)
def test_what_an_option_needs_is_left_as_it_was_given(
    left_out: str | None, needed: dict[str, str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying_out(monkeypatch)
    given = OptionRecord("server_id", "7", "mine", False, left_out)
    ablate.measure_aligned(path, study_run(), explanation(given), blocks=BLOCKS)
    (aligned,) = (
        definition["optional"]
        for name, definition in newest(path).run.spec.configuration_documents().items()
        if name.endswith(WITH_BINARY_LOG)
    )
    assert aligned == {"log_bin": True, **needed}


def test_without_any_answer_it_is_told_where_the_reasons_are(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying_out(monkeypatch, fails=WITH_BINARY_LOG)
    with pytest.raises(TrialFailed, match="has a result of A, of B and of an alignment"):
        ablate.measure_aligned(path, study_run(), explanation(), blocks=BLOCKS)


def test_a_test_that_is_stopped_begins_anew_and_keeps_what_it_has(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying_out(monkeypatch, blocks=1)
    parent = study_run()
    with pytest.raises(Interrupted) as stopped:
        ablate.measure_aligned(path, parent, explanation(), blocks=BLOCKS)
    assert f"millrace explain {parent.run.id}" in (stopped.value.hint or "")
    with Store.open(path) as store:
        assert [run.id for run in store.tests_of(parent.run.id)] == [newest(path).run.id]
