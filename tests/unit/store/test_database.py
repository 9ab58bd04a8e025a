"""Test opening a store: made, upgraded, or refused with one clear message; never harmed."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from millrace.errors import HostError, MillraceError, UserError
from millrace.store import database, migrations, schema
from millrace.store.store import Store
from tests.support.called import millrace
from tests.support.experiment_files import SHIPPED
from tests.support.ordinary_user import as_ordinary_user
from tests.support.stored_records import (
    LATER,
    NOW,
    OWNER,
    alive,
    begin,
    begun,
    claim,
    execute_attempt,
    result,
)

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Return a directory that an ordinary user can reach (pytest's own are closed to others)."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


@pytest.fixture
def unwritable(reachable: Path) -> Path:
    """Return a filled store that anyone can read, in a directory that nobody may change."""
    path = reachable / "results.sqlite"
    fill(path)
    path.chmod(0o644)
    reachable.chmod(0o555)
    return path


def fill(path: Path, trials: int = 1) -> None:
    with Store.open(path) as store:
        what = begin(store, blocks=trials)
        for trial in what.trials[:trials]:
            execute_attempt(store, trial.id)


def restore(path: Path, revision: str) -> None:
    """Make a store as the millrace of this revision wrote it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / f"{revision}.sql").read_text(encoding="utf-8"))


def refused(path: Path, *, read_only: bool = False) -> MillraceError:
    with pytest.raises(MillraceError) as caught:
        Store.open(path, read_only=read_only)
    assert str(path) in caught.value.message
    return caught.value


def test_a_new_store_has_the_newest_schema_in_a_new_directory(tmp_path: Path) -> None:
    path = tmp_path / "a dir % with #?&" / "results.sqlite"
    fill(path)
    with Store.open(path, read_only=True) as store:
        assert len(store.load_run("study-1").attempts) == 1
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "results.sqlite",
        "results.sqlite.artefacts",
    ]


def test_a_store_that_another_process_is_making_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    written = threading.Timer(0.3, lambda: other.execute("COMMIT"))

    def write_meanwhile(statement: str) -> None:
        if "journal_mode" in statement and written.ident is None:
            other.execute("BEGIN IMMEDIATE")
            written.start()

    def connect(uri: str, *, exclusive: bool) -> sqlite3.Connection:
        connection = real(uri, exclusive=exclusive)
        connection.set_trace_callback(write_meanwhile)
        return connection

    real = database._connect
    with contextlib.closing(other):
        with monkeypatch.context() as patch:
            patch.setattr(database, "_connect", connect)
            Store.open(path).close()
        written.join()
    assert written.finished.is_set()
    with Store.open(path) as store:
        assert store.list_runs() == []


def definitions(path: Path) -> list[str]:
    """Return the tables and indexes of a database, but Alembic's own."""
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'alembic_version'"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return sorted(sql for (sql,) in connection.execute(query))


def test_a_new_store_has_the_tables_of_stores_of_its_revision(path: Path) -> None:
    """Other tables, or other names of constraints, are another revision."""
    Store.open(path).close()
    known = path.with_name("known.sqlite")
    restore(known, schema.HEAD)
    assert definitions(path) == definitions(known)


def test_the_newest_revision_is_the_one_the_code_expects() -> None:
    assert migrations.revisions()[0] == schema.HEAD


@pytest.mark.parametrize("revision", migrations.revisions())
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_every_past_schema_is_upgraded_with_what_it_holds(
    revision: str, read_only: bool, path: Path
) -> None:
    restore(path, revision)
    with Store.open(path, read_only=read_only) as store:
        (summary,) = store.list_runs()
        stored = store.load_run(summary.id)
    assert (summary.finished, summary.open) == (1, 3)
    assert stored.attempts[0].measurements == result().measurements
    assert stored.attempts[0].instances == result().instances
    with create_engine(f"sqlite:///{path}").connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            (schema.HEAD,)
        ]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_a_version_that_is_not_known_is_refused(path: Path, read_only: bool) -> None:
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    error = refused(path, read_only=read_only)
    assert isinstance(error, UserError)
    assert "9999" in error.message
    assert schema.HEAD in error.message
    assert "--store" in (error.hint or "")
    assert path.read_bytes() == before


def test_there_is_none_to_read(path: Path) -> None:
    assert "no results store here" in refused(path, read_only=True).message
    with pytest.raises(UserError, match="no results store here"):
        Store.open(path, create=False)
    assert not path.exists()


@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/null", "pipe"])
def test_a_device_or_a_pipe_is_not_a_store(tmp_path: Path, kind: str) -> None:
    path = Path(kind)
    if kind == "pipe":
        path = tmp_path / "results.sqlite"
        os.mkfifo(path)
    for read_only in (True, False):
        assert "is a device, a pipe or a socket" in refused(path, read_only=read_only).message
    assert list(path.parent.glob("*-journal")) == []


def test_a_directory_is_not_a_store(tmp_path: Path) -> None:
    assert "is a directory" in refused(tmp_path).message


@pytest.mark.parametrize("read_only", [False, True])
def test_other_files_are_refused_and_left_as_they_are(path: Path, read_only: bool) -> None:
    path.write_text("This is a letter, and not a short one either.\n" * 100)
    letter = path.read_bytes()
    assert "is not a results store" in refused(path, read_only=read_only).message
    assert path.read_bytes() == letter

    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("CREATE TABLE runs (id TEXT)")
    database_of_another = path.read_bytes()
    assert "is not a results store" in refused(path, read_only=read_only).message
    assert path.read_bytes() == database_of_another


