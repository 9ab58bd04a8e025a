"""Test that no figure or file name of a server makes a stored run unreadable."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace import databases
from millrace.campaign import attempts
from millrace.model.documents import as_lines
from millrace.store.attempt_files import parse_loops
from millrace.store.records import AttemptResult, LoopRecord, MeasurementRecord, StoredAttempt
from millrace.store.store import Store
from millrace.trial import sizes as measured_sizes
from millrace.trial.data_directory import DATABASE
from millrace.trial.sizes import directory_bytes, sizes
from tests.support.stored_records import LATER, NOW, OWNER, alive, begun, result


def stored_and_read(place: Path, ended: AttemptResult) -> StoredAttempt:
    """Store the result of a trial as a run does, and return what a report reads."""
    run = begun()
    with Store.open(place / "results.sqlite") as store:
        store.begin_run(run.run, run.treatments, run.trials)
        attempt = store.claim(run.trials[0].id, OWNER, NOW, is_alive=alive)
        assert attempt is not None
        store.finish(attempt, attempts._readable(ended), LATER)
        (read,) = store.load_run(run.run.id).attempts
    return read


@pytest.mark.parametrize("odd", [1e300, -1e21, 1e-300, 10**400, math.inf, -math.inf, math.nan])
def test_a_figure_that_could_not_be_read_back_fails_the_trial(odd: float, tmp_path: Path) -> None:
    measured = MeasurementRecord("max_lag_s", odd, "replica")
    good = result()
    read = stored_and_read(tmp_path, replace(good, measurements=(*good.measurements, measured)))
    assert (read.outcome, read.failed_step, read.measurements) == ("failed", "measure", ())
    assert read.reason == "max_lag_s of the replica is not a number that can be stored"


def test_tables_may_have_any_name(tmp_path: Path) -> None:
    data = tmp_path / "data" / DATABASE
    data.mkdir(parents=True)
    for name in (*"tµｅ\udcff", "errors_x", "errors_5", "table", "data_dir", "a b", "{code}"):
        (data / f"{name}.ibd").write_bytes(b"x")
    found = sizes(tmp_path / "data", databases.get("mysql").snapshots, rows=5)
    assert "errors_x_files_apparent_bytes" in {each.name for each in found}
    read = stored_and_read(tmp_path, replace(result(), measurements=tuple(found)))
    assert read.outcome == "finished"
    assert len(read.measurements) == len(found)


def test_files_without_blocks_of_any_length_are_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = SimpleNamespace(st_size=2**63 - 1, st_blocks=2**54)
    files = [(tmp_path / DATABASE / f"t{n}.ibd", longest) for n in range(40)]
    monkeypatch.setattr(measured_sizes, "_files", lambda _data_dir: iter(files))
    monkeypatch.setattr(measured_sizes, "close_tree", lambda _data_dir: None)
    found = directory_bytes(tmp_path)
    loop = LoopRecord(
        loop=1,
        transactions=1,
        errors=0,
        duration_s=1.0,
        apparent_bytes=found.apparent,
        allocated_bytes=found.allocated,
    )
    assert parse_loops(as_lines([loop])) == (loop,)
    of_trial = sizes(tmp_path, databases.get("mysql").snapshots, rows=5)
    read = stored_and_read(tmp_path, replace(result(), measurements=tuple(of_trial)))
    assert read.outcome == "finished"
