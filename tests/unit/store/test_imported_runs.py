"""Test that an imported run cannot change runs that were measured here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.model.host_facts import HostFacts
from millrace.store.records import HostRecord
from millrace.store.store import Store
from tests.support.stored_records import begun

HOST = HostRecord("host", HostFacts())
CALIBRATES = {
    "digest": "d", "name": "study", "factor": "server", "base": "a", "blocks": 10, "margin": 0.02,
}  # fmt: skip
TESTS = {"run": "own", "base": "a", "candidate": "b", "aligned": [], "left_out": []}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


def add(
    store: Store, run_id: str, created_utc: str = "2026-05-01T00:00:00Z", **said: object
) -> None:
    plain = begun().run.spec
    what = begun(run_id, created_utc=created_utc, host=HOST, spec=plain.replace(**said))
    store.begin_run(what.run, what.treatments, what.trials)


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
