"""Test that a server leaves no program, System V object or key to the next one with its user id."""

import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from millrace.model.servers import FittedOptions
from millrace.servers.instances import confinement, launch, lifecycle, users
from millrace.system_calls import call, in_own_thread
from tests.support import small_servers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")

SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
ID = Path(shutil.which("id") or "/usr/bin/id")

# Leaves a program under its own user id wherever it can, and runs one with root's set-user-ID bit.
LEAVE = """#!/bin/sh
chmod 0777 data tmp run
for place in {places} data tmp run; do
    cp {id} "$place/{name}" && chmod 6755 "$place/{name}" && echo "left in $place"
done 2>/dev/null
echo "as $({of_root} -u)"
"""

# Works with another user of the host, who passes it a directory: makes a file there, one without a
# name, and one in its own directory, and passes back its open descriptors.
CONSPIRE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int talk(int to, int descriptor, int receive) {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {0};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!receive) {
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
        return sendmsg(to, &message, 0);
    }
    if (recvmsg(to, &message, 0) != 1) return -1;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return descriptor;
}

static void leave(int to, int directory, const char *name, int flags) {
    int program = open("@PROGRAM@", O_RDONLY), made = openat(directory, name, flags | O_RDWR, 0700);
    if (made < 0) return;
    while (sendfile(made, program, 0, 1 << 20) > 0) {}
    fchmod(made, 06755);
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", made);
    int opened = open(again, O_RDONLY);
    close(made);
    talk(to, opened, 0);
}

int main(void) {
    int to = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {AF_UNIX, "@SOCKET@"};
    if (connect(to, (struct sockaddr *) &address, sizeof address) != 0) return 1;
    int directory = talk(to, -1, 1);
    leave(to, directory, "@NAME@", O_CREAT);
    leave(to, directory, ".", O_TMPFILE);
    leave(to, AT_FDCWD, "data/@NAME@", O_CREAT);
    return 0;
}
"""


@pytest.fixture
def name() -> Iterator[str]:
    """Return the name of the file left behind; remove it wherever a server could leave it."""
    chosen = f"left-{secrets.token_hex(8)}"
    yield chosen
    for directory in SHARED:
        (directory / chosen).unlink(missing_ok=True)


@pytest.fixture
def other_user() -> Iterator[int]:
    with users.reserved() as uid:
        assert uid is not None
        yield uid


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the program of a server, which tests replace."""
    return small_servers.tree(tmp_path / "small/tree") / "bin/mysqld"


@pytest.fixture
def leaving(program: Path, tmp_path: Path, name: str, shared: Path) -> Path:
    """Return a server's program that leaves others, and runs one with root's set-user-ID bit."""
    of_root = tmp_path / "of-root"
    shutil.copyfile(ID, of_root)
    of_root.chmod(0o4755)
    places = " ".join(map(str, (*SHARED, shared)))
    program.write_text(LEAVE.format(id=ID, places=places, name=name, of_root=of_root))
    return program


def refuse(_writable: Sequence[Path]) -> None:
    raise PermissionError(1, "not on this host")


