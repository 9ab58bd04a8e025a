"""Test ownership records, orphans and the lock of the host, with ordinary processes as servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import HostError, UserError
from millrace.host.exclusive import HOST_LOCK, TESTS_VARIABLE, host_lock, lock_file
from millrace.servers.instances import ownership, processes
from tests.support.deep_directories import deep


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MILLRACE_WORK", str(tmp_path))
    return tmp_path


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def sleeper(instance_id: str | None = None) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if instance_id is not None:
        environment[processes.ENVIRONMENT_VARIABLE] = instance_id
    return subprocess.Popen(["/bin/sleep", "600"], env=environment)


def record_in(place: Path, *, orphan: bool = False) -> ownership.OwnershipRecord:
    instance_id = ownership.new_id("some server/1")
    directory = place / instance_id
    record = ownership.register(
        instance_id, server="some server/1", role="server", directories=[directory]
    )
    (directory / "data").mkdir(parents=True)
    return disown(record) if orphan else record


def disown(record: ownership.OwnershipRecord) -> ownership.OwnershipRecord:
    """Change the ownership record as if its owner had been another process, which is gone."""
    gone = replace(record, owner=replace(record.owner, started_ticks=1))
    ownership._write(gone)
    return gone


def identity(process: subprocess.Popen[bytes]) -> processes.ProcessId:
    found = processes.ProcessId.of(process.pid)
    assert found is not None
    return found


def test_process_is_distinguished_from_a_reused_pid(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    sleepers.append(sleeper())
    process = identity(sleepers[0])
    later = replace(process, started_ticks=process.started_ticks + 1)
    assert process.exists()
    assert not later.exists()
    assert processes.end(later, signal.SIGKILL, limit_s=5)
    assert sleepers[0].poll() is None
    assert processes.end(process, signal.SIGKILL, limit_s=5)
    assert not process.exists(), "a zombie has ended"
    sleepers[0].wait()
    assert processes.ProcessId.of(process.pid) is None


def test_a_process_that_stays_is_reported(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleepers.append(sleeper())
    assert not processes.end(identity(sleepers[0]), signal.SIGCONT, limit_s=0.05)


def test_an_id_is_a_file_name() -> None:
    assert "/" not in ownership.new_id("../up")
    assert ownership.new_id("x") != ownership.new_id("x")


def test_what_is_ours_is_not_reaped(place: Path, sleepers: list[subprocess.Popen[bytes]]) -> None:
    record = record_in(place)
    sleepers.append(sleeper(record.id))
    record = ownership.add_process(record, identity(sleepers[0]))
    assert ownership.reap_orphans() == []
    assert sleepers[0].poll() is None
    assert ownership.running() == [record]
    ownership.release(record)
    assert sleepers[0].wait(5) == -signal.SIGKILL
    assert ownership.running() == []
    assert not Path(record.directories[0]).exists()


def test_exactly_what_an_orphan_has_is_ended(
    place: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    ours, orphan = record_in(place), record_in(place, orphan=True)
    recorded, unrecorded, stranger, our_own = (
        sleeper(),
        sleeper(orphan.id),
        sleeper(),
        sleeper(ours.id),
    )
    sleepers += [recorded, unrecorded, stranger, our_own]
    ownership.add_process(orphan, identity(recorded))
    (sentence,) = ownership.reap_orphans()
    assert orphan.id in sentence
    assert str(recorded.pid) in sentence
    assert str(unrecorded.pid) in sentence
    assert [recorded.wait(5), unrecorded.wait(5)] == [-signal.SIGKILL, -signal.SIGKILL]
    assert [stranger.poll(), our_own.poll()] == [None, None]
    assert [record.id for record in ownership.running()] == [ours.id]
    assert not Path(orphan.directories[0]).exists()
    assert Path(ours.directories[0]).exists()


def test_a_number_that_was_given_again_is_left_alone(
    place: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    orphan = record_in(place, orphan=True)
    sleepers.append(sleeper())
    process = identity(sleepers[0])
    ownership.add_process(orphan, replace(process, started_ticks=process.started_ticks - 1))
    (sentence,) = ownership.reap_orphans()
    assert "no process of it was running" in sentence
    assert sleepers[0].poll() is None


@pytest.mark.parametrize(
    ("is_there", "said"),
    [(True, "its data is kept for its trial"), (False, "its data could not be kept")],
)
def test_the_data_of_an_orphan_is_only_called_kept_where_it_is(
    place: Path, is_there: bool, said: str
) -> None:
    kept = place / "kept" / f"{'0' * 16}-{'1' * 16}"
    if is_there:
        kept.mkdir(parents=True)
    ownership.keep_data(record_in(place, orphan=True), kept)
    (sentence,) = ownership.reap_orphans()
    assert said in sentence
    assert (kept / "data").is_dir() is is_there


def test_a_draft_of_a_killed_owner_goes_with_its_record(place: Path) -> None:
    orphan = record_in(place, orphan=True)
    folder = place / "state/instances"
    (folder / f".{orphan.id}.json.x1.millrace-draft").touch()
    assert [record.id for record in ownership.running()] == [orphan.id]
    ownership.reap_orphans()
    assert list(folder.iterdir()) == []


def test_another_process_of_this_host_sees_the_same_boot_and_namespace() -> None:
    ask = (
        "from millrace.servers.instances.processes import *; "
        "print(boot_id()); print(pid_namespace())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", ask],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == [processes.boot_id(), processes.pid_namespace()]


def test_after_a_reboot_there_are_no_processes_to_end(
    place: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    record = record_in(place)
    sleepers.append(sleeper())
    record = ownership.add_process(record, identity(sleepers[0]))
    ownership._write(replace(record, boot_id="another boot"))
    assert len(ownership.reap_orphans()) == 1
    assert sleepers[0].poll() is None
    assert not Path(record.directories[0]).exists()


def test_an_owner_in_another_container_counts_as_alive(place: Path) -> None:
    record = record_in(place, orphan=True)
    ownership._write(replace(record, pid_namespace="pid:[1]"))
    assert ownership.reap_orphans() == []


def test_a_directory_that_does_not_carry_the_id_is_never_removed(place: Path) -> None:
    precious = place / "precious"
    precious.mkdir()
    record = record_in(place, orphan=True)
    ownership._write(replace(record, directories=(*record.directories, str(precious))))
    ownership.reap_orphans()
    assert precious.is_dir()


def test_no_depth_keeps_a_directory(place: Path) -> None:
    record = record_in(place)
    with deep(Path(record.directories[0]), 1500):
        ownership.release(record)
        assert not Path(record.directories[0]).exists()


def test_a_link_in_the_place_of_a_directory_is_no_way_out(place: Path) -> None:
    precious = place / "precious"
    precious.mkdir()
    record = record_in(place)
    directory = Path(record.directories[0])
    (directory / "data").rmdir()
    (directory / "data").symlink_to(precious)
    ownership.release(record)
    assert precious.is_dir()
    assert not directory.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"id": 1}', '{"owner": 3}'])
def test_a_record_that_is_none_is_left_alone(place: Path, content: str) -> None:
    folder = place / "state/instances"
    folder.mkdir(parents=True)
    (folder / "odd.json").write_text(content, encoding="utf-8")
    assert ownership.running() == []
    assert ownership.reap_orphans() == []
    assert (folder / "odd.json").exists()


def test_a_state_that_cannot_be_written_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(place))
    (place / "instances").touch()
    with pytest.raises(HostError, match="cannot write the record of an instance"):
        record_in(place)


def test_two_do_not_measure_at_the_same_time(place: Path) -> None:
    file = place / "lock"
    hold = """
