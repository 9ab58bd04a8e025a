"""Test stores that were damaged in many ways.

Every command shows the remaining data, or ends with a status that says whose error it is, and never
with a traceback.
"""

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace.analysis.history.recording import points_of
from millrace.errors import UserError
from millrace.store import schema
from millrace.store.store import Store
from tests.support.called import call
from tests.support.explained import study_run
from tests.support.history_points import run_of
from tests.support.observed_store import keep

Damage = Callable[[Path, random.Random], None]

# Values that SQLite allows in any column.
CELLS = (
    None, -1, 0, 2**63 - 1, 1.5, -1e300, "", "x", "NaN", "{", "[]", "{}", "[" * 100_000,
    '{"x":1e999}', '"x"', "null", b"\xff\xfe", b"", "2026-99-99T00:00:00Z",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(own_places: Path) -> Path:
    """Return a store of a run in which everything was observed, and of one in a history."""
    path = own_places / "whole" / "results.sqlite"
    keep(study_run(profiled=1), path)
    keep(run_of("recorded"), path)
    with Store.open(path) as store:
        found = store.load_run("recorded")
        part = points_of(found, reference=None, label="v1", at_utc="2026-01-01T00:00:00Z").part
        store.histories.record(part)
    return path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store to damage it, without the checks that it makes of itself."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection


def column_of(chance: random.Random) -> tuple[str, str]:
    """Return the names of a table and of a column of it."""
    table = chance.choice([*schema.metadata.tables.values()])
    return table.name, chance.choice([*table.columns]).name


def overwrite(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 40)):
        at = chance.randrange(len(content))
        content[at : at + 16] = chance.randbytes(16)
    path.write_bytes(content)


def cut_short(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def change_a_cell(path: Path, chance: random.Random) -> None:
    table, column = column_of(chance)
    with writing(path) as connection, contextlib.suppress(sqlite3.IntegrityError):
        connection.execute(f"UPDATE {table} SET {column} = ?", [chance.choice(CELLS)])


def drop_a_table(path: Path, chance: random.Random) -> None:
    with writing(path) as connection:
        connection.execute(f"DROP TABLE {chance.choice([*schema.metadata.tables])}")


def empty_a_table(path: Path, chance: random.Random) -> None:
    with writing(path) as connection:
        connection.execute(f"DELETE FROM {chance.choice([*schema.metadata.tables])}")


def drop_a_column(path: Path, chance: random.Random) -> None:
    table, column = column_of(chance)
    with writing(path) as connection, contextlib.suppress(sqlite3.OperationalError):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")


def leave_a_foreign_log(path: Path, chance: random.Random) -> None:
    path.with_name(path.name + "-wal").write_bytes(chance.randbytes(40_000))
    path.with_name(path.name + "-shm").write_bytes(chance.randbytes(32_768))


def damage_a_log(path: Path, chance: random.Random) -> None:
    """Return a store whose last transaction is in its log, and damage the log."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        with connection:
            connection.execute("UPDATE runs SET title = 'x'")
        log = path.with_name(path.name + "-wal").read_bytes()
        shutil.copyfile(path, path.with_name("copy"))
    path.unlink()
    path.with_name("copy").rename(path)
    content = bytearray(log)
    content[chance.randrange(len(content))] ^= 0xFF
    path.with_name(path.name + "-wal").write_bytes(content)


def replace_by_a_directory(path: Path, _chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def replace_by_another_database(path: Path, _chance: random.Random) -> None:
    path.unlink()
    with writing(path) as connection:
        connection.execute("CREATE TABLE runs (id TEXT)")


def write_another_revision(path: Path, chance: random.Random) -> None:
    revision = chance.choice(["9999", "", "x", "0001"])
    with writing(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])


DAMAGES: tuple[tuple[Damage, int], ...] = (
    (overwrite, 6), (cut_short, 3), (change_a_cell, 12), (drop_a_table, 4), (empty_a_table, 3),
    (drop_a_column, 3), (leave_a_foreign_log, 2), (damage_a_log, 3), (replace_by_a_directory, 1),
    (replace_by_another_database, 1), (write_another_revision, 3),
)  # fmt: skip

COMMANDS = (
    ("results", "list"),
    ("results", "show", "recorded"),
    ("report", "recorded", "--format", "json"),
    ("history", "show"),
    ("history", "detect"),
    ("explain", "sysbench"),
)


@pytest.mark.parametrize("damage", [each for each, _ in DAMAGES], ids=lambda each: each.__name__)
def test_no_damage_ends_in_a_traceback(damage: Damage, whole: Path, tmp_path: Path) -> None:
    times = dict(DAMAGES)[damage]
    for seed in range(times):
        place = tmp_path / str(seed)
        shutil.copytree(whole.parent, place)
        damage(place / whole.name, random.Random(f"{damage.__name__} {seed}"))
        statuses = [call(*command, "--store", place / whole.name) for command in COMMANDS]
        assert set(statuses) <= {0, 2, 3}, f"seed {seed}: {statuses}"
        shutil.rmtree(place)


def test_damage_is_reported_with_a_hint(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / whole.name
    for statement, said in (
        ("DROP TABLE steps", "no such table: steps"),
        ("UPDATE runs SET spec = '{'", "its row was changed after it was written"),
    ):
        shutil.copyfile(whole, path)
        with writing(path) as connection:
            connection.execute(statement)
        with (
            Store.open(path, read_only=True) as store,
            pytest.raises(UserError, match=said) as caught,
        ):
            store.load_run("recorded")
        assert caught.value.message.startswith(f"{path}: the results store is damaged (")
        assert "restore a copy" in (caught.value.hint or "")
