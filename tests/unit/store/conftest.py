"""Provide a store, and an exported file of runs, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.store.store import Store
from tests.unit.store.stored_records import LATER, NOW, OWNER, alive, begun, histogram, result


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Export two runs to a file."""
    with Store.open(tmp_path / "source.sqlite") as store:
        for run_id in ("one", "two"):
            what = begun(run_id)
            store.begin_run(what.run, what.treatments, what.trials)
            attempt = store.claim(what.trials[0].id, OWNER, NOW, is_alive=alive)
            assert attempt is not None
            measured = replace(result(log=run_id.encode()), histograms=(histogram(),))
            store.finish(attempt, measured, LATER)
        store.export_runs(["one", "two"], tmp_path / "runs.zip")
        first = (tmp_path / "runs.zip").read_bytes()
        store.export_runs(["one", "two"], tmp_path / "runs.zip", replace=True)
        assert (tmp_path / "runs.zip").read_bytes() == first, "same runs, same bytes"
    return tmp_path / "runs.zip"