import sys
from pathlib import Path
from millrace.host.exclusive import host_lock
with host_lock("run a\\033study", file=Path(sys.argv[1])):
    print("held", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError) as caught, host_lock("mine", file=file):
            pass
        holder.kill()
    assert f"process {holder.pid}, " in caught.value.message
    assert "run a?study" in caught.value.message, "nothing that acts on a terminal"
    assert caught.value.hint is not None
    with host_lock("mine", file=file):
        assert json.loads(file.read_text(encoding="utf-8"))["pid"] == os.getpid()
    assert file.stat().st_mode & 0o777 == 0o666


def test_all_users_of_a_host_meet_at_one_lock(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "MILLRACE_CACHE", "MILLRACE_WORK"):
        monkeypatch.setenv(name, str(place))
    monkeypatch.delenv(TESTS_VARIABLE)
    assert lock_file() == HOST_LOCK


def test_the_lock_follows_no_link(place: Path) -> None:
    victim = place / "victim"
    victim.write_text("precious", encoding="utf-8")
    (place / "soft").symlink_to(victim)
    (place / "hard").hardlink_to(victim)
    os.mkfifo(place / "fifo")
    for name in ("soft", "hard", "fifo"):
        with pytest.raises(HostError, match=name), host_lock("mine", file=place / name):
            pass
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_pipe_in_the_place_of_a_directory_is_removed_at_once(tmp_path: Path) -> None:
    place = tmp_path / "planted"
    os.mkfifo(place)
    ownership.remove_tree(place)
    assert not place.exists()
