"""Test that snapshots are whole or absent, that used ones stay, and that damaged ones go."""

import errno
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import paths, safe_json
from millrace.databases.table_checks import KeptTable, Reading
from millrace.errors import HostError, TrialFailed, UserError
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers import snapshots
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import (
    NotSaved,
    Snapshot,
    Unusable,
    create_restore,
    data_files,
    manifest,
    repository,
)
from millrace.trial.steps import time_limit
from tests.support.small_snapshots import NOTHING, files, kept, key_of, loaded, names

TABLES = (KeptTable("db.t", Reading(("SELECT 1",), 16, 5), Reading(("SELECT 2",), 90, 7)),)


def test_what_was_saved_is_found_and_restored(small: InstalledServer) -> None:
    with loaded(small) as instance:
        mode, password = instance.data_dir.stat().st_mode, instance.password
        made = snapshots.save(instance, key_of(small), {"rows": 7}, made_s=1.5, tables=TABLES)
        assert files(instance.data_dir) == {}
        assert instance.data_dir.stat().st_mode == mode
        first = snapshots.restore(instance, made)
        expected = files(instance.data_dir)
    assert expected == {"db/t.ibd": b"rows" * 10_000, "ibdata1": b"system", "ib_buffer_pool": b""}
    assert first.bytes == sum(map(len, expected.values())) == made.bytes
    found = snapshots.find(key_of(small))
    assert found == made
    assert found is not None
    assert (found.facts, found.made_s, found.password) == ({"rows": 7}, 1.5, password)
    assert found.tables == TABLES
    with lifecycle.create(small, NOTHING) as other:
        assert other.password != password
        restored = snapshots.restore(other, found, page_cache="warm")
        assert restored.page_cache == "warm"
        assert files(other.data_dir) == expected
        assert other.password == password
        assert other.data_dir.stat().st_uid == (other.data_dir / "db/t.ibd").stat().st_uid
    assert snapshots.find(key_of(small, seed=2)) is None


def test_the_password_is_for_its_owner_only(small: InstalledServer) -> None:
    made = kept(small)
    assert made.password not in repr(made)
    assert stat.S_IMODE(made.directory.stat().st_mode) == 0o700
    holding = [path for path in made.directory.iterdir() if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in holding] == [0o600]


def damage(made: Snapshot, how: str) -> None:
    file = made.data_dir / "db/t.ibd"
    match how:
        case "truncated":
            os.truncate(file, 100)
        case "changed":
            with file.open("r+b") as opened:
                opened.write(b"other")
        case "missing":
            file.unlink()
        case "added":
            (made.data_dir / "more").touch()
        case "open to others":
            made.directory.chmod(0o777)
        case "of another key" | "of another format":
            document = json.loads((made.directory / "snapshot.json").read_text())
            changed = document["key"]["data"] if how == "of another key" else document
            changed["seed" if how == "of another key" else "format"] += 98
            (made.directory / "snapshot.json").write_text(json.dumps(document))
        case "of odd tables":
            document = json.loads((made.directory / "snapshot.json").read_text())
            table = {"name": "t", "sample": {"statements": [], "rows": "x", "checksum": 0}}
            document["tables"] = [{**table, "whole": None}]
            (made.directory / "snapshot.json").write_text(json.dumps(document))
        case _:
            (made.directory / "snapshot.json").write_text("{")


HOW = ["truncated", "changed", "missing", "added", "open to others"]
HOW += ["of another key", "of another format", "of odd tables", "torn"]


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_one_is_thrown_away_and_made_again(small: InstalledServer, how: str) -> None:
    damage(kept(small), how)
    assert snapshots.find(key_of(small)) is None
    assert names() == set()
    assert kept(small) == snapshots.find(key_of(small))


@pytest.mark.parametrize("how", HOW[:5])
def test_damage_after_it_was_found_leaves_an_empty_data_directory(
    small: InstalledServer, how: str
) -> None:
    made = kept(small)
    damage(made, how)
    with lifecycle.create(small, NOTHING) as instance:
        with pytest.raises(Unusable, match=made.name):
            snapshots.restore(instance, made)
        assert list(instance.data_dir.iterdir()) == []
    assert names() == set()


