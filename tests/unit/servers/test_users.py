"""User ids for servers: free ones, each for one instance, and nothing of them is left running."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import HostProblem
from millrace.servers import launch, processes, users

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
                pytest.raises(HostProblem, match="no user id"),
                users.reserved(spared=set(users.IDS) - {other}),
            ):
                pass
        finally:
            process.kill()


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
    with pytest.raises(ValueError, match="no user id of an instance"):
        processes.end_all_of(uid)


@pytest.mark.parametrize("taken", [False, True])
def test_an_orphan_s_processes_end_unless_its_id_is_another_s_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    with users.reserved() as uid:
        assert uid is not None
        account = processes.open_account(
            "orphan", server="s", role="server", directories=[tmp_path / "orphan"], uid=uid
        )
        processes._write(replace(account, owner=replace(account.owner, started_ticks=1)))
        with asleep(uid) as process:
            try:
                if taken:
                    processes.reap_orphans()
                    assert process.poll() is None
            finally:
                process.kill()
    if not taken:
        with asleep(uid) as process:
            try:
                processes.reap_orphans()
                assert process.wait(30) == -9
            finally:
                process.kill()
    assert processes.running() == []


def test_a_place_out_of_reach_is_named(uid: int, tmp_path: Path) -> None:
    inside = tmp_path / "closed/inside"
    inside.mkdir(parents=True)
    launch.require_reach("s", uid, [inside])
    inside.parent.chmod(0o700)
    with pytest.raises(HostProblem, match=f"{inside.parent} is closed") as caught:
        launch.require_reach("s", uid, [inside])
    assert f"chmod o+x {inside.parent}" in (caught.value.remedy or "")
