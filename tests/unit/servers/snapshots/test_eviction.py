"""Test the eviction of snapshots: the least recently used go first, none in use."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from millrace import paths
from millrace.errors import UserError
from millrace.model.servers import InstalledServer
from millrace.servers import snapshots
from millrace.servers.instances import lifecycle
from millrace.servers.snapshots import (
    Snapshot,
    repository,
)
from tests.unit.servers.snapshots.small_snapshots import NOTHING, kept, names


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
