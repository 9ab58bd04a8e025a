"""Test that imports and exports leave all, or nothing, and change no run that was measured here."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import UserError
from millrace.model.host_facts import HostFacts
from millrace.store.artefacts import Artefacts
from millrace.store.records import HostRecord
from millrace.store.store import Store
from tests.support.stored_records import CALIBRATES, begin, begun, execute_attempt, result
from tests.unit.store.test_archive import refused_unchanged


def test_missing_file_is_reported(tmp_path: Path) -> None:
    refused_unchanged(tmp_path / "none.zip", tmp_path, "no such file")


def test_a_directory_is_no_file_of_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    refused_unchanged(tmp_path / "runs", tmp_path, r"runs: is a directory, not a results file")


def test_export_replaces_only_with_force(exported: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.zip"
    there.write_text("precious")
    (tmp_path / "dangling.zip").symlink_to(tmp_path / "nothing")
    with Store.open(tmp_path / "source.sqlite", read_only=True) as store:
        for path in (there, tmp_path / "dangling.zip"):
            with pytest.raises(UserError, match="the file exists; nothing was written") as caught:
                store.export_runs(["one"], path)
            assert "--force" in (caught.value.hint or "")
        with pytest.raises(UserError, match="is not a results file that millrace wrote"):
            store.export_runs(["one", "two"], there, replace=True)
        assert there.read_text() == "precious"
        there.unlink()
        store.export_runs(["one"], there)
        store.export_runs(["one", "two"], there, replace=True)
    assert there.read_bytes() == exported.read_bytes()


def test_runs_that_are_there_are_passed_over(exported: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "target.sqlite") as store:
        begin(store, "two", title="Mine")
        imported = store.import_file(exported)
        assert (imported.added, imported.present) == (("one",), ("two",))
        assert store.load_run("two").run.title == "Mine"
        assert store.import_file(exported).added == ()


def test_a_trial_of_another_run_under_the_same_id_is_refused(
    exported: Path, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "target.sqlite") as store:
        what = begun("one")
        other = begun("other")
        store.begin_run(other.run, other.treatments, what.trials)
        with pytest.raises(UserError, match=r"trial one/0-t-a .* another run"):
            store.import_file(exported)
        assert [run.id for run in store.list_runs()] == ["other"]


def test_an_export_that_cannot_be_written_leaves_nothing(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with Store.open(tmp_path / "source.sqlite", read_only=True) as store:
        with pytest.raises(UserError, match="has no run three"):
            store.export_runs(["one", "three"], tmp_path / "more.zip")
        with pytest.raises(Exception, match="cannot write the results file"):
            store.export_runs(["one"], tmp_path / "file" / "more.zip")
    assert not list(tmp_path.glob("*more*"))


def test_an_import_that_fails_while_it_writes_leaves_nothing(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then all files are in place, and all rows but the last are inserted."""
    with Store.open(tmp_path / "target.sqlite") as store:
        kept = begin(store, "mine")
        # The export has its files too.
        execute_attempt(store, kept.trials[0].id, result(log=b"one"))
        before = sorted(path for path in tmp_path.rglob("*") if path.is_file())

        def interrupted(self: Artefacts, *arguments: Any) -> None:
            adopt(self, *arguments)
            raise KeyboardInterrupt

        adopt = Artefacts.adopt
        monkeypatch.setattr(Artefacts, "adopt", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.import_file(exported)
        monkeypatch.undo()
        assert [run.id for run in store.list_runs()] == ["mine"]
        assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
        assert store.import_file(exported).added == ("one", "two")


def test_what_a_killed_import_left_is_removed_by_the_next_command(
    exported: Path, tmp_path: Path
) -> None:
    path = tmp_path / "target.sqlite"
    child = os.fork()
    if child == 0:
        Artefacts.adopt = dying_after(Artefacts.adopt)  # type: ignore[method-assign]
        with Store.open(path) as store:
            store.import_file(exported)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    left = [file for file in (tmp_path / "target.sqlite.artefacts").rglob("*") if file.is_file()]
    assert len(left) >= 3
    with Store.open(path) as store:
        assert not (tmp_path / "target.sqlite.artefacts").exists()
        assert store.list_runs() == []
        assert store.import_file(exported).added == ("one", "two")
        assert store.load_run("one").attempts[0].histograms


def dying_after(adopt: Callable[..., None]) -> Callable[..., None]:
    def dying(*arguments: Any) -> None:
        adopt(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return dying


HOST = HostRecord("host", HostFacts())
TESTS = {"run": "own", "base": "a", "candidate": "b", "aligned": [], "left_out": []}


def add(
    store: Store, run_id: str, created_utc: str = "2026-05-01T00:00:00Z", **said: object
) -> None:
    plain = begun().run.spec
    what = begun(run_id, created_utc=created_utc, host=HOST, spec=plain.replace(**said))
    begin(store, what)


def bring(store: Store, tmp_path: Path, *runs: str) -> None:
    """Import these runs from another store."""
    with Store.open(tmp_path / "other.sqlite") as other:
        add(other, "their-calibration", calibrates=CALIBRATES)
        add(other, "their-test", tested=TESTS)
        add(other, "their-run")
        other.export_runs(runs, tmp_path / "runs.zip")
    store.import_file(tmp_path / "runs.zip")


def test_it_neither_calibrates_this_host_nor_tests_suspects_of_an_own_run(
    store: Store, tmp_path: Path
) -> None:
    add(store, "own")
    add(store, "own-calibration", calibrates=CALIBRATES)
    add(store, "own-test", tested=TESTS)
    bring(store, tmp_path, "their-calibration", "their-test", "their-run")
    own, theirs = store.find_run("own"), store.find_run("their-run")
    assert [run.id for run in store.calibrations_of(own)] == ["own-calibration"]
    assert [run.id for run in store.ablations_of("own")] == ["own-test"]
    found = {run.id for run in store.calibrations_of(theirs)}
    assert found == {"own-calibration", "their-calibration"}


def test_its_own_kin_are_found_for_an_imported_run(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "source.sqlite") as source:
        add(source, "own")
        add(source, "own-test", tested=TESTS)
        source.export_runs(["own", "own-test"], tmp_path / "kin.zip")
    store.import_file(tmp_path / "kin.zip")
    assert [run.id for run in store.ablations_of("own")] == ["own-test"]


def test_a_run_of_the_future_would_stay_the_latest_and_is_refused(
    store: Store, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "other.sqlite") as other:
        add(other, "always-latest", created_utc="9999-12-31T23:59:59Z")
        other.export_runs(["always-latest"], tmp_path / "runs.zip")
    with pytest.raises(UserError, match="created_utc is in the future"):
        store.import_file(tmp_path / "runs.zip")
    assert store.list_runs() == []
