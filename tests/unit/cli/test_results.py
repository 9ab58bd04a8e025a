"""Test `millrace results` as a user calls it: stdout, stderr, and the exit status."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.campaign import run_records
from millrace.servers.snapshots.kept_data import KeptData
from millrace.store.store import Store
from tests.support.called import millrace
from tests.support.hdr import FINE, encoded
from tests.support.stored_records import LATER, NOW, alive, begun, failed, histogram, result


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with two runs: one finished trial and one failed one, and one with none."""
    path = tmp_path / "results.sqlite"
    owner = run_records.this_process("host")
    with Store.open(path) as opened:
        what = begun("study-a1", created_utc="2026-05-01T00:00:00Z")
        opened.begin_run(what.run, what.treatments, what.trials)
        finished = replace(result(), histograms=(histogram(),))
        for trial, ended in zip(what.trials, [finished, failed()], strict=False):
            attempt = opened.claim(trial.id, owner, NOW, is_alive=alive)
            assert attempt is not None
            opened.finish(attempt, ended, LATER)
        other = begun("study-b2", created_utc="2026-05-02T00:00:00Z")
        opened.begin_run(other.run, other.treatments, other.trials)
    return path


def results(
    *arguments: str | Path, store: Path, status: int = 0, answer: str = ""
) -> tuple[str, str]:
    """Call the command and return (stdout, stderr)."""
    done = millrace("results", *arguments, "--store", store, answer=answer, status=status)
    return done.stdout, done.stderr


def test_list_shows_the_newest_first(store: Path) -> None:
    out, err = results("list", store=store)
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "id name scale created origin host finished failed open",
        "study-b2 study smoke 2026-05-02T00:00:00Z local host 0 0 4",
        "study-a1 study smoke 2026-05-01T00:00:00Z local host 1 1 2",
    ]
    assert err == ""
    runs = json.loads(results("list", "--json", store=store)[0])
    assert [(run["id"], run["failed"]) for run in runs] == [("study-b2", 0), ("study-a1", 1)]


def test_show_has_steps_measurements_and_the_reason_of_a_failure(store: Path) -> None:
    out, _ = results("show", "study-a", store=store)
    lines = [line.strip() for line in out.splitlines()]
    assert "1 block 1  a  finished" in lines
    assert "steps: start 1.25 s" in lines
    assert "server: load_duration_s 3.5, rows 20,000" in lines
    assert "point-query, service time: 20,000 in 0.075 ms on average" in lines  # unreadable
    assert "2 block 1  b  failed" in lines
    assert "3 block 2  a  open" in lines
    failure = lines.index("failed: trial study-a1/0-t-b, attempt 1, step start")
    assert lines[failure + 1 : failure + 3] == ["it crashed", "| signal 11"]


