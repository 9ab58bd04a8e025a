"""Test `millrace history` as a user calls it, without servers."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from millrace.analysis.history.recording import points_of
from millrace.app import confirm, execution
from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import begin_run
from millrace.errors import Interrupted
from millrace.report.history import HistoryDocument
from millrace.store.history_records import ChangeRecord, HistoryPart, SeriesRecord
from millrace.store.records import AttemptResult, MeasurementRecord
from millrace.store.store import Store
from tests.support.builders import OWNER, keep
from tests.support.called import millrace
from tests.support.history_points import (
    CANDIDATE,
    NOW,
    OTHER_STATE,
    REFERENCE,
    point,
    run_of,
    stepping,
)
from tests.support.measured import alone

Call = Callable[..., tuple[str, str]]

THIRD = "mysql-8.0.12"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def call(path: Path) -> Call:
    """Return a function that calls a command of `history` and returns its stdout and stderr."""

    def called(*arguments: str | Path, status: int = 0) -> tuple[str, str]:
        done = millrace("history", *arguments, "--store", path, status=status)
        return done.stdout, " ".join(done.stderr.split())

    return called


def long_history(path: Path, *, states: bool = False, ratio: float = 0.8) -> SeriesRecord:
    """Store two real runs, and sixty points of their series v0 to v59 that step at v40."""
    series, content = long_history_file(states, ratio)
    path.write_bytes(content)
    return series


@cache
def long_history_file(states: bool, ratio: float) -> tuple[SeriesRecord, bytes]:
    """Return the series, and the content of a store with it, which is a single file."""
    own_places = Path(os.environ["MILLRACE_STATE"]).parent
    with tempfile.TemporaryDirectory(dir=own_places) as place:
        path = Path(place, "results.sqlite")
        series = make_long_history(path, states=states, ratio=ratio)
        assert [*Path(place).iterdir()] == [path]
        return series, path.read_bytes()


def make_long_history(path: Path, *, states: bool, ratio: float) -> SeriesRecord:
    runs = {39: run_of("run-39"), 40: run_of("run-40", candidates=(THIRD,))}
    for stored in runs.values():
        keep(stored, path)
    drawn = points_of(runs[39], reference=None, label="v39", at_utc="2026-01-01T00:00:00Z").part
    series = next(each for each in drawn.series if each.metric == "throughput")
    (state,) = drawn.states
    other = replace(OTHER_STATE, id="other")
    levels = {39: CANDIDATE, 40: THIRD}
    with Store.open(path) as store:
        for number, value in enumerate(stepping((40, ratio), n=60)):
            own = state if number < 50 or not states else other
            level = levels.get(number, f"build-{number}")
            made = point(number, value, state=own.id, level=level, build=None)
            store.histories.record(HistoryPart((series,), (own,), ((series.id, made),)))
    return series


def changes(path: Path) -> list[ChangeRecord]:
    with Store.open(path) as store:
        return store.histories.changes()


@pytest.fixture
def found(call: Call, path: Path) -> ChangeRecord:
    """Return the only change of a long history, as a candidate that was found and stored."""
    long_history(path)
    call("detect")
    (change,) = changes(path)
    return change


def test_a_run_is_recorded_once(call: Call, path: Path) -> None:
    keep(run_of("run-a"), path)
    _, err = call("record", "latest", "--label", "a1b2c3d", "--date", "2026-05-01T02:00:00+02:00")
    assert "recorded a1b2c3d: 3 new points" in err
    with Store.open(path) as store:
        histories = list(store.histories.read())
    assert {each.series.metric for each in histories} == {"throughput", "time", "count_time"}
    assert {p.at_utc for each in histories for p in each.points} == {"2026-05-01T00:00:00Z"}
    _, err = call("record", "run-a", "--label", "a1b2c3d")
    assert "run run-a is recorded already, with 3 points" in err
    _, err = call("record", "run-a", status=2)
    assert "run run-a is recorded already, as a1b2c3d" in err
    _, err = call("forget", "run-a")
    assert "removed 3 points of run run-a" in err
    _, err = call("record", "run-a")
    assert f"recorded {CANDIDATE}: 3 new points" in err


def test_detect_reports_too_few_points(call: Call, path: Path) -> None:
    keep(run_of("run-a"), path)
    call("record", "run-a", "--label", "v0")
    out, _ = call("detect")
    assert "There are too few points" in out
    assert "No level moved" not in out
    out, _ = call("show")
    assert out.count("too few points") == 3  # series


def test_detect_reports_short_series_next_to_a_change(call: Call, path: Path) -> None:
    long_history(path)
    keep(run_of("run-b"), path)
    call("record", "run-b", "--label", "v60")
    out = " ".join(call("detect")[0].split())
    assert "v40: 1 of 1 series" in out
    assert "2 series have too few points" in out


def test_recording_mistakes_are_reported(call: Call, path: Path) -> None:
    _, err = call("record", "latest", status=2)
    assert "no results store here" in err
    keep(run_of("run-a"), path)
    _, err = call("record", "latest", "--reference", "mysql-9", status=2)
    assert "'mysql-9' is not a level" in err
    _, err = call("record", "latest", "--date", "yesterday", status=2)
    assert "'yesterday' is not a date" in err
    _, err = call("forget", "run-x", status=2)
    assert "'run-x'" in err
    for command in ("show", "detect"):
        _, err = call(command, status=2)
        assert "no histories yet" in err
    _, err = call("acknowledge", "abc", "--note", "x", status=2)
    assert "no change point has an id that starts with 'abc'" in err


def test_label_of_another_run_is_refused(call: Call, path: Path) -> None:
    keep(run_of("run-a"), path)
    keep(run_of("run-b", seed=5), path)
    call("record", "run-a")
    _, err = call("record", "run-b", status=2)
    assert f"run run-b was not recorded: version {CANDIDATE} already has" in err
    assert "3 points from run run-a" in err
    assert "history forget run-a" in err
    call("record", "run-b", "--label", "later")


def test_step_is_found_printed_and_stored(call: Call, path: Path) -> None:
    long_history(path)
    out, _ = call("detect")
    assert "60 points in 1 series, 0 breaks" in out
    words = " ".join(out.split())
    assert "v40: 1 of 1 series, −" in words
    assert "? candidate regression" in words
    (found,) = changes(path)
    assert found.label == "v40"
    assert f"`millrace history confirm {found.id}`" in words
    again, _ = call("detect", "--sensitivity", "alert")
    assert "sensitivity alert" in again
    assert changes(path) == [found]


def test_step_at_an_environment_change_is_reported_as_such(call: Call, path: Path) -> None:
    long_history(path, states=True, ratio=1.0)
    out, _ = call("detect")
    assert "1 break" in out
    assert "No level moved." in out
    out, _ = call("show")
    assert "break at v50 (1 series): " in " ".join(out.split())


def test_show_has_the_course_and_every_change(call: Call, path: Path) -> None:
    series = long_history(path)
    out, _ = call("show")
    assert "1 series has new points" in " ".join(out.split())
    call("detect")
    out, _ = call("show", "--series", series.id[:6])
    words = " ".join(out.split())
    assert "? 1 candidate" in words
    assert "new points" not in words
    _, err = call("show", "--series", "nothing", status=2)
    assert "no series has an id that starts with 'nothing'" in err
    assert series.id in err


def test_show_writes_a_page_and_json(call: Call, path: Path, tmp_path: Path) -> None:
    long_history(path)
    call("detect")
    page = tmp_path / "page.html"
    out, err = call("show", "--html", page, "--json")
    assert str(page) in err.replace(" ", "")
    assert "? candidate regression at v40" in page.read_text(encoding="utf-8")
    document = HistoryDocument.model_validate_json(out, strict=True)
    assert [len(each.points) for each in document.series] == [60]
    assert json.loads(out)["groups"][0]["label"] == "v40"
    call("show", "--html", page)
    page.write_text("mine", encoding="utf-8")
    _, err = call("show", "--html", page, status=2)
    assert "choose another file with --html" in " ".join(err.split())
    assert page.read_text(encoding="utf-8") == "mine"


def test_a_change_is_acknowledged_by_id_or_label(
    call: Call, path: Path, found: ChangeRecord
) -> None:
    _, err = call("acknowledge", found.id[:5], "--note", "MDEV-1")
    assert f"acknowledged {found.id} at v40" in err
    assert changes(path) == [replace(found, note="MDEV-1")]
    call("acknowledge", "v40", "--note", "MDEV-2")
    call("detect")
    assert [each.note for each in changes(path)] == ["MDEV-2"]
    assert "acknowledged: MDEV-2" in call("show")[0]
    _, err = call("acknowledge", "v40", "--note", " ", status=2)
    assert "--note is empty" in err


@pytest.fixture
def measuring(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the later build ``ratio`` as fast in the first blocks.

    The first two blocks vary by ``swing``."""
    host = run_of("run-39").run.host
    monkeypatch.setattr(execution, "host_record", lambda: host)
    monkeypatch.setattr(execution, "versions", lambda: {"load_generator": "1", "data": "1"})
    alone(monkeypatch)
    monkeypatch.setattr("millrace.servers.install.find", lambda _name: None)

    def measure(ratio: float, blocks: int = 1000, swing: float = 0.0) -> None:
        def execute_run(
            _stack: object, store: Store, chosen: RunSelection, _caller: object, **_options: Any
        ) -> None:
            begin_run(store, chosen.run, chosen.plan, chosen.extension)
            levels = {each.id: each.levels["server"] for each in chosen.plan.treatments}
            for trial in store.load_run(chosen.run.id).trials:
                claimed = store.claim(trial.id, OWNER, NOW, is_alive=lambda _owner: False)
                if trial.block >= blocks or claimed is None:
                    continue
                noise = 1 + 0.001 * (trial.position * 7 % 5)
                swung = ratio * (1 + {0: swing, 1: -swing}.get(trial.block, 0.0))
                slower = noise / (swung if levels[trial.treatment_id] == THIRD else 1.0)
                values = {"rows": 1000.0, "load_duration_s": slower, "finish_duration_s": 0.0}
                made = tuple(MeasurementRecord(name, value) for name, value in values.items())
                store.finish(claimed, AttemptResult("finished", measurements=made), NOW)
            if blocks < chosen.run.blocks:
                raise Interrupted("interrupted")

        monkeypatch.setattr(confirm, "execute_run", execute_run)

    return measure


