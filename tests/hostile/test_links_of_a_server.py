"""Test that links planted by a server's user where root reads or writes change nothing outside."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace import databases
from millrace.errors import TrialFailed
from millrace.host import listener as listeners
from millrace.model.servers import FittedOptions
from millrace.servers import snapshots
from millrace.servers.instances import instance_paths, lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import SnapshotKey, data_files
from millrace.trial.sizes import sizes
from tests.conftest import InstanceOf
from tests.support import small_servers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")

SECRET = "root's secret"
NOTHING = FittedOptions("default", ())

# Puts links to the first argument in the place of the others, as far as permitted.
PLANT = """
victim=$1; shift
for place; do
    mv -T "$place" "$place.away" 2>/dev/null
    ln -sT "$victim" "$place" 2>/dev/null && echo "planted $place"
done
true
"""

# Outlives its server: leaves the session, and swaps a file for a link until it is killed.
SWAP = """
setsid sh -c 'echo $$; exec >/dev/null 2>&1; while :; do ln -sT "$0" "$1"; rm "$1"; done' "$@" &
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file that only root can read, in a directory that a server's user can reach."""
    file = tmp_path / "victim"
    file.touch(mode=0o600)
    file.write_text(SECRET)
    return file


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Instance]:
    """Return an instance of a program that only prints its version."""
    tree = small_servers.tree(tmp_path / "small/tree")
    with lifecycle.create(small_servers.installed(tree), NOTHING) as instance:
        yield instance


@pytest.fixture
def key(idle: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnapshotKey:
    """Return the key of a snapshot of the instance, in a place of its own."""
    monkeypatch.setenv("MILLRACE_SNAPSHOTS", str(tmp_path / "snapshots"))
    return snapshots.key(idle.server, NOTHING, {}, user="me")


def measured(instance: Instance) -> dict[str, float]:
    rules = databases.get("mysql").snapshots
    return {row.name: row.value for row in sizes(instance.data_dir, rules, 1)}


def as_server(instance: Instance, script: str, *arguments: str | Path) -> str:
    """Run a script as the user who owns the instance's data directory."""
    uid = instance.data_dir.stat().st_uid
    assert uid != 0
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *map(str, arguments)],
        user=uid, group=uid, extra_groups=[], cwd="/", check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def test_what_root_writes_and_reads_by_name_cannot_be_replaced(
    idle: Instance, victim: Path
) -> None:
    rows = idle.load_dir / "rows.tsv"
    names = [idle.directory / name for name in ("error.log", "output", "init.sql", "rows.tsv")]
    planted = as_server(idle, PLANT, victim, rows, idle.load_dir, *names)
    idle.program_output(["--no-such-option"], 30)
    rows.write_text("rows")
    assert SECRET not in idle.log_tail()
    assert victim.read_text() == SECRET
    assert victim.stat().st_mode & 0o777 == 0o600
    assert planted == ""


def test_a_restore_follows_no_link_and_gives_nothing_away(idle: Instance, key: SnapshotKey) -> None:
    (idle.data_dir / "ibdata1").write_bytes(b"rows")
    owner = idle.data_dir.stat().st_uid
    os.chown(idle.data_dir / "ibdata1", owner, owner)
    kept = snapshots.save(idle, key, {}, made_s=1)
    assert {path.stat().st_uid for path in [kept.data_dir, *kept.data_dir.iterdir()]} == {0}
    snapshots.restore(idle, kept)
    assert (idle.data_dir / "ibdata1").stat().st_uid == owner
    assert idle.data_dir.stat().st_uid == owner


