"""Test that other users cannot plant files in millrace's directories or hold its locks."""

import contextlib
import fcntl
import grp
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from millrace import paths
from millrace.cli.main import cli
from millrace.errors import HostError, UserError
from millrace.host import sockets
from millrace.host.exclusive import host_lock
from millrace.model.events import Emitted, Notice, ignore
from millrace.model.servers import Provenance
from millrace.output_files import Kind, write_text
from millrace.servers import added, install, manifest
from millrace.servers.instances import ownership, processes
from millrace.servers.locks import exclusive
from millrace.servers.snapshots import repository
from millrace.servers.sources import deb
from millrace.servers.sources.coordinates import Deb
from millrace.shared_directories import may_others_write, refuse_shared
from tests.support.ordinary_user import NOBODY, as_ordinary_user

OTHER_USER = 60_950
ID = "mysql-8.0.33-0a1b2c3d"

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for another user")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a state directory with a place for ownership records, and a work directory."""
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MILLRACE_WORK", str(tmp_path / "work"))
    folder = tmp_path / "state/instances"
    folder.mkdir(parents=True)
    for directory in (folder, folder.parent):
        directory.chmod(0o755)
    return tmp_path / "state"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of an instance."""
    directory = tmp_path / "work" / ID
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a directory that is named like an instance's and is none."""
    directory = tmp_path / "victim" / ID
    directory.mkdir(parents=True)
    return directory


def planted(state: Path, *directories: Path | str, name: str = ID, instance_id: str = ID) -> Path:
    """Write the ownership record of an orphan that has these directories."""
    file = state / f"instances/{name}.json"
    account = ownership.OwnershipRecord(
        id=instance_id,
        server="s",
        role="server",
        command="c",
        created_utc="2026-01-01T00:00:00Z",
        boot_id="an earlier boot",
        pid_namespace="n",
        owner=processes.ProcessId(1, 1),
        directories=tuple(map(str, directories)),
    )
    file.write_text(json.dumps(asdict(account)))
    file.chmod(0o644)
    return file


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o755), (0o002, 0o755), (0o027, 0o750)])
def test_nobody_else_may_write_to_what_millrace_makes(
    tmp_path: Path, umask: int, mode: int
) -> None:
    state = tmp_path / "state"
    add = ("servers", "add", "theirs", "--family", "mysql", "--attach", "mysql://me@db.test/")
    subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", *add],
        env={"MILLRACE_STATE": str(state), "PYTHONPATH": ":".join(sys.path)},
        check=True,
        umask=umask,
    )
    made = [state, *state.rglob("*")]
    assert any(path.is_file() for path in made)
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {mode}
    assert [path for path in made if path.stat().st_mode & 0o022] == []


@pytest.mark.parametrize("mode", [0o777, pytest.param(0o775, marks=only_root)])
def test_a_state_directory_that_others_can_write_to_is_refused(
    state: Path, directory: Path, mode: int
) -> None:
    planted(state, directory)
    (state / "instances").chmod(mode)
    for look in (ownership.reap_orphans, ownership.running):
        with pytest.raises(HostError, match=f"{state / 'instances'}: ") as caught:
            look()
        assert "chmod go-w" in str(caught.value.hint)
        assert "MILLRACE_STATE" in str(caught.value.hint)
    with pytest.raises(HostError, match="could replace millrace's files"):
        ownership.register(ID, server="s", role="server", directories=[])
    assert directory.exists()


@only_root
def test_root_refuses_a_state_directory_of_another_user(state: Path, directory: Path) -> None:
    planted(state, directory)
    os.chown(state, OTHER_USER, 0)
    with pytest.raises(HostError, match=f"its owner, uid {OTHER_USER}"):
        ownership.reap_orphans()
    assert directory.exists()