def flip(file: Path, at: int) -> None:
    """Change one byte and restore the file's size and times."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_other_bytes_of_the_same_size_and_time_are_found_before_they_are_used(
    small: InstalledServer,
) -> None:
    made = kept(small)
    flip(made.data_dir / "db/t.ibd", 20_000)
    assert made.damage() is None, "names, sizes and times are as they were"
    with lifecycle.create(small, NOTHING) as instance:
        with pytest.raises(Unusable, match=r"content of db/t\.ibd has changed"):
            snapshots.restore(instance, made)
        assert list(instance.data_dir.iterdir()) == []
    assert names() == set()
    again = kept(small)
    with lifecycle.create(small, NOTHING) as instance:
        snapshots.restore(instance, again)
        assert (instance.data_dir / "db/t.ibd").read_bytes() == b"rows" * 10_000


def test_contents_are_verified_once_in_a_process(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counts(data_dir: Path, kept: Mapping[str, str]) -> str | None:
        read.append(data_dir)
        return whole(data_dir, kept)

    whole = data_files.damage
    monkeypatch.setattr(data_files, "damage", counts)
    for _ in range(2):
        made = kept(small)
        for _ in range(2):
            with lifecycle.create(small, NOTHING) as instance:
                snapshots.restore(instance, made)
        repository.remove(made.name)
    assert len(read) == 2, "each of the two that were made"


def test_a_manifest_without_the_digest_of_a_file_is_damage(small: InstalledServer) -> None:
    made = replace(kept(small), digests={})
    with lifecycle.create(small, NOTHING) as instance, pytest.raises(Unusable, match="digests"):
        snapshots.restore(instance, made)


def test_one_that_is_gone_cannot_be_restored(small: InstalledServer) -> None:
    made = kept(small)
    snapshots.remove(made.name)
    with lifecycle.create(small, NOTHING) as instance, pytest.raises(Unusable, match="gone"):
        snapshots.restore(instance, made)


def test_who_is_slower_uses_the_snapshot_of_who_was_quicker(small: InstalledServer) -> None:
    first = kept(small, content=b"quick")
    assert kept(small, content=b"slow!") == first
    assert names() == {first.name}


def test_a_damaged_one_is_replaced_by_who_saves(small: InstalledServer) -> None:
    damage(kept(small), "truncated")
    assert kept(small).damage() is None


def test_a_data_directory_with_content_is_not_restored_over(small: InstalledServer) -> None:
    made = kept(small)
    with loaded(small) as instance:
        before = files(instance.data_dir)
        with pytest.raises(ValueError, match="not empty"):
            snapshots.restore(instance, made)
        assert files(instance.data_dir) == before


def refused(small: InstalledServer, instance: Instance, why: str) -> None:
    """Check that saving is refused, and that everything is unchanged."""
    before, there = files(instance.data_dir), names()
    with pytest.raises(NotSaved, match=why):
        snapshots.save(instance, key_of(small), {}, made_s=1)
    assert files(instance.data_dir) == before
    assert names() == there


def test_what_does_not_lie_in_the_data_directory_is_not_kept(small: InstalledServer) -> None:
    away = FittedOptions("x", (Option("innodb_undo_directory", "/elsewhere", False, "x"),))
    with loaded(small, away) as instance:
        refused(small, instance, "innodb_undo_directory = /elsewhere")
    for link in ("db/linked", "other"):
        with loaded(small) as instance:
            (instance.data_dir / link).symlink_to(instance.directory)
            refused(small, instance, link)
    with loaded(small) as instance:
        (instance.data_dir / "db/t.isl").write_text("/elsewhere/t.ibd")
        refused(small, instance, "t.isl")


def test_what_is_larger_than_the_limit_is_not_kept(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(small, seed=2)
    monkeypatch.setenv(snapshots.LIMIT_VARIABLE, "10K")
    with loaded(small) as instance:
        refused(small, instance, "exceeds the limit for snapshots")


def test_more_files_than_servers_make_are_not_kept(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create_restore, "_MOST_FILES", 5)  # four files and a directory
    with loaded(small) as instance:
        (instance.data_dir / "another").mkdir()
        refused(small, instance, "has more than 5 files and directories")
        (instance.data_dir / "another").rmdir()
        snapshots.save(instance, key_of(small), {}, made_s=1)


def test_deeper_directories_than_servers_make_are_not_kept(small: InstalledServer) -> None:
    with loaded(small) as instance:
        (instance.data_dir / "/".join(["d"] * 100)).mkdir(parents=True)
        refused(small, instance, "has more than 100 levels of directories")


def test_names_that_no_manifest_holds_are_not_kept(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_LIMITS", safe_json.Limits(size_bytes=4_000))
    with loaded(small) as instance:
        for number in range(10):
            path = instance.data_dir / "db" / f"{'t' * 200}{number}"
            path.touch()
            status = instance.data_dir.stat()
            os.chown(path, status.st_uid, status.st_gid)
        with pytest.raises(NotSaved, match="could not be read back: larger than 4,000 bytes"):
            snapshots.save(instance, key_of(small), {}, made_s=1)
        assert files(instance.data_dir)["db/t.ibd"] == b"rows" * 10_000
        assert names() == set()


def copying_instead(data_dir: Path, kept: Path) -> None:
    """Simulate a snapshot directory on another file system."""
    kept.mkdir(mode=0o700)
    data_files.copy_tree(data_dir, kept, None)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        "millrace.servers.snapshots.manifest.write",
        "millrace.servers.snapshots.create_restore.write_back",
        "millrace.servers.snapshots.repository.publish",
        "millrace.atomic_file.flush",  # when it has its name already
        "millrace.servers.snapshots.data_files.digests",
    ],
)
def test_a_disk_that_refuses_leaves_the_data_directory(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch, place: str, copies: bool
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there")

    with loaded(small) as instance:
        before = instance.data_dir.stat()
        with monkeypatch.context() as patch:
            if copies:
                patch.setattr(create_restore, "_move", copying_instead)
            patch.setattr(place, full)
            with pytest.raises(NotSaved, match="No space left"):
                snapshots.save(instance, key_of(small), {}, made_s=1)
        assert files(instance.data_dir)["db/t.ibd"] == b"rows" * 10_000
        after = instance.data_dir.stat()
        assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)
        assert names() == set()
        assert snapshots.save(instance, key_of(small), {}, made_s=1).damage() is None


def test_a_copied_data_directory_is_empty_after(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create_restore, "_move", copying_instead)
    with loaded(small) as instance:
        made = snapshots.save(instance, key_of(small), {}, made_s=1)
        assert list(instance.data_dir.iterdir()) == []
        snapshots.restore(instance, made)
        assert files(instance.data_dir)["db/t.ibd"] == b"rows" * 10_000


def test_a_snapshot_that_cannot_be_replaced_leaves_the_data_directory(
    small: InstalledServer,
) -> None:
    made = kept(small)
    with loaded(small) as instance, repository.in_use(made):
        damage(made, "truncated")
        with pytest.raises(NotSaved, match="damaged and in use"):
            snapshots.save(instance, key_of(small), {}, made_s=1)
        assert files(instance.data_dir)["db/t.ibd"] == b"rows" * 10_000


def test_a_snapshot_that_cannot_be_read_leaves_nothing_behind(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kept(small)

    def fails(*arguments: Any) -> Any:
        data_files.copy_tree(*arguments)
        raise OSError(errno.EIO, "it went wrong")

    monkeypatch.setattr("millrace.servers.snapshots.create_restore.copy_tree", fails)
    with lifecycle.create(small, NOTHING) as instance:
        with pytest.raises(HostError, match="it went wrong"):
            snapshots.restore(instance, made)
        assert list(instance.data_dir.iterdir()) == []


def test_a_restore_that_takes_too_long_ends_its_threads(
    small: InstalledServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kept(small)
    stops: list[bool] = []

    def hangs(_part: object, stopped: threading.Event) -> None:
        stops.append(stopped.wait(30))

    monkeypatch.setattr(data_files, "_copy_part", hangs)
    monkeypatch.setattr(data_files, "_cloned", lambda *_: False)
    with (
        lifecycle.create(small, NOTHING) as instance,
        pytest.raises(TrialFailed, match="restore took longer"),
        time_limit("restore", 0),
    ):
        snapshots.restore(instance, made)
    assert stops
    assert all(stops)
    assert snapshots.find(key_of(small)) == made


def test_the_least_recently_used_go_first(small: InstalledServer) -> None:
    made = [kept(small, seed) for seed in range(4)]
    for age, snapshot in zip((40, 10, 30, 20), made, strict=True):
        os.utime(snapshot.directory, (1e9 - age, 1e9 - age))
    each = made[0].allocated_bytes + 20_000
    assert snapshots.evict(3 * each, spared=[made[0].name]) == [made[2].name]
    with lifecycle.create(small, NOTHING) as instance:
        snapshots.restore(instance, made[3])
    assert snapshots.evict(each) == [made[0].name, made[1].name]
    assert names() == {made[3].name}
    assert snapshots.evict(0) == [made[3].name]


def test_saving_makes_room(small: InstalledServer, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept(small)
    monkeypatch.setenv(snapshots.LIMIT_VARIABLE, str(first.allocated_bytes * 3 // 2))
    second = kept(small, seed=2)
    assert names() == {second.name}


def use_until_told(made: Snapshot, ready: Any, leave: Any) -> None:
    with repository.in_use(made):
        ready.set()
        leave.wait(30)


def test_one_in_use_stays(small: InstalledServer) -> None:
    made = kept(small)
    context = multiprocessing.get_context("spawn")
    ready, leave = context.Event(), context.Event()
    user = context.Process(target=use_until_told, args=(made, ready, leave))
    user.start()
    assert ready.wait(30)
    assert snapshots.evict(0) == []
    with pytest.raises(UserError, match="in use"):
        snapshots.remove(made.name)
    with repository.in_use(made):
        pass  # two may share one
    leave.set()
    user.join(30)
    assert snapshots.evict(0) == [made.name]


_SAVES_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from millrace.servers import snapshots
from millrace.servers.snapshots import SnapshotKey, repository
from millrace.servers.snapshots.key import KeyParts

with repository.draft(SnapshotKey("small", KeyParts.model_construct(data={"seed": 1}))) as draft:
    (draft / "data").mkdir()
    (draft / "data/t.ibd").write_bytes(b"half")
    print("saving", flush=True)
    time.sleep(60)
"""


