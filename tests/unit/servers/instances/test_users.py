"""Test user ids for servers: free ones, each for one instance, and no process of them is left."""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import paths
from millrace.errors import HostError
from millrace.servers.instances import launch, ownership, processes, users
from millrace.shared_directories import refuse_shared

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")


@pytest.fixture
def uid() -> Iterator[int]:
    with users.reserved() as reserved:
        assert reserved is not None
        yield reserved


def asleep(uid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "600"], user=uid, group=uid, extra_groups=[])


def test_an_id_is_in_no_list_and_for_one_at_a_time(uid: int) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)
    with users.held(uid) as ours:
        assert not ours
    with users.reserved(spared=set(users.IDS) - {uid, users.IDS[0], users.IDS[1]}) as other:
        assert other != uid


def test_an_id_with_a_process_is_not_free(uid: int) -> None:
    other = users.IDS[0] if uid != users.IDS[0] else users.IDS[1]
    with asleep(other) as process:
        try:
            with (
                pytest.raises(HostError, match="no free user id"),
                users.reserved(spared=set(users.IDS) - {other}),
            ):
                pass
        finally:
            process.kill()


# Each process lives briefly: it forks the next one and ends. It leaves a sign of life.
HOP = """
hop() { : > "$0"; hop & }
hop &
"""


def test_what_forks_and_exits_as_fast_as_it_can_is_ended_too(uid: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    sign = tmp_path / "sign"
    for _ in range(5):
        subprocess.run(
            ["/usr/bin/setsid", "/bin/sh", "-c", HOP, sign],
            user=uid, group=uid, extra_groups=[], check=True,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while not sign.exists():
            assert time.monotonic() < deadline
        processes.end_all_of(uid)
        sign.unlink()
        time.sleep(0.1)
        lives = sign.exists()
        users.kill_all(uid)
        assert not lives


def test_a_stopped_process_is_ended_and_this_one_keeps_its_rights(uid: int) -> None:
    ids = os.getresuid()
    users.kill_all(uid)  # no process runs under it
    with asleep(uid) as process:
        process.send_signal(signal.SIGSTOP)
        users.kill_all(uid)
        assert process.wait(30) == -signal.SIGKILL
    assert os.getresuid() == ids
    assert "CapEff:\t0000000000000000" not in Path("/proc/self/status").read_text("ascii")


def test_all_that_runs_under_an_id_ends_and_nothing_else(uid: int) -> None:
    with asleep(uid) as one, asleep(uid) as two, subprocess.Popen(["/bin/sleep", "600"]) as ours:
        try:
            assert sorted(users.pids_of(uid)) == sorted([one.pid, two.pid])
            processes.end_all_of(uid)
            assert users.pids_of(uid) == []
            assert [one.wait(30), two.wait(30)] == [-9, -9]
            assert ours.poll() is None
        finally:
            ours.kill()


@pytest.mark.parametrize("uid", [0, 1000, 65534])
def test_no_other_user_is_ever_ended(uid: int) -> None:
    with pytest.raises(ValueError, match="not a user id of an instance"):
        processes.end_all_of(uid)


@pytest.mark.parametrize("taken", [False, True])
def test_an_orphan_s_processes_end_unless_its_id_is_another_s_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    with users.reserved() as uid:
        assert uid is not None
        name = ownership.new_id("orphan")
        record = ownership.register(
            name, server="s", role="server", directories=[paths.work_dir() / name], uid=uid
        )
        ownership._write(replace(record, owner=replace(record.owner, started_ticks=1)))
        with asleep(uid) as process:
            try:
                if taken:
                    ownership.reap_orphans()
                    assert process.poll() is None
            finally:
                process.kill()
    if not taken:
        with asleep(uid) as process:
            try:
                ownership.reap_orphans()
                assert process.wait(30) == -9
            finally:
                process.kill()
    assert ownership.running() == []


def test_a_place_out_of_reach_is_named(uid: int, tmp_path: Path) -> None:
    inside = tmp_path / "closed/inside"
    inside.mkdir(parents=True)
    launch.require_reach("s", uid, [inside])
    inside.parent.chmod(0o700)
    with pytest.raises(HostError, match=f"permission denied .*: {inside.parent}$") as caught:
        launch.require_reach("s", uid, [inside])
    assert f"chmod o+x {inside.parent}" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        (0o777, 0, "every user of this host"),
        (0o775, 0, "its group"),
        (0o755, 60_999, "uid 60999"),
        (0o1777, 60_999, "uid 60999"),
        (0o1777, 0, None),
        (0o755, 0, None),
    ],
)
def test_root_works_only_where_nobody_else_can_rename(
    tmp_path: Path, mode: int, owner: int, said: str | None
) -> None:
    outer = tmp_path / "outer"
    (outer / "work").mkdir(parents=True)
    os.chown(outer, owner, 0)
    outer.chmod(mode)
    for directory in (outer, outer / "work"):
        if said is None:
            refuse_shared(directory, "MILLRACE_WORK", has_secret_names=True)
        else:
            with pytest.raises(HostError, match=said) as caught:
                refuse_shared(directory, "MILLRACE_WORK", has_secret_names=True)
            assert str(outer) in str(caught.value.hint)