def test_show_has_the_percentiles_of_each_operation(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    values = [1_000_000] * 97 + [5_000_000] * 2 + [90_000_000]
    known = replace(histogram("add"), encoded=encoded(values, FINE), count=100, sum_s=0.197)
    with Store.open(path) as store:
        what = begun("study-a1")
        store.begin_run(what.run, what.treatments, what.trials)
        owner = run_records.this_process("host")
        attempt = store.claim(what.trials[0].id, owner, NOW, is_alive=alive)
        assert attempt is not None
        store.finish(attempt, replace(result(), histograms=(known,)), LATER)
    out, _ = results("show", "study-a1", store=path)
    (line,) = [line.strip() for line in out.splitlines() if "service time" in line]
    assert line == (
        "add, service time: 100 in 1.97 ms on average, p50 1 ms, p95 1 ms, p99 5 ms, max 90 ms"
    )


def test_show_as_json_is_everything(store: Path) -> None:
    shown = json.loads(results("show", "study-a1", "--json", store=store)[0])
    assert shown["attempts"][0]["instances"][0]["effective"]["port"] == "3306"
    assert shown["attempts"][1]["reason"] == "it crashed"


def test_mistakes_end_with_status_2_and_what_there_is(store: Path, tmp_path: Path) -> None:
    _, err = results("show", "study", store=store, status=2)
    assert "2 runs have an id that starts with 'study'" in err
    assert "study-b2" in err
    _, err = results("show", "nothing", store=store, status=2)
    assert "study-a1" in err
    _, err = results("list", store=tmp_path / "none.sqlite", status=2)
    assert "no results store here" in err
    assert not (tmp_path / "none.sqlite").exists()


def test_runs_move_to_another_store_and_are_not_added_twice(store: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "runs.zip", tmp_path / "other.sqlite"
    _, err = results("export", "study-a", "latest", "--output", file, store=store)
    assert f"wrote 2 runs to {file}" in err
    _, err = results("import", file, store=other)
    assert "added run study-a1" in err
    assert "added run study-b2" in err
    _, err = results("import", file, store=other)
    assert "run study-a1 is in the store already: skipped" in err
    with Store.open(store) as one, Store.open(other) as two:
        moved, original = two.load_run("study-a1"), one.load_run("study-a1")
    assert replace(moved, attempts=()) == replace(original, attempts=())
    assert [a.measurements for a in moved.attempts] == [a.measurements for a in original.attempts]


def test_an_export_is_replaced_only_with_force(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.zip"
    file.write_text("precious")
    _, err = results("export", "latest", "--output", file, store=store, status=2)
    assert "the file exists" in err
    _, err = results("export", "latest", "--output", file, "--force", store=store, status=2)
    assert "which is not a results file that millrace wrote" in err
    assert file.read_text() == "precious"
    file.unlink()
    results("export", "study-a", "--output", file, store=store)
    first = file.read_bytes()
    _, err = results("export", "study-b", "--output", file, store=store, status=2)
    assert "the file exists" in err
    results("export", "study-b", "--output", file, "--force", store=store)
    assert file.read_bytes() != first
    results("import", file, store=tmp_path / "other.sqlite")


@pytest.mark.parametrize("kind", ["date", "method", "number"])
def test_force_replaces_no_zip_of_others_with_a_name_like_ours(
    store: Path, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "runs.zip"
    name = "runs/0002.json" if kind == "number" else "runs/0001.json"
    date = (2026, 1, 2, 3, 4, 6) if kind == "date" else (1980, 1, 1, 0, 0, 0)
    method = zipfile.ZIP_STORED if kind == "method" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name, date), "precious", compress_type=method)
    before = file.read_bytes()
    _, err = results("export", "latest", "--output", file, "--force", store=store, status=2)
    assert "which is not a results file that millrace wrote" in err
    assert file.read_bytes() == before


@pytest.mark.parametrize("kind", ["pipe", "directory", "zip of others", "missing directory"])
def test_an_export_goes_into_a_file_of_its_own(store: Path, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "runs.zip"
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "directory":
            place.mkdir()
        case "zip of others":
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("salaries.csv", "precious")
        case _:
            place = tmp_path / "missing" / "runs.zip"
    results("export", "latest", "--output", place, "--force", store=store, status=2)
    if kind == "zip of others":
        with zipfile.ZipFile(place) as archive:
            assert archive.namelist() == ["salaries.csv"]


def test_an_import_of_something_else_is_a_mistake(store: Path) -> None:
    _, err = results("import", __file__, store=store, status=2)
    assert "is not a results file of millrace" in err


def test_remove_prompts_and_removes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results("remove", "study-a", store=store, answer="n\n", status=130)
    _, err = results("remove", "study-a", store=store, status=2)
    assert "standard input ended before an answer" in err
    assert "with --yes" in err
    assert len(results("list", store=store)[0].splitlines()) == 3
    out, err = results("remove", "study-a", store=store, answer="y\n")
    assert out == ""
    assert "study-a1" in err
    assert "report" not in err
    report = store.parent / "reports" / "study-b2.html"
    report.parent.mkdir()
    report.write_text("<html>")
    monkeypatch.setenv("MILLRACE_WORK", str(store.parent / "work"))
    kept = KeptData.of("study-b2/trial")
    kept.data.mkdir(parents=True)
    _, err = results("remove", "study-b2", "--yes", store=store)
    assert not kept.directory.exists()
    assert f"removed the report {report}" in err
    assert not report.exists()
    out, err = results("list", store=store)
    assert out == ""
    assert "no runs yet" in err


def test_remove_leaves_a_run_that_is_being_measured(store: Path) -> None:
    with Store.open(store) as opened:
        trial = begun("study-b2").trials[0].id
        owner = run_records.this_process("host")
        assert opened.claim(trial, owner, NOW, is_alive=run_records.is_alive) is not None
    _, err = results("remove", "study-b2", "--yes", store=store, status=2)
    assert "is being measured by process" in err
    assert "study-b2" in results("list", store=store)[0]
