"""Test that a server leaves no System V object or key to the next one with its user id."""

import os
import secrets
import subprocess
import tempfile
from pathlib import Path

import pytest

from millrace.model.servers import FittedOptions
from millrace.servers.instances import confinement, lifecycle, users
from millrace.system_calls import call, in_own_thread
from tests.support import small_servers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")

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
def name() -> str:
    return f"millrace-{secrets.token_hex(4)}"


@pytest.fixture
def tree(tmp_path: Path, name: str) -> Path:
    tree = small_servers.tree(tmp_path / "small/tree")
    source = IPC.replace("@NAME@", name).replace("@KEY@", str(secrets.randbelow(1 << 30) + 1))
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


def test_a_server_has_no_key_of_roots_session(tree: Path, name: str) -> None:
    def started() -> str:
        users.leave_session_keyring()
        try:
            call(ADD_KEY, b"user", name.encode(), b"secret", 6, -3)
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
