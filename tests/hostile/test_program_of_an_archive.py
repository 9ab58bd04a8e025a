"""Test that a version query of a hostile archive's program does no harm."""

import os
import random
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from elftools.common.exceptions import ELFError

from millrace.errors import MillraceError
from millrace.host import elf
from millrace.model.servers import FittedOptions
from millrace.servers import added
from millrace.servers.instances import confinement, launch, lifecycle, processes, users
from tests.support import small_servers

pytestmark = pytest.mark.usefixtures("places")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as others")

SPY = """
#include <stdio.h>
#include <unistd.h>
int main(void) {
    extern char **environ;
    if (fork() == 0) { setsid(); for (;;) pause(); }
    fprintf(stderr, "%d %d\\n", getuid(), getgid());
    for (char **each = environ; *each; each++) fprintf(stderr, "%s\\n", *each);
    return 1;
}
"""

TRACED = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>
int main(void) {
    int ready[2];
    char byte;
    pipe(ready);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        for (int number = 1; number < 32; number++) signal(number, SIG_IGN);
        while (ptrace(PTRACE_SEIZE, getppid(), 0, 0) != 0) usleep(1000);
        write(ready[1], "x", 1);
        for (;;) pause();
    }
    prctl(PR_SET_PTRACER, child);
    read(ready[0], &byte, 1);
    fcntl(1, F_SETFL, O_DIRECT);
    fprintf(stderr, "traced by %d\\n", child);
    return 1;
}
"""

CALLER = """
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/socket.h>
int main(int count, char **words) {
    struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(atoi(words[1])) };
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int sock = socket(AF_INET, SOCK_STREAM, 0);
    int done = connect(sock, (struct sockaddr *) &there, sizeof there);
    printf("%s\\n", done == 0 ? "connected" : strerror(errno));
    return 0;
}
"""

FLOOD = """
#include <stdio.h>
int main(void) {
    puts("mysqld  Ver 5.7.99 for Linux");
    for (;;) puts("more and more and more and more and more and more and more and more");
}
"""


def archive(tmp_path: Path, source: str) -> str:
    tree = small_servers.tree(tmp_path / "vendor")
    small_servers.compiled(tree / "bin/mysqld", source)
    return str(small_servers.tarball(tree, tmp_path / "vendor.tar.gz"))


def test_program_runs_without_root_or_secrets_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERY_SECRET_TOKEN", "hidden")
    with pytest.raises(MillraceError, match="cannot be run on this host") as caught:
        added.add_tarball("spy", "mysql", archive(tmp_path, SPY))
    said = caught.value.message.partition("cannot be run on this host:")[2]
    ids, *environment = said.strip().splitlines()
    if os.geteuid() == 0:
        assert "0" not in ids.split()
    names = {line.partition("=")[0] for line in environment}
    assert names <= {"PATH", "LC_ALL", "TZ", "HOME", "LD_LIBRARY_PATH", "PWD"}
    uid = int(ids.split()[0])
    if uid != os.geteuid():
        assert users.pids_of(uid) == []


def test_a_flood_of_words_ends_and_the_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="cannot be run on this host"):
        added.add_tarball("flood", "mysql", archive(tmp_path, FLOOD))
    assert added.all_added() == []


def test_a_damaged_program_is_an_error_of_its_own_kind(tmp_path: Path) -> None:
    whole = small_servers.program(tmp_path / "mysqld", "5.7.99", "-g").read_bytes()
    damaged = tmp_path / "damaged"
    chance = random.Random(7)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 12)):
            # Headers of the file, and those of its sections at its end.
            place = chance.choice((chance.randrange(64), -chance.randrange(1, 2000)))
            content[place] = chance.randrange(256)
        damaged.write_bytes(content)
        elf.needed(damaged)
        with suppress(ELFError):
            elf.read(damaged)


@only_root
def test_a_program_that_is_traced_by_its_child_ends_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = small_servers.tree(tmp_path / "vendor") / "bin/mysqld"
    small_servers.compiled(program, TRACED)
    tmp_path.chmod(0o755)
    ended: list[int] = []
    end_all_of = processes.end_all_of

    def note_and_end(uid: int) -> None:
        ended.append(uid)
        end_all_of(uid)

    monkeypatch.setattr(processes, "end_all_of", note_and_end)
    with pytest.raises(subprocess.TimeoutExpired):
        launch.run_once("traced", [str(program)], {}, ["--version"], limit_s=3)
    (uid,) = set(ended)
    assert users.pids_of(uid) == []


@only_root
def test_an_instance_that_is_traced_by_its_child_is_seen_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_WORK", str(tmp_path / "work"))
    tree = small_servers.tree(tmp_path / "tree")
    small_servers.compiled(tree / "bin/mysqld", TRACED)
    tmp_path.chmod(0o755)
    with lifecycle.create(small_servers.installed(tree), FittedOptions("default", ())) as instance:
        status, _ = instance.program_output([], limit_s=3)
    assert status == 1


@only_root
def test_a_program_that_is_run_for_its_answer_has_no_network(tmp_path: Path) -> None:
    if any("network namespace" in each for each in confinement.lacking()):
        pytest.skip("this host allows no network namespace")
    program = small_servers.tree(tmp_path / "vendor") / "bin/mysqld"
    small_servers.compiled(program, CALLER)
    tmp_path.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        answer = subprocess.run([str(program), port], capture_output=True, text=True, check=True)
        assert answer.stdout == "connected\n"
        done = launch.run_once("caller", [str(program)], {}, [port], limit_s=30)
    assert (done.status, done.output) == (0, "Network is unreachable\n")