def test_nobody_reaches_a_data_directory_while_root_works_in_it(
    idle: Instance, key: SnapshotKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = idle.data_dir.stat().st_uid
    as_server(idle, 'mkdir "$1/deep" && touch "$1/deep/t" && chmod -R 777 "$1"', idle.data_dir)
    seen = []

    def look(path: Path, *_: object) -> None:
        status = idle.data_dir.stat()
        seen.append((status.st_uid, status.st_mode & 0o777, path.stat().st_uid))

    kept = snapshots.save(idle, key, {}, made_s=1)
    look(kept.data_dir)
    for directory in (kept.data_dir, kept.data_dir / "deep"):
        assert directory.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(data_files, "_copy_part", lambda part, _stopped: look(part.copy.parent))
    monkeypatch.setattr(data_files, "_cloned", lambda *_: False)
    (kept.data_dir / "deep/t").write_bytes(b"rows")
    data_files.copy_tree(kept.data_dir, idle.data_dir, owner)
    assert seen == [(0, 0o700, 0), (0, 0o700, 0)]
    assert (idle.data_dir / "deep").stat().st_uid == owner
    assert (idle.data_dir / "deep").stat().st_mode & 0o777 == 0o700


def test_no_link_is_followed_into_the_page_cache(idle: Instance, victim: Path) -> None:
    as_server(idle, PLANT, victim, idle.data_dir / "ibdata1")
    for state in ("cold", "warm"):
        with pytest.raises(OSError, match="symbolic"):
            data_files.bring(idle.data_dir, state)


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_data_directory_with_a_link_is_not_kept(
    idle: Instance, victim: Path, key: SnapshotKey, kind: str
) -> None:
    planted = idle.data_dir / "ib_buffer_pool"
    if kind == "symbolic":
        as_server(idle, PLANT, victim, planted)
    else:
        os.link(victim, planted)  # where the kernel lets every user do so
    with pytest.raises(snapshots.NotSaved, match="ib_buffer_pool"):
        snapshots.save(idle, key, {}, made_s=1)
    assert victim.read_text() == SECRET
    assert victim.stat().st_uid == 0


def test_only_a_socket_of_the_servers_user_is_connected_to(idle: Instance, tmp_path: Path) -> None:
    uid = idle.data_dir.stat().st_uid
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        as_server(idle, PLANT, tmp_path / "s", idle.socket)
        assert idle.socket.is_socket()
        assert instance_paths.open_socket(idle.socket, uid) is None
        assert instance_paths.open_socket(tmp_path / "s", uid) is None
        descriptor = instance_paths.open_socket(tmp_path / "s", 0)
        assert descriptor is not None
        (tmp_path / "s").unlink()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{descriptor}")
            assert listeners.peer_pid(client) == os.getpid()
        os.close(descriptor)


def test_nobody_reaches_a_data_directory_while_it_is_measured(idle: Instance) -> None:
    as_server(idle, 'mkdir "$1/deep" && echo rows >"$1/deep/t" && chmod -R 777 "$1"', idle.data_dir)
    assert measured(idle)["data_dir_apparent_bytes"] == len("rows\n")
    for directory in (idle.data_dir, idle.data_dir / "deep"):
        assert directory.stat().st_uid == 0
        assert directory.stat().st_mode & 0o777 == 0o700


def test_a_link_to_itself_is_another_data_directory(
    idle: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = idle.data_dir / "loop"
    as_server(idle, 'ln -s loop "$1"', loop)
    monkeypatch.setattr(idle, "one_row", lambda *_, **__: (str(loop),))
    with pytest.raises(TrialFailed, match=r"another server, with the data directory .*loop"):
        idle._refuse_foreign_answer()


@pytest.mark.integration
def test_a_running_server_that_turns_hostile(
    instance_of: InstanceOf, victim: Path, tmp_path: Path
) -> None:
    """Do in a running instance all that its user may do, before root looks at the files."""
    with socket.socket(socket.AF_UNIX) as other, instance_of("mysql-5.7.22") as instance:
        other.bind(str(tmp_path / "other"))
        other.listen()
        other.setblocking(False)
        instance.query("CREATE DATABASE millrace")
        table = instance.data_dir / "millrace/t.ibd"
        as_server(instance, PLANT, tmp_path / "other", instance.socket)
        as_server(instance, PLANT, victim, table, instance.pid_file, instance.error_log)
        as_server(instance, PLANT, "/etc", instance.data_dir / "millrace/etc")
        left = int(as_server(instance, SWAP, victim, instance.data_dir / "swapped"))
        assert instance.query("SELECT 1") == [("1",)]
        with pytest.raises(BlockingIOError):
            other.accept()
        instance.stop(60)
        deadline = time.monotonic() + 60
        while Path(f"/proc/{left}/cmdline").exists() and time.monotonic() < deadline:
            time.sleep(0.01)  # its new parent has yet to notice that it ended
        assert not Path(f"/proc/{left}/cmdline").exists()
        figures = measured(instance)
        on_disk = sum(
            path.lstat().st_size
            for path in instance.data_dir.rglob("*")
            if path.is_file() and not path.is_symlink()
        )
        assert figures["data_dir_apparent_bytes"] == on_disk
        assert SECRET not in instance.log_tail()
        directory = instance.directory
    assert not directory.exists()
    assert victim.read_text() == SECRET
    assert Path("/etc/passwd").exists()


@pytest.mark.integration
def test_no_instance_reaches_into_another(instance_of: InstanceOf) -> None:
    with instance_of("mysql-5.7.22") as one, instance_of("mysql-5.7.22") as other:
        assert one.data_dir.stat().st_uid != other.data_dir.stat().st_uid
        with pytest.raises(subprocess.CalledProcessError):
            as_server(one, 'ls "$1"', other.data_dir)
