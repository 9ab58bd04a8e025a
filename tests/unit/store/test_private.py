"""Test that other users can open, and so lock, no file of a results store."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import HostError, UserError
from millrace.store import database
from millrace.store.events import EventLog
from millrace.store.store import Store


@pytest.fixture(autouse=True)
def ordinary_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store with an artefact and an event file."""
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        store.artefacts.keep(b"samples")
        EventLog(store.events_path("run")).close()
    return path


@contextlib.contextmanager
def log_and_index(path: Path) -> Iterator[None]:
    """Yield the write-ahead log and its index, which exist inside the block."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        yield


def modes(path: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}


PRIVATE = {
    "results.sqlite": 0o600,
    "results.sqlite-shm": 0o600,
    "results.sqlite-wal": 0o600,
    "results.sqlite.artefacts": 0o700,
    "results.sqlite.events": 0o700,
}


def test_a_new_store_is_closed_to_others(path: Path) -> None:
    with log_and_index(path):
        assert modes(path) == PRIVATE


def test_a_new_store_behind_a_link_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    path = tmp_path / "there/results.sqlite"
    (tmp_path / "link").symlink_to(path)
    Store.open(tmp_path / "link").close()
    assert modes(path) == {"results.sqlite": 0o600}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_before_is_closed_to_others(path: Path, read_only: bool) -> None:
    path.chmod(0o644)
    with log_and_index(path):
        for each in path.parent.iterdir():
            each.chmod(0o755 if each.is_dir() else 0o644)
        Store.open(path, read_only=read_only).close()
        assert modes(path) == PRIVATE


def test_a_link_in_the_place_of_the_index_is_not_followed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.touch(mode=0o644)
    path.with_name("results.sqlite-journal").symlink_to(victim)
    with contextlib.suppress(HostError):
        Store.open(path).close()
    assert victim.stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("ending", ["", "-wal", "-journal"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_with_a_file_of_another_user_is_refused(
    path: Path, ending: str, read_only: bool
) -> None:
    file = path.with_name(path.name + ending)
    file.touch()
    os.chown(file, 60_950, 60_950)
    with pytest.raises(UserError, match=f"{file}: belongs to uid 60950"):
        Store.open(path, read_only=read_only)


def test_a_lock_of_the_index_is_no_damage(tmp_path: Path) -> None:
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
    with (
        pytest.raises(HostError, match=r"keeps the results store locked \(locking protocol\)"),
        database.user_errors(tmp_path / "results.sqlite"),
    ):
        raise error