def test_damaged_store_is_reported_without_traceback(path: Path) -> None:
    fill(path, trials=20)
    content = bytearray(path.read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(UserError, match="is damaged") as caught, Store.open(path) as store:
        store.load_run("study-1")
    assert "sqlite3" in (caught.value.hint or "")


def test_a_read_only_store_is_refused_before_anything_is_measured(reachable: Path) -> None:
    path = reachable / "results.sqlite"
    fill(path)
    path.chmod(0o444)
    with as_ordinary_user():
        error = refused(path)
    assert isinstance(error, UserError)
    assert "read-only" in error.message


def test_a_directory_without_write_permission_can_be_read_but_not_written(unwritable: Path) -> None:
    sub = unwritable.with_name("sub")
    with as_ordinary_user():
        assert "read-only" in refused(unwritable).message
        with Store.open(unwritable, read_only=True) as store:
            assert store.find_run("latest").id == "study-1"
        with pytest.raises(UserError, match=f"{sub}: cannot be written"):
            Store.open(sub / "results.sqlite")


def test_a_place_where_no_file_can_be_made_is_not_a_full_disk() -> None:
    error = refused(Path("/proc/millrace.sqlite"))
    assert isinstance(error, UserError)
    assert "full" not in error.message
    assert "--store" in (error.hint or "")


def test_an_export_without_permission_speaks_of_its_own_option(unwritable: Path) -> None:
    with as_ordinary_user(), Store.open(unwritable, read_only=True) as store:
        with pytest.raises(UserError, match=r"e\.zip: cannot be written") as caught:
            store.export_runs(["study-1"], unwritable.with_name("e.zip"))
        assert "--output PATH" in (caught.value.hint or "")
        assert "--store" not in (caught.value.hint or "")


def test_locked_store_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Store.open(path) as store, pytest.raises(HostError, match="locked") as caught:
            store.claim(begun().trials[1].id, OWNER, NOW, is_alive=alive)
        assert str(path) in caught.value.message
        other.execute("ROLLBACK")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1M,mode=755", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small filesystem needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk_is_reported_and_loses_nothing(small_disk: Path) -> None:
    path = small_disk / "results.sqlite"
    fill(path)
    what = begun()
    with Store.open(path) as store:
        attempt = claim(store, what.trials[1].id)
        before = store.load_run("study-1")
        for log in (os.urandom(2_000_000), b"small"):
            ballast = small_disk / "ballast"
            with contextlib.suppress(OSError):
                ballast.write_bytes(b"\0" * 2_000_000)
            with pytest.raises(HostError, match="the disk is full"):
                store.finish(attempt, result(log=log), LATER)
            ballast.unlink()
            assert store.load_run("study-1") == before
        store.finish(attempt, result(), LATER)  # once there is space again, the result is stored
    with Store.open(path) as store:
        assert store.list_runs()[0].finished == 2


def fill_up(disk: Path) -> None:
    """Leave no byte of space."""
    with contextlib.suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        for piece in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while ballast.write(b"\0" * piece) == piece:
                    pass
    assert shutil.disk_usage(disk).free == 0


@pytest.mark.parametrize("with_log", [False, True])
def test_a_store_on_a_full_disk_is_read_and_its_runs_are_removed(
    small_disk: Path, with_log: bool
) -> None:
    path = small_disk / "results.sqlite"
    fill(path)
    with Store.open(path) as store:
        more = begin(store, "study-2", blocks=1)
        execute_attempt(store, more.trials[0].id, result(log=os.urandom(300_000)))
    if with_log:  # as a killed process leaves it
        left = path.with_name("left")
        left.mkdir()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("UPDATE trials SET position = position + 4")
            connection.commit()
            for name in ("results.sqlite", "results.sqlite-wal"):
                shutil.copy(small_disk / name, left / name)
        for name in ("results.sqlite", "results.sqlite-wal"):
            (left / name).replace(small_disk / name)
    fill_up(small_disk)
    with Store.open(path, read_only=True) as store:
        assert {run.id for run in store.list_runs()} == {"study-1", "study-2"}
        stored = store.load_run("study-2", observations_too=True)
    assert stored.trials[0].position == (4 if with_log else 0)
    assert stored.attempts[0].outcome == "finished"
    shown = millrace("results", "list", "--store", path)
    assert shown.returncode == 0, shown.stderr
    assert "study-2" in shown.stdout
    refused = millrace("run", SHIPPED, "--scale", "smoke", "--store", path)
    assert refused.returncode == 4
    assert "the disk is full" in refused.stderr
    removed = millrace("results", "remove", "study-2", "--yes", "--store", path)
    assert removed.returncode == 0, removed.stderr
    assert shutil.disk_usage(small_disk).free > 200_000
    with Store.open(path) as store:
        assert [run.id for run in store.list_runs()] == ["study-1"]
        assert store.load_run("study-1").attempts[0].outcome == "finished"


def test_removal_on_a_full_disk_suggests_other_files(small_disk: Path) -> None:
    path = small_disk / "results.sqlite"
    with Store.open(path) as store:
        begin(store)
    fill_up(small_disk)
    refused = millrace("results", "remove", "study-1", "--yes", "--store", path)
    assert refused.returncode == 4
    assert "the disk is full" in refused.stderr
    assert "remove other files from that disk" in refused.stderr
    assert "results remove" not in refused.stderr
    (small_disk / "ballast").unlink()
    assert millrace("results", "remove", "study-1", "--yes", "--store", path).returncode == 0
