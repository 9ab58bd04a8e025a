"""Test trials in loops on fake servers: figures of each, and going on after a killed millrace."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from millrace.model.events import LoopEnded
from millrace.model.servers import FittedOptions
from millrace.servers.instances import ownership
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import kept_data
from millrace.store.attempt_files import LOOPS, parse_loops
from millrace.store.records import AttemptResult, LoopRecord
from millrace.trial import loops, measure
from millrace.trial.execute import execute_trial
from millrace.trial.hooks import MeasurementContext
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.fake_family import family
from tests.fake_family.family import Script
from tests.support.fake_servers import fakes
from tests.support.small_workload import driving

N = 3


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with fakes(tmp_path, monkeypatch):
        yield tmp_path


def spec(place: Path, script: Script | None = None) -> TrialSpec:
    workload = ResolvedWorkload(driving(), {"time_s": 1.0, "warmup_s": 0.0, "settle_s": 0})
    server = ServerSpec(
        family.install("fake", script or Script(), place / "fake"), FittedOptions("default", ())
    )
    return TrialSpec("test/1", (server,), workload, collectors=("waits",), loops=N)


def figures(result: AttemptResult) -> tuple[LoopRecord, ...]:
    (content,) = [content for kind, _, content in result.artefacts if kind == LOOPS]
    return parse_loops(content)


class _Killed(BaseException):
    """An exception that ends millrace in a loop, as a signal would."""


def run_killed_in(place: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a trial whose millrace ends when it begins the loop of this number."""
    real, begun = measure.measure, []

    def measured(*arguments: Any) -> object:
        begun.append(1)
        if len(begun) == number:
            raise _Killed
        return real(*arguments)

    with monkeypatch.context() as patch, suppress(_Killed):
        patch.setattr(measure, "measure", measured)
        execute_trial(spec(place), lambda _event: None)
    assert len(begun) == number


def test_each_loop_has_figures_and_the_last_one_is_the_measurement(place: Path) -> None:
    events: list[object] = []
    result = execute_trial(spec(place), events.append)
    assert result.outcome == "finished", result.reason
    found = figures(result)
    assert [each.loop for each in found] == [1, 2, 3]
    assert not any(each.restarted_cold for each in found)
    assert all(each.apparent_bytes and each.operations for each in found)
    names = [each.name for each in result.steps]
    assert names.count("loops") == names.count("measure") == 1
    measured = {each.name: each.value for each in result.measurements}
    assert measured["loops_transactions"] == sum(each.transactions for each in found)
    assert measured["transactions"] == found[-1].transactions
    assert measured["loops_restarted_cold"] == 0
    ended = [event for event in events if isinstance(event, LoopEnded)]
    assert [(each.loop, each.loops) for each in ended] == [(1, N), (2, N), (3, N)]
    (kept,) = kept_data.all_kept()
    assert kept.is_there(), "the result is not stored yet"


@pytest.mark.parametrize("number", [1, 2, N])
def test_a_killed_trial_goes_on_with_its_data_at_the_loop_that_did_not_end(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run_killed_in(place, number, monkeypatch)
    assert ownership.running() == []
    (kept,) = kept_data.all_kept()
    assert kept.is_there()
    (kept.data / "of the earlier attempt").write_text("x")
    again = execute_trial(spec(place), lambda _event: None)
    assert again.outcome == "finished", again.reason
    assert [each.name for each in again.steps][:4] == ["prepare", "resume", "start", "record"]
    found = figures(again)
    assert [each.loop for each in found if each.restarted_cold] == [number]
    assert len(found) == N


def test_data_survives_a_kill_while_an_instance_takes_it_over(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_killed_in(place, 2, monkeypatch)

    def killed(*_arguments: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(Instance, "set_password", killed)
        with pytest.raises(_Killed):
            execute_trial(spec(place), lambda _event: None)
    (kept,) = kept_data.all_kept()
    assert kept.is_there()
    again = execute_trial(spec(place), lambda _event: None)
    assert (again.outcome, again.steps[1].name) == ("finished", "resume")


def test_recovering_server_is_not_ended_by_its_log(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(recovery="FATAL: a page is torn, and is repaired")
    run_killed_in(place, 2, monkeypatch)
    (kept,) = kept_data.all_kept()
    (kept.data / "torn").touch()
    real = measure.measure

    def measured(measurement: MeasurementContext, *arguments: Any) -> object:
        measurement.servers[0].check()
        return real(measurement, *arguments)

    monkeypatch.setattr(measure, "measure", measured)
    again = execute_trial(spec(place, script), lambda _event: None)
    assert again.outcome == "finished", again.reason
    assert any(b"torn" in content for _, _, content in again.artefacts), "it did recover"


def test_a_failed_trial_has_the_figures_until_then(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = measure.measure, []

    def measured(*arguments: Any) -> object:
        begun.append(1)
        if len(begun) == N - 1:
            raise OSError("broken")
        return real(*arguments)

    monkeypatch.setattr(measure, "measure", measured)
    result = execute_trial(spec(place), lambda _event: None)
    assert (result.outcome, result.failed_step) == ("failed", "loops")
    assert len(figures(result)) == N - 2


def test_data_that_another_put_there_is_not_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_killed_in(place, 2, monkeypatch)
    (kept,) = kept_data.all_kept()
    (kept.data / "link").symlink_to("/etc/passwd")
    result = execute_trial(spec(place), lambda _event: None)
    assert (result.outcome, result.failed_step) == ("failed", "resume")
    assert "cannot go on with its loops: link is a link to a place outside of" in str(result.reason)
    assert not result.is_transient


def test_removed_runs_leave_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_killed_in(place, 2, monkeypatch)
    kept_data.remove_of_runs(["another"])
    assert len(kept_data.all_kept()) == 1
    kept_data.remove_of_runs(["test"])
    assert kept_data.all_kept() == []


def test_a_record_names_no_other_place_to_keep_data(place: Path) -> None:
    record = ownership.register(
        "fake-0123abcd", server="fake", role="server", directories=[place / "fake-0123abcd"]
    )
    name = f"{'0' * 16}-{'1' * 16}"
    assert ownership.keep_data(record, place / "kept" / name) == ownership.running()[0]
    for odd in (place / "elsewhere" / name, place / "kept" / "..", Path("/etc") / name):
        ownership.keep_data(record, odd)
        assert ownership.running() == []


def test_clients_of_each_loop_have_other_statements() -> None:
    seeds = [loops.seed_of(7, number) for number in range(1, 1000)]
    assert seeds[0] == 7
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 1 << 63 for seed in seeds)
