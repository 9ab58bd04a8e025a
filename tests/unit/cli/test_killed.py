"""Test commands killed before one of their writes: files and rows are the old or the new."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from millrace.cli import history, report, results
from millrace.store.records import NewArtefact
from millrace.store.store import Store
from tests import killed
from tests.support.builders import keep
from tests.support.history_points import run_of
from tests.support.stored_records import LATER, NOW, OWNER, alive, begun, histogram, result

pytestmark = pytest.mark.skipif(killed.untraceable() is not None, reason=str(killed.untraceable()))

WARM = (history, report, results)  # imported once here, rather than in each process
DRAWN, LAST = 4, 4
"""Writes before which a command is killed: some drawn at random, and all of the last ones, among
which a finished file takes its place."""


@dataclass(frozen=True)
class Prepared:
    """A directory with the inputs of a command; each kill has one of its own."""

    directory: Path

    @property
    def store(self) -> Path:
        return self.directory / "results.sqlite"

    @property
    def output(self) -> Path:
        return self.directory / "out" / "file"

    def copy(self, directory: Path) -> Prepared:
        shutil.copytree(self.directory, directory)
        return Prepared(directory)

    def run(self, *arguments: str | Path, kill_before: int | None = None) -> int:
        command = [*map(str, arguments), "--store", str(self.store)]
        return killed.run(*command, kill_before=kill_before)

    def files(self) -> set[str]:
        """Return every file except the store's write-ahead log, which SQLite itself removes."""
        found = {
            str(path.relative_to(self.directory))
            for path in self.directory.rglob("*")
            if not path.is_dir()
        }
        return found - {"results.sqlite-wal", "results.sqlite-shm"}


Prepare = Callable[[], Prepared]


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Return a function that makes a directory with a store of two runs, one with files."""
    pattern = Prepared(tmp_path / "pattern")
    pattern.output.parent.mkdir(parents=True)
    keep_files("with-files", pattern.store)
    keep(run_of("run-a"), pattern.store)
    numbers = count()

    def prepared() -> Prepared:
        return pattern.copy(tmp_path / str(next(numbers)))

    return prepared


def keep_files(run_id: str, path: Path) -> None:
    """Store a run whose only attempt has files."""
    what = begun(run_id, created_utc="2025-01-01T00:00:00Z")
    files = tuple(
        NewArtefact("error_log", f"server-{n}", f"{run_id} {n}".encode()) for n in range(4)
    )
    with Store.open(path) as store:
        store.begin_run(what.run, what.treatments, what.trials)
        attempt = store.claim(what.trials[0].id, OWNER, NOW, is_alive=alive)
        assert attempt is not None
        ended = replace(result(), histograms=(histogram(),), artefacts=files)
        store.finish(attempt, ended, LATER)


def places(writes: int) -> list[int]:
    """Return the writes before which a command with this number of them is killed."""
    earlier = range(1, writes - LAST + 1)
    drawn = random.Random(writes).sample(earlier, min(DRAWN, len(earlier)))
    return sorted([*drawn, *range(len(earlier) + 1, writes + 1)])


def check_store(path: Path) -> None:
    """Check the store as the kill left it, then as millrace reads it."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with Store.open(path) as store:
        for run in store.list_runs():
            loaded = store.load_run(run.id)
            for attempt in loaded.attempts:
                for artefact in attempt.artefacts:
                    store.artefacts.read(artefact.sha256)


def test_a_killed_report_leaves_the_earlier_one_or_the_new_one(prepare: Prepare) -> None:
    first = prepare()
    command = ("report", "run-a", "--format", "html")
    writes = first.run(*command)
    page = first.store.parent / "reports" / "run-a.html"
    whole = page.read_bytes()
    assert whole.rstrip().endswith(b"</html>")
    for place in places(writes):
        here = prepare()
        page = here.store.parent / "reports" / "run-a.html"
        page.parent.mkdir()
        page.write_bytes(b"earlier")
        files = here.files()
        here.run(*command, kill_before=place)
        left = page.read_bytes()
        assert left in (b"earlier", whole), place
        check_store(here.store)
        here.run(*command)
        assert here.files() == files, place


def test_a_killed_export_leaves_the_earlier_file_or_the_new_one(prepare: Prepare) -> None:
    first = prepare()
    runs = ("with-files", "run-a")
    writes = first.run("results", "export", *runs, "--output", first.output)
    first.run("results", "export", "run-a", "--output", first.output, "--force")
    earlier = first.output.read_bytes()
    for place in places(writes):
        here = prepare()
        here.output.write_bytes(earlier)
        files = here.files()
        command = ("results", "export", *runs, "--output", here.output, "--force")
        here.run(*command, kill_before=place)
        if here.output.read_bytes() != earlier:
            with Store.open(here.directory / "other.sqlite") as other:
                assert set(other.import_file(here.output).added) == set(runs)
            check_store(here.directory / "other.sqlite")
        check_store(here.store)
        here.run(*command)
        left = {name for name in here.files() if not name.startswith("other.sqlite")}
        assert left == files, place


def test_a_killed_import_adds_everything_or_nothing(prepare: Prepare, tmp_path: Path) -> None:
    source, archive = tmp_path / "source.sqlite", tmp_path / "source.zip"
    for run_id in ("new-1", "new-2"):
        keep_files(run_id, source)
    with Store.open(source, read_only=True) as store:
        store.export_runs(["new-1", "new-2"], archive)
    first = prepare()
    writes = first.run("results", "import", archive)
    complete = first.files()
    for place in places(writes):
        here = prepare()
        files = here.files()
        here.run("results", "import", archive, kill_before=place)
        check_store(here.store)
        with Store.open(here.store) as store:
            new = {run.id for run in store.list_runs()} - {"with-files", "run-a"}
        assert new in (set(), {"new-1", "new-2"}), place
        assert here.files() == (complete if new else files), place
        here.run("results", "import", archive)
        check_store(here.store)
        assert here.files() == complete, place


def test_a_killed_record_leaves_a_history_with_or_without_the_point(
    prepare: Prepare, tmp_path: Path
) -> None:
    pattern = prepare()
    keep(run_of("run-b", seed=2, created_utc="2026-01-06T09:59:00Z"), pattern.store)
    pattern.run("history", "record", "run-a", "--label", "v1")

    def labels(of: Prepared) -> set[tuple[str, ...]]:
        with Store.open(of.store) as store:
            histories = list(store.histories.read())
        assert len(histories) == 3
        return {tuple(point.label for point in each.points) for each in histories}

    command = ("history", "record", "run-b", "--label", "v2")
    first = pattern.copy(tmp_path / "first")
    writes = first.run(*command)
    for place in places(writes):
        here = pattern.copy(tmp_path / f"record-{place}")
        here.run(*command, kill_before=place)
        check_store(here.store)
        assert labels(here) in ({("v1",)}, {("v1", "v2")}), place
        here.run(*command)
        assert labels(here) == {("v1", "v2")}, place
        assert here.files() == first.files(), place