def test_a_killed_save_leaves_nothing_that_is_taken_for_whole(
    small: InstalledServer, child_environment: dict[str, str]
) -> None:
    environment = {**child_environment, **os.environ, "PYTHONPATH": child_environment["PYTHONPATH"]}
    with subprocess.Popen(
        [sys.executable, "-c", _SAVES_UNTIL_KILLED], stdout=subprocess.PIPE, env=environment
    ) as saver:
        assert saver.stdout is not None
        assert saver.stdout.readline() == b"saving\n"
        snapshots.reap()
        assert len(names()) == 1, "one that is being made is left alone"
        assert snapshots.listing() == []
        saver.send_signal(signal.SIGKILL)
        saver.wait(30)
    assert len(names()) == 1
    snapshots.evict(1 << 40)
    assert names() == set()


def test_invalid_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(snapshots.LIMIT_VARIABLE, "much")
    with pytest.raises(UserError, match=snapshots.LIMIT_VARIABLE):
        snapshots.limit_bytes()
    monkeypatch.setenv(snapshots.LIMIT_VARIABLE, "50G")
    assert snapshots.limit_bytes() == 50 << 30
    monkeypatch.delenv(snapshots.LIMIT_VARIABLE)
    assert 0 < snapshots.limit_bytes() <= 100_000_000_000


def test_unknown_name_is_refused_with_the_nearest(small: InstalledServer) -> None:
    made = kept(small)
    with pytest.raises(UserError, match="unknown snapshot") as caught:
        snapshots.remove(made.name[:-1])
    assert made.name in (caught.value.hint or "")


def test_snapshots_lie_where_a_copy_can_share_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paths.snapshots_dir() == tmp_path / "state/snapshots"
    shared = Path("/dev/shm")
    if shared.is_dir() and shared.stat().st_dev != tmp_path.stat().st_dev:
        monkeypatch.setenv("MILLRACE_WORK", str(shared / "not-made/work"))
        assert paths.snapshots_dir() == shared / "not-made/work/snapshots"
    monkeypatch.setenv("MILLRACE_SNAPSHOTS", str(tmp_path / "mine"))
    assert paths.snapshots_dir() == tmp_path / "mine"