def test_a_change_is_confirmed_by_a_measurement_of_its_own(
    call: Call, path: Path, found: ChangeRecord, measuring: Callable[..., None]
) -> None:
    measuring(0.85)
    out, err = call("confirm", found.id)
    assert f"change {found.id} at v40: v40 against v39, 6 blocks" in err
    words = " ".join(out.split())
    assert "▼ confirmed regression at v40" in words
    assert "measured again, v40 against v39, 6 blocks in turns: 0.8" in words
    (fact,) = changes(path)
    assert (fact.id, fact.state) == (found.id, "confirmed")
    with Store.open(path) as store:
        run = store.find_run("latest")
    assert fact.remeasured is not None
    assert (run.id, run.spec.confirms) == (fact.remeasured.run_id, found.id)
    _, err = call("confirm", found.id, status=2)
    assert "is already confirmed" in err
    call("detect")
    assert changes(path) == [fact]
    assert "▼ 1 confirmed" in call("show")[0]


def test_a_change_that_is_not_there_is_withdrawn(
    call: Call, path: Path, found: ChangeRecord, measuring: Callable[..., None]
) -> None:
    measuring(1.0)
    out, _ = call("confirm", found.id)
    assert "✕ withdrawn at v40" in " ".join(out.split())
    (gone,) = changes(path)
    assert gone.state == "withdrawn"
    call("detect")
    assert changes(path) == [gone]