@only_root
@pytest.mark.parametrize("variable", ["STATE", "CACHE", "SNAPSHOTS", "WORK"])
@pytest.mark.parametrize("below", ["", "deep/er"])
def test_no_link_of_another_user_leads_to_a_place(
    variable: str, below: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millrace would otherwise create and remove directories where that user likes."""
    precious = tmp_path / "precious"
    precious.mkdir()
    link = shared / "millrace"
    link.symlink_to(precious)
    place = link / below
    os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    with pytest.raises(HostError, match=f"{link}: this symbolic link belongs to uid {OTHER_USER}"):
        refuse_shared(place, f"MILLRACE_{variable}")
    monkeypatch.setenv(f"MILLRACE_{variable}", str(place))
    if variable != "WORK":  # checked when an instance is made
        with pytest.raises(HostError, match="this symbolic link belongs to"):
            getattr(paths, f"{variable.lower()}_dir")()
    os.chown(link, 0, 0, follow_symlinks=False)
    refuse_shared(place, f"MILLRACE_{variable}")


@only_root
def test_servers_that_another_user_added_are_none(state: Path) -> None:
    os.chown(state, OTHER_USER, 0)
    for command in (("list",), ("show", "theirs")):
        shown = CliRunner().invoke(cli, ["servers", *command])
        assert isinstance(shown.exception, HostError), shown.output
        assert f"uid {OTHER_USER}, could replace millrace's files" in shown.exception.message


def planted_server(state: Path) -> Path:
    """Add a server as a member of the group would, and return its record."""
    place = state / "servers/theirs"
    place.mkdir(parents=True)
    layout = manifest.Layout(base_dir=".", program="mysqld", share_dir=".")
    origin = Provenance(source="dir:.", artefacts=())
    manifest.write(manifest.Manifest("theirs", "mysql", "8.0.33", layout, origin), place)
    for each in (state, state / "servers", place):
        each.chmod(0o755)
    return place / manifest.FILE


@only_root
@pytest.mark.parametrize("as_user", [True, False], ids=["a user", "root"])
@pytest.mark.parametrize("kind", [manifest.FILE, "attached.json"])
@pytest.mark.parametrize(
    "how", ["group state", "group servers", "group server", "group file", "owned", "link"]
)
def test_a_server_that_others_can_have_planted_is_not_run(
    state: Path, how: str, kind: str, as_user: bool
) -> None:
    record = planted_server(state)
    if kind != manifest.FILE:
        record.unlink()
        record = record.with_name(kind)
        dsn = "mysql://me:x@127.0.0.1:1/"
        record.write_text(json.dumps({"name": "theirs", "family": "mysql", "dsn": dsn}))
    owner = NOBODY if as_user else 0
    for each in (state, *state.rglob("*")):
        os.chown(each, owner, OTHER_USER)
    with as_ordinary_user() if as_user else contextlib.nullcontext():
        assert added.added("theirs") is not None
    match how:
        case "group state":
            state.chmod(0o770)
        case "group servers":
            record.parent.parent.chmod(0o770)
        case "group server":
            record.parent.chmod(0o770)
        case "group file":
            record.chmod(0o664)
        case "owned":
            os.chown(record, OTHER_USER, OTHER_USER)
        case _:
            record.symlink_to(record.rename(record.with_name("elsewhere")))
            os.chown(record, OTHER_USER, OTHER_USER, follow_symlinks=False)
    with (
        as_ordinary_user() if as_user else contextlib.nullcontext(),
        pytest.raises(HostError, match=r"replace millrace's files|another user could have written"),
    ):
        added.added("theirs")


@pytest.mark.parametrize(
    ("name", "members", "others", "is_private"),
    [
        ("alice", [], [], True),
        ("alice", ["alice"], [], True),
        ("alice", ["bob"], [], False),
        ("alice", [], ["bob"], False),
        ("users", [], [], False),
    ],
)
def test_a_group_counts_as_others_unless_it_is_the_users_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    members: list[str],
    others: list[str],
    is_private: bool,
) -> None:
    def account(user: str, uid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((user, "x", uid, 500, "", "/", "/bin/sh"))

    group = grp.struct_group((name, "x", 500, members))
    everybody = [account("alice", 4242), *(account(each, 4243) for each in others)]
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: everybody[0])
    monkeypatch.setattr(pwd, "getpwall", lambda: everybody)
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    fields = list(tmp_path.stat())
    fields[:6] = [0o40775, 1, 1, 1, 4242, 500]
    assert may_others_write(os.stat_result(fields)) is not is_private
    fields[5] = 100  # another group
    assert may_others_write(os.stat_result(fields))


@only_root
@pytest.mark.parametrize("how", ["owned", "link", "open to all", "open to a group", "pipe"])
def test_an_account_that_others_can_have_written_is_none(
    state: Path, tmp_path: Path, directory: Path, how: str
) -> None:
    file = planted(state, directory)
    match how:
        case "owned":
            os.chown(file, OTHER_USER, 0)
        case "link":
            file.symlink_to(file.rename(tmp_path / "elsewhere.json"))
        case "pipe":
            file.unlink()
            os.mkfifo(file)
        case _:
            file.chmod(0o666 if how == "open to all" else 0o664)
    assert ownership.running() == []
    assert ownership.reap_orphans() == []
    assert directory.exists()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("etc", "work/etc"),
        (ID, f"work/before-{ID}"),
        (ID, f"work/millrace-{ID}"),
        ("-12345678", "work/-12345678"),
        ("..-12345678/..", "work"),
    ],
)
def test_an_account_of_what_millrace_never_makes_is_none(
    state: Path, tmp_path: Path, name: str, place: str
) -> None:
    directory = tmp_path / place
    directory.mkdir(parents=True)
    planted(state, directory, name=name.partition("/")[0], instance_id=name)
    assert ownership.running() == []
    assert ownership.reap_orphans() == []
    assert directory.exists()


def test_an_account_has_the_name_of_its_id_and_places_of_their_own(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(state, tmp_path / "work" / ID, name="another-00000000")
    assert ownership.running() == []
    monkeypatch.chdir(tmp_path)
    planted(state, ID)
    assert ownership.running() == []
    planted(state, tmp_path / "work" / ID, ownership.short_directory(ID))
    assert [account.id for account in ownership.running()] == [ID]


def test_a_directory_outside_the_work_directory_stays_until_a_command_works_there(
    state: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = planted(state, victim)
    (said,) = ownership.reap_orphans()
    assert said.endswith(f"a command with MILLRACE_WORK={victim.parent} removes it")
    assert victim.exists()
    assert file.exists()
    monkeypatch.setenv("MILLRACE_WORK", str(victim.parent))
    (said,) = ownership.reap_orphans()
    assert said.startswith(f"removed the instance {ID}")
    assert not victim.exists()
    assert not file.exists()


def test_who_locks_what_all_can_read_holds_nobody_up(state: Path) -> None:
    over = threading.Event()

    def reap() -> None:
        ownership.reap_orphans()
        over.set()

    held = [os.open(place, os.O_RDONLY) for place in (state, state / "instances")]
    for descriptor in held:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    thread = threading.Thread(target=reap)
    thread.start()
    is_over = over.wait(30)
    for descriptor in held:
        os.close(descriptor)
    thread.join()
    assert is_over


def test_waiting_for_another_user_is_reported(state: Path) -> None:
    said: list[str] = []
    waits = threading.Event()

    def listen(event: Emitted) -> None:
        assert isinstance(event, Notice)
        said.append(event.text)
        waits.set()

    thread = threading.Thread(target=ownership.reap_orphans, args=[listen])
    with exclusive(state / ".instances.lock", "the test", ignore):
        thread.start()
        was_told = waits.wait(30)
    thread.join()
    assert was_told
    (text,) = said
    assert text.endswith("waiting for another process: removing leftovers of killed commands")


def test_nobody_else_can_open_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive(lock, "the test", ignore):
        assert lock.stat().st_mode & 0o777 == 0o600
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), exclusive(lock, "the test", ignore):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def planted_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of another user that contains cache and snapshots."""
    place = tmp_path / "x"
    for name in ("cache", "snapshots"):
        (place / name).mkdir(parents=True)
        monkeypatch.setenv(f"MILLRACE_{name.upper()}", str(place / name))
    os.chown(place, OTHER_USER, OTHER_USER)
    return place


@only_root
@pytest.mark.parametrize(
    ("variable", "place"),
    [("MILLRACE_CACHE", paths.cache_dir), ("MILLRACE_SNAPSHOTS", paths.snapshots_dir)],
)
def test_root_uses_no_cache_and_no_snapshots_of_another_user(
    planted_place: Path, variable: str, place: Callable[[], Path]
) -> None:
    with pytest.raises(HostError, match=f"its owner, uid {OTHER_USER}") as caught:
        place()
    assert variable in (caught.value.hint or "")
    os.chown(planted_place, 0, 0)
    there = place()
    there.chmod(0o777)
    with pytest.raises(HostError, match="every user of this host"):
        place()
    there.rmdir()  # for a missing directory, its future parent is checked
    assert place() == there
    planted_place.chmod(0o777)
    with pytest.raises(HostError, match="every user of this host"):
        place()


@only_root
def test_no_command_uses_the_cache_of_another_user(planted_place: Path) -> None:
    assert planted_place.is_dir()
    with pytest.raises(HostError, match="could replace millrace's files"):
        install.list_servers()
    with pytest.raises(HostError, match="could replace millrace's files"):
        repository.listing()


@only_root
def test_a_lock_in_a_directory_that_another_user_made_is_refused(tmp_path: Path) -> None:
    suite = tmp_path / "clients/apt/bookworm"
    suite.mkdir(parents=True)
    os.chown(suite, OTHER_USER, OTHER_USER)
    with pytest.raises(HostError, match=str(OTHER_USER)), exclusive(suite / "lock", "apt", ignore):
        pass
    assert list(suite.iterdir()) == []


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
def test_files_for_apt_replace_planted_links(tmp_path: Path) -> None:
    root, victim = tmp_path / "apt", tmp_path / "victim"
    root.mkdir()
    victim.write_text("precious")
    for name in ("status", "sources.list"):
        (root / name).symlink_to(victim)
    with contextlib.suppress(HostError):  # the host has no Debian mirror
        deb._prepare(Deb("bookworm", "hello", None), root, tmp_path / "archives")
    assert victim.read_text() == "precious"
    assert not (root / "status").is_symlink()


@only_root
def test_nobody_removes_the_lock_of_the_host_while_root_holds_it(shared: Path) -> None:
    file = shared / "lock"
    file.touch()
    os.chown(file, OTHER_USER, OTHER_USER)
    with host_lock("mine", file=file):
        removing = subprocess.run(
            ["/bin/rm", "-f", str(file)],
            check=False,
            user=OTHER_USER,
            group=OTHER_USER,
            extra_groups=[],
            stderr=subprocess.DEVNULL,
        )
        assert removing.returncode == 1
        assert file.stat().st_mode & 0o777 == 0o666  # every user can use it afterwards
        with pytest.raises(UserError, match="another millrace"), host_lock("other", file=file):
            pass


def test_a_lock_that_was_removed_before_it_was_held_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lock = tmp_path / "lock", fcntl.flock

    def removed_before(descriptor: int, how: int) -> None:
        file.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with pytest.raises(HostError, match="was removed while"), host_lock("mine", file=file):
        pass


def test_names_of_sockets_add_nothing_to_those_that_listen() -> None:
    forged = b"0000000065bbcf3e: 00000002 00000000 00010000 0001 01 %d"
    with socket.socket(socket.AF_UNIX) as ours, socket.socket(socket.AF_UNIX) as theirs:
        inode = os.fstat(ours.fileno()).st_ino
        # A name outside any directory may contain anything; the kernel's table shows it unchanged.
        theirs.bind(b"\0%d\n0: 1 2 zz 4 5 6 7\n%s\n" % (os.getpid(), forged % inode))
        theirs.listen()
        listening = sockets.listening(os.getpid())
        assert os.fstat(theirs.fileno()).st_ino in listening
        assert inode not in listening


@only_root
def test_no_report_goes_into_a_pipe_of_another_user(tmp_path: Path) -> None:
    pipe = tmp_path / "report.json"
    os.mkfifo(pipe)
    os.chown(pipe, OTHER_USER, OTHER_USER)
    with pytest.raises(UserError, match=f"it is a named pipe of uid {OTHER_USER}"):
        write_text(pipe, "{}", Kind("JSON report"))
