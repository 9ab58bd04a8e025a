"""Test that neither an archive nor its program reaches anything of the host."""

import os
import random
import socket
import struct
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.common.exceptions import ELFError

from millrace import databases
from millrace.databases.base import Located
from millrace.databases.mysql.packaging import MysqlPackaging
from millrace.errors import MillraceError, TrialFailed, UserError
from millrace.host import elf
from millrace.host.read_as_user import read_as_user
from millrace.model.servers import Artefact, FittedOptions, InstalledServer
from millrace.servers import added, install
from millrace.servers.instances import confinement, launch, lifecycle, processes, users
from millrace.servers.sources import fetch
from millrace.servers.unpack import Unusable, unpack
from tests.support import small_servers
from tests.unit.databases.test_base import SCRIPTS, site

pytestmark = pytest.mark.usefixtures("places")


def elf_of(dynamic: bytes, names: bytes) -> bytes:
    """Return an ELF file of four sections, with this dynamic section and these names."""
    titles = b"\0.dynamic\0.dynstr\0.shstrtab\0"
    parts = (dynamic, names, titles)
    begins = [64 + sum(map(len, parts[:number])) for number in range(4)]
    header = struct.Struct("<IIQQQQIIQQ")
    sections = [
        header.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        header.pack(1, 6, 3, 0, begins[0], len(dynamic), 2, 0, 8, 16),
        header.pack(10, 3, 2, 0x1000, begins[1], len(names), 0, 0, 1, 0),
        header.pack(18, 3, 0, 0, begins[2], len(titles), 0, 0, 1, 0),
    ]
    head = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, begins[3], 0, 64, 56, 0, 64, 4, 3)
    return b"\x7fELF\2\1\1" + bytes(9) + head + b"".join(parts) + b"".join(sections)


def needing(count: int, name: bytes) -> bytes:
    tag = struct.Struct("<QQ")
    end = tag.pack(5, 0x1000) + tag.pack(0, 0)
    return elf_of(tag.pack(1, 1) * count + end, b"\0" + name + b"\0")


def test_a_library_is_needed_by_its_name_alone(tmp_path: Path) -> None:
    file = tmp_path / "plugin.so"
    for name in ("libz.so.1", "/etc/shadow", "../../etc/shadow"):
        file.write_bytes(needing(1, name.encode()))
        assert elf.needed(file) == (() if "/" in name else (name,))


@pytest.mark.parametrize(("count", "name"), [(1, b"a" * 256), (1_001, b"libz.so")])
def test_more_libraries_than_a_program_has_are_damage(
    tmp_path: Path, count: int, name: bytes
) -> None:
    file = tmp_path / "mysqld"
    file.write_bytes(needing(count, name))
    assert elf.needed(file) == ()
    with pytest.raises(ELFError, match="too many required libraries"):
        elf.read(file)


