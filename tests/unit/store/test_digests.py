"""Test that a stored result that was changed is noticed, reported, and not used."""

import contextlib
import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.errors import MillraceError, UserError
from millrace.store.records import MeasurementRecord
from millrace.store.store import Store
from tests.support.called import millrace
from tests.support.stored_records import (
    LATER,
    NOW,
    OTHER_OWNER,
    begin,
    claim,
    dead,
    execute_attempt,
    failed,
    result,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store of a finished run of three blocks, in which b is slower than a."""
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        for trial in begin(store, blocks=3).trials:
            figures = {"load_duration_s": 4.0 if trial.treatment_id == "t-b" else 2.0, "rows": 1e4}
            measured = tuple(MeasurementRecord(*each) for each in figures.items())
            execute_attempt(store, trial.id, replace(result(), measurements=measured))
    return path


def outcomes(path: Path) -> list[str | None]:
    with Store.open(path, read_only=True) as store:
        return [attempt.outcome for attempt in store.load_run("study-1").attempts]


def execute(path: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        assert connection.execute(sql).rowcount > 0


def test_a_run_whose_rows_are_intact_is_read_as_it_was_written(path: Path) -> None:
    assert outcomes(path) == ["finished"] * 6


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE measurements SET value = 3.9 WHERE attempt_id = 2 AND name = 'load_duration_s'",
        "UPDATE measurements SET name = 'load_durbtion_s' WHERE attempt_id = 2 AND position = 0",
        "DELETE FROM measurements WHERE attempt_id = 2 AND position = 1",
        "UPDATE attempts SET reason = 'x' WHERE id = 2",
        "UPDATE attempts SET sha256 = 'x' WHERE id = 2",
        "UPDATE attempts SET sha256 = NULL WHERE id = 2",
        "UPDATE steps SET duration_s = 1.5 WHERE attempt_id = 2",
        "UPDATE instances SET configuration = 'wmg' WHERE attempt_id = 2",
        "UPDATE instances SET facts = '{' WHERE attempt_id = 2",
        "UPDATE attempt_artefacts SET size_bytes = 23 WHERE attempt_id = 2",
        "UPDATE attempt_artefacts SET sha256 = 'f' || substr(sha256, 2) WHERE attempt_id = 2",
    ],
)
def test_an_attempt_with_a_changed_row_has_failed_and_the_others_count(
    path: Path, change: str
) -> None:
    execute(path, change)
    with Store.open(path, read_only=True) as store:
        stored = store.load_run("study-1", observations_too=True)
    (changed,) = (attempt for attempt in stored.attempts if attempt.outcome != "finished")
    assert (changed.trial_id, changed.outcome) == ("study-1/0-t-b", "failed")
    assert "were changed after they were written" in (changed.reason or "")
    assert changed.measurements == ()
    shown = millrace("results", "show", "study-1", "--store", path)
    assert shown.returncode == 0
    assert "were changed after they were written" in shown.stdout
    (comparison,) = compare_run(stored).groups[0].comparisons
    assert (comparison.n_blocks, comparison.candidate_failed) == (2, 1)


def test_what_attempts_share_is_covered(path: Path) -> None:
    for change, n_changed in (
        ("UPDATE variable_sets SET variables = replace(variables, '134217728', '134217720')", 6),
        ("UPDATE servers SET version_reported = '5.7.23-log'", 6),
        ("""UPDATE treatments SET levels = '{"server":"c"}' WHERE id = 't-b'""", 3),
        ("UPDATE trials SET block = 2 - block WHERE treatment_id = 't-a' AND block <> 1", 2),
    ):
        before = path.read_bytes()
        execute(path, change)
        with contextlib.suppress(UserError):  # parts that contradict each other
            assert outcomes(path).count("failed") == n_changed, change
        path.write_bytes(before)
    assert outcomes(path) == ["finished"] * 6


@pytest.mark.parametrize(
    "change",
    [
        "margin = 0.03",
        "seed = 8",
        "blocks = 2",
        "imported_utc = NULL, title = 'B study'",
        "margin = 0.03, sha256 = NULL",
    ],
)
def test_a_run_with_a_changed_row_is_not_read(path: Path, change: str) -> None:
    execute(path, f"UPDATE runs SET {change}")
    for command in (("report", "study-1"), ("results", "show", "latest")):
        done = millrace(*command, "--store", path)
        assert done.returncode == 2
        assert "its row was changed after it was written" in done.stderr


def test_no_bit_of_a_store_changes_a_result_unnoticed(path: Path, tmp_path: Path) -> None:
    """Flip bits anywhere: the measurements are as before, or their attempts are left out."""
    with Store.open(path, read_only=True) as store:
        before = store.load_run("study-1")
    known = {attempt.trial_id: attempt for attempt in before.attempts}
    chance = random.Random(38)
    content = path.read_bytes()
    seen = set()
    for number in range(150):
        damaged = bytearray(content)
        damaged[chance.randrange(100, len(content))] ^= 1 << chance.randrange(8)
        copy = tmp_path / f"{number}.sqlite"
        copy.write_bytes(damaged)
        try:
            with Store.open(copy, read_only=True) as store:
                after = store.load_run("study-1")
        except MillraceError:
            seen.add("refused")
            continue
        assert replace(after, attempts=(), trials=()) == replace(before, attempts=(), trials=())
        for attempt in after.attempts:
            was = known[attempt.trial_id]
            if attempt.outcome == "finished":
                assert attempt.measurements == was.measurements
                assert attempt.instances == was.instances
            else:
                seen.add("failed")
    assert seen


def test_an_import_and_a_dead_attempt_have_digests_of_their_own(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        first, _ = begin(store, "study-2", blocks=1).trials
        claim(store, first.id)
        again = store.claim(first.id, OTHER_OWNER, NOW, is_alive=dead)
        assert again is not None
        store.finish(again, failed(), LATER)
        store.delete_unstarted_blocks("study-2")
        store.export_runs(["study-1", "study-2"], tmp_path / "runs.zip")
    other = tmp_path / "other.sqlite"
    with Store.open(other) as store:
        kept = begin(store, "study-0", blocks=1)  # so that the imported attempts get other ids
        claim(store, kept.trials[0].id)
        store.import_file(tmp_path / "runs.zip")
    assert outcomes(other) == ["finished"] * 6
    with contextlib.closing(sqlite3.connect(other)) as connection:
        signed = connection.execute("SELECT outcome, sha256 IS NOT NULL FROM attempts").fetchall()
    assert set(signed) == {(None, 0), ("finished", 1), ("interrupted", 1), ("failed", 1)}
    execute(other, "UPDATE measurements SET value = 3.9 WHERE value = 4.0")
    assert outcomes(other).count("failed") == 3
