"""Provide a store, and an exported file of runs, for each test."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.store.store import Store
from tests.support.stored_records import begin, execute_attempt, histogram, result


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def exported_once(own_places: Path) -> Path:
    """Make a directory with a store of two runs, and the file to which both are exported."""
    place = own_places / "exported"
    place.mkdir()
    with Store.open(place / "source.sqlite") as store:
        for run_id in ("one", "two"):
            what = begin(store, run_id)
            measured = replace(result(log=run_id.encode()), histograms=(histogram(),))
            execute_attempt(store, what.trials[0].id, measured)
        store.export_runs(["one", "two"], place / "runs.zip")
        first = (place / "runs.zip").read_bytes()
        store.export_runs(["one", "two"], place / "runs.zip", replace=True)
        assert (place / "runs.zip").read_bytes() == first, "same runs, same bytes"
    return place


@pytest.fixture
def exported(exported_once: Path, tmp_path: Path) -> Path:
    """Copy the store of two runs, and the file to which they are exported; return the file's."""
    shutil.copytree(exported_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs.zip"