def test_undecided_confirmation_estimates_blocks_and_resumes(
    call: Call, path: Path, found: ChangeRecord, measuring: Callable[..., None]
) -> None:
    measuring(0.965, swing=0.03)
    out, _ = call("confirm", found.id, "--blocks", "3")
    words = " ".join(out.split())
    assert f"{found.id} stays a candidate: " in words
    assert "more would decide: `millrace history confirm" in words
    (still,) = changes(path)
    assert still.state == "candidate"
    call("confirm", found.id, "--blocks", "12")
    (fact,) = changes(path)
    assert fact.state == "confirmed"
    assert still.remeasured is not None
    assert fact.remeasured is not None
    # The same run, with more blocks.
    assert (fact.remeasured.run_id, fact.remeasured.n_blocks) == (still.remeasured.run_id, 12)


def test_a_measurement_that_is_stopped_decides_nothing(
    call: Call, path: Path, found: ChangeRecord, measuring: Callable[..., None]
) -> None:
    measuring(0.85, blocks=2)
    _, err = call("confirm", found.id, status=130)
    assert "the same command resumes" in err
    assert changes(path) == [found]


def test_removed_runs_leave_their_points(call: Call, path: Path) -> None:
    keep(run_of("run-a"), path)
    call("record", "run-a")
    removed = millrace("results", "remove", "run-a", "--yes", "--store", path)
    assert "`millrace history forget run-a`" in " ".join(removed.stderr.split())
    assert CANDIDATE in call("show")[0]
    assert REFERENCE not in call("show")[0]
    call("forget", "run-a")
    _, err = call("show", status=2)
    assert "no histories yet" in err