def test_sections_without_end_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf, "_MOST_READS", 20_000)  # a million take seconds
    content = bytearray(needing(1, b"libz.so"))
    begin = struct.unpack_from("<Q", content, 40)[0]
    struct.pack_into("<H", content, 60, 0)  # the number of sections is in the size of the first
    content += bytes(1 << 20)
    struct.pack_into("<Q", content, begin + 32, (len(content) - begin) // 64)
    file = tmp_path / "mysqld"
    file.write_bytes(content)
    with pytest.raises(ELFError, match="more than 20,000 read operations"):
        elf.read(file)


def test_a_long_comment_is_cut(tmp_path: Path) -> None:
    tree = small_servers.tree(tmp_path / "vendor")
    (tmp_path / "comment").write_bytes(b"x" * 2_000_000 + b"\0")
    changed = f".comment={tmp_path / 'comment'}"
    subprocess.run(["objcopy", "--update-section", changed, tree / "bin/mysqld"], check=True)
    server = added.add_tarball("long", "mysql", packed(tree, tmp_path))
    assert server.provenance.compiler == "x" * 200
    assert added.added("long") == server


def test_a_version_without_end_is_none(tmp_path: Path) -> None:
    tree = small_servers.tree(tmp_path / "vendor", "5.7." + "9" * 5_000)
    with pytest.raises(MillraceError):
        added.add_tarball("long", "mysql", packed(tree, tmp_path))


def test_a_damaged_record_is_shown_and_stops_no_other_command(tmp_path: Path) -> None:
    tree = small_servers.tree(tmp_path / "vendor")
    added.add_tarball("broken", "mysql", packed(tree, tmp_path))
    record = tmp_path / "state/servers/broken/server.json"
    record.write_text("[" * 100_000, encoding="utf-8")
    [row] = [row for row in install.list_servers() if row.name == "broken"]
    assert row.state == "damaged"
    assert str(record) in (row.source or "")
    with pytest.raises(MillraceError, match="cannot be read"):
        install.find("broken")


@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_a_sparse_file_is_refused(tmp_path: Path, form: str) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"x")
    archive = tmp_path / "a.tar"
    into = ["-cf", str(archive), "-C", str(tmp_path)]
    subprocess.run(["tar", "--sparse", f"--format={form}", *into, "holes"], check=True)
    with pytest.raises(Unusable, match="sparse file"):
        unpack(archive, tmp_path / "out")


def test_what_was_hashed_is_what_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Path(packed(small_servers.tree(tmp_path / "right/vendor"), tmp_path / "right"))
    wrong = Path(
        packed(small_servers.tree(tmp_path / "wrong/vendor", "5.7.66"), tmp_path / "wrong")
    )
    hashed = fetch._artefact

    def hashed_and_swapped(coordinate: str, file: Path) -> Artefact:
        found = hashed(coordinate, file)
        wrong.replace(right)
        return found

    monkeypatch.setattr(fetch, "_artefact", hashed_and_swapped)
    server = added.add_tarball("swapped", "mysql", str(right))
    assert isinstance(server, InstalledServer)
    assert server.version == "5.7.99"


def packed(tree: Path, directory: Path) -> str:
    return str(small_servers.tarball(tree, directory / "vendor.tar.gz"))


def test_a_build_of_another_user_changes_no_file_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner can let the program lead to any file once millrace has found it."""
    tree = small_servers.tree(tmp_path / "build")
    victim = tmp_path / "shadow"
    victim.write_text("root's")
    victim.chmod(0o600)
    locate = MysqlPackaging.locate

    def locate_and_replace(packaging: MysqlPackaging, directory: Path) -> Located:
        located = locate(packaging, directory)
        located.program.unlink()
        located.program.symlink_to(victim)
        return located

    monkeypatch.setattr(MysqlPackaging, "locate", locate_and_replace)
    with pytest.raises(UserError, match="bin/mysqld is not executable") as caught:
        added.add_directory("mine", "mysql", tree)
    assert "chmod +x" in (caught.value.hint or "")
    assert victim.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read files of others")
def test_a_build_of_another_user_is_fed_no_file_that_only_root_may_read(tmp_path: Path) -> None:
    where = replace(site(tmp_path, "mysql-5.6.24"), uid=60_950)
    for parent in tmp_path.parents[:-1]:
        if parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    lifecycle = databases.get("mysql").lifecycle
    assert SCRIPTS[0].encode() in lifecycle.initialisation(where, ()).stdin
    victim = tmp_path / "shadow"
    victim.write_text("root's")
    victim.chmod(0o600)
    script = where.server.share_dir / SCRIPTS[0]
    script.unlink()
    script.symlink_to(victim)
    with pytest.raises(TrialFailed, match="not readable by uid 60950: Permission denied"):
        lifecycle.initialisation(where, ())


@pytest.mark.parametrize("uid", [None, 60_950])
def test_a_script_without_end_is_refused(tmp_path: Path, uid: int | None) -> None:
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root may become another user")
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        read_as_user(Path("/dev/zero"), uid, limit_bytes=10)


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
