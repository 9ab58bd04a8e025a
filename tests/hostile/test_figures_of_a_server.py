"""Test that no figure, file name or dump of a server makes a run unreadable or takes much room."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace import databases
from millrace.campaign import attempts
from millrace.collect.counting import callgrind
from millrace.errors import TrialFailed
from millrace.model.documents import as_lines
from millrace.model.instruction_counts import CountedStart, Repetition, StoredCounts, stored_counts
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


def dump(*paths: str) -> list[bytes]:
    lines = [line for n, path in enumerate(paths, start=1) for line in (f"fn=({n}) {path}", "0 1")]
    text = "\n".join(["positions: line", "events: Ir", *lines, f"totals: {len(paths)}", ""])
    return text.encode().splitlines(keepends=True)


@pytest.mark.parametrize("functions", [257, 200_000, 1_000_000])
def test_a_path_is_no_deeper_than_callgrinds(functions: int) -> None:
    with pytest.raises(ValueError, match="more functions than any server's"):
        callgrind.parse(dump("'" * (functions - 1)))


def test_all_paths_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "_MOST_OF_PATHS", 500)
    assert callgrind.parse(dump("'".join("abc" * 80), "'".join("cba" * 80))).total == 2
    with pytest.raises(ValueError, match="more functions than any server's"):
        callgrind.parse(dump("'".join("abc" * 80), "'".join("cba" * 80), "'".join("bca" * 80)))


def test_all_dumps_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(dump("free'main"))
    place = tmp_path / "tmp"
    place.mkdir()
    for thread in range(1, 6):
        (place / f"callgrind.out.1-{thread:02}").write_bytes(content)
    assert len(callgrind.read_dumps(place)[1]) == 5
    monkeypatch.setattr(callgrind, "_MOST_BYTES", 3 * len(content))
    with pytest.raises(TrialFailed, match=r"out\.1-04, .*all files so far have"):
        callgrind.read_dumps(place)


def test_paths_share_their_callers_as_they_are_stored() -> None:
    paths = {("main", "send"): 2.0, ("main",): 1.0, ("main", "send", "copy"): 4.0, ("idle",): 8.0}
    start = CountedStart(
        1, (Repetition(instructions=15.0, background=0.0),), paths, {"copy": "libc.so"}
    )
    kept = StoredCounts.model_validate(stored_counts(start, None, "3.24"))
    assert kept.callers == (-1, 0, 1, -1)
    assert (kept.start().paths, kept.start().files) == (paths, {"copy": "libc.so"})