def leave_out(layer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this host refuse a layer; skip the test where it allows no other one."""
    if layer is not None:
        monkeypatch.setattr(confinement, layer, refuse)
    lacking = [each for each in confinement.lacking() if "IPC" not in each]
    if len(lacking) == 2:
        pytest.skip("; ".join(lacking))


def run_as(uid: int, program: Path | str, *descriptors: int) -> str:
    """Return the user as which a copy of ``id`` runs when ``uid`` starts it."""
    ran = subprocess.run(
        [program, "-u"], user=uid, group=uid, extra_groups=[], cwd="/", pass_fds=descriptors,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return ran.stdout.strip()


def test_mounts_that_this_host_allows_are_used() -> None:
    bind = ["unshare", "--mount", "mount", "--bind", "/tmp", "/tmp"]
    if subprocess.run(bind, check=False, capture_output=True).returncode != 0:
        pytest.skip("this host allows no mount namespace")
    assert not any("mount namespace" in each for each in confinement.lacking())


@pytest.mark.parametrize("refused", [None, "_own_mounts", "_landlock"])
def test_a_server_leaves_no_program_and_gains_no_right(
    refused: str | None, leaving: Path, name: str, shared: Path, other_user: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    leave_out(refused, monkeypatch)
    server = small_servers.installed(leaving.parents[1])
    with lifecycle.create(server, FittedOptions("default", ())) as instance:
        _, said = instance.program_output([], 30)
        uid = instance.data_dir.stat().st_uid
        assert said.splitlines() == ["left in data", "left in tmp", "left in run", f"as {uid}"]
        assert [place for place in (*SHARED, shared) if (place / name).exists()] == []
        for place in ("data", "tmp", "run"):
            left = instance.directory / place / name
            assert left.stat().st_mode & stat.S_ISUID
            with pytest.raises(PermissionError):
                run_as(other_user, left)


@pytest.mark.parametrize("refused", [None, "_own_mounts", "_landlock"])
def test_the_program_of_an_archive_leaves_nothing(
    refused: str | None, leaving: Path, name: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(refused, monkeypatch)
    ran = launch.run_once("small", [str(leaving)], {}, ["--version"], 30)
    said = ran.output.splitlines()
    assert len(said) == 1
    assert int(said[0].removeprefix("as ")) in users.IDS
    assert [place for place in (*SHARED, shared) if (place / name).exists()] == []


def test_descriptors_that_another_user_and_a_server_exchange_are_of_no_use(
    program: Path, tmp_path: Path, name: str, shared: Path, other_user: int
) -> None:
    if lacking := confinement.lacking():
        pytest.skip("; ".join(lacking))
    address = tmp_path / "s"
    source = CONSPIRE.replace("@PROGRAM@", str(ID)).replace("@SOCKET@", str(address))
    small_servers.compiled(program, source.replace("@NAME@", name))
    received: list[int] = []

    def exchange() -> None:
        directory = os.open(shared, os.O_RDONLY | os.O_DIRECTORY)
        server = listener.accept()[0]
        with server:
            socket.send_fds(server, [b"x"], [directory])
            while (got := socket.recv_fds(server, 1, 1))[0]:
                received.extend(got[1])
        os.close(directory)

    with (
        socket.socket(socket.AF_UNIX) as listener,
        lifecycle.create(
            small_servers.installed(program.parents[1]), FittedOptions("default", ())
        ) as instance,
    ):
        listener.bind(str(address))
        address.chmod(0o777)
        listener.listen()
        listener.settimeout(30)
        friend = threading.Thread(target=exchange)
        friend.start()
        status, _ = instance.program_output([], 30)
        friend.join()
        try:
            ran = [run_as(other_user, f"/proc/self/fd/{each}", each) for each in received]
        finally:
            for each in received:
                os.close(each)
    assert status == 0
    assert ran == [str(other_user)]  # only the file in the server's own directory
    assert list(shared.iterdir()) == []


ADD_KEY = 248 if os.uname().machine == "x86_64" else 217

# Reports which of these exist: "look" makes nothing, "key" looks in the session keyring alone.
IPC = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "key")) {
        if (syscall(SYS_keyctl, 10, -3, "user", "@NAME@", 0) >= 0) puts("key");
        return 0;
    }
    int looks = argc == 2 && !strcmp(argv[1], "look"), make = looks ? 0 : IPC_CREAT | 0600;
    if (!looks) syscall(SYS_add_key, "user", "@NAME@", "secret", 6, -4);
    if (syscall(SYS_keyctl, 10, -4, "user", "@NAME@", 0) >= 0) puts("key");
    if (shmget(@KEY@, 4096, make) >= 0) puts("memory");
    if (semget(@KEY@, 1, make) >= 0) puts("semaphore");
    if (msgget(@KEY@, make) >= 0) puts("queue");
    if (syscall(SYS_mq_open, "@NAME@", O_RDWR | (looks ? 0 : O_CREAT), 0600, 0) >= 0) puts("mq");
    return 0;
}
"""


@pytest.fixture
def key_name() -> str:
    return f"millrace-{secrets.token_hex(4)}"


@pytest.fixture
def tree(tmp_path: Path, key_name: str) -> Path:
    tree = small_servers.tree(tmp_path / "small/tree")
    source = IPC.replace("@NAME@", key_name).replace("@KEY@", str(secrets.randbelow(1 << 30) + 1))
    small_servers.compiled(tree / "bin/mysqld", source)
    return tree


def test_nothing_that_a_server_shares_outlives_it(tree: Path) -> None:
    with lifecycle.create(small_servers.installed(tree), FittedOptions("default", ())) as instance:
        uid = instance.data_dir.stat().st_uid
        if any("IPC" in each for each in confinement.lacking()):
            pytest.skip("this host allows no IPC namespace")
        _, made = instance.program_output([], 30)
        assert {"memory", "semaphore", "queue"} <= set(made.split())
    with users.held(uid) as ours:
        assert ours
        found = subprocess.run(
            [tree / "bin/mysqld", "look"], user=uid, group=uid, extra_groups=[], cwd="/",
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    assert found.stdout.split() == []


def test_a_server_has_no_key_of_roots_session(tree: Path, key_name: str) -> None:
    def started() -> str:
        users.leave_session_keyring()
        try:
            call(ADD_KEY, b"user", key_name.encode(), b"secret", 6, -3)
        except OSError:
            pytest.skip("this host has no keys")
        with tempfile.TemporaryFile() as said, users.reserved() as uid:
            program = [str(tree / "bin/mysqld"), "key"]
            confinement.popen(
                program, uid=uid, writable=(), env={}, cwd=Path("/"),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            ).wait(30)  # fmt: skip
            said.seek(0)
            return said.read().decode()

    assert in_own_thread(started) == ""
