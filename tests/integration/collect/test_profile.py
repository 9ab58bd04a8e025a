"""Test CPU profiles of real servers under load."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from millrace.collect import profile
from millrace.collect.model import Target
from millrace.collect.profiling import recording
from millrace.collect.profiling.recording import Recording, Settings
from millrace.errors import Unavailable
from millrace.host import perf
from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance
from tests.conftest import InstanceOf, ServerOf
from tests.support.driven import document_of

pytestmark = pytest.mark.integration

OLD, NEW, OWN_LOADER = "mysql-5.6.24", "mysql-8.0.33", "mysql-9.7.4"
WITHOUT_FRAME_POINTERS = "mysql-5.5.9"
STRIPPED = "mariadb-10.11.19"

BUFFER_POOL = {"innodb_buffer_pool_size": "64M"}
# CPU time of a server that is profiled under load: 300 samples, 4 % or more of them in the parser.
WORK_S = 1.5
LESS_WORK_S = 0.5  # for tests that need samples of any function
SHORT_S = 0.3  # at least; with clients it takes as long as their work
LIMIT_S = 60.0


@pytest.fixture(autouse=True, scope="module")
def some_perf() -> None:
    try:
        perf.find()
    except Unavailable as why:
        pytest.skip(f"{why}; {why.hint}")


@pytest.fixture(scope="module")
def old(some_perf: None, instance_of: InstanceOf) -> Iterator[Instance]:
    """Return a server with loaded tables, which most tests only profile."""
    with instance_of(OLD, **BUFFER_POOL) as instance:
        prepare(instance)
        yield instance


@dataclass(frozen=True)
class Profiled:
    """A profile, with its samples by the innermost function, and by the functions above it.

    ``took_s`` is the time from before its begin until after its end.
    """

    section: Mapping[str, Any]
    took_s: float
    own: Counter[str]
    total: Counter[str]

    @property
    def samples(self) -> int:
        return int(self.section["samples"])


def target(instance: Instance) -> Target:
    return Target(instance, instance.pid, instance.data_dir, "sbtest", {}, limit_s=10)


def profiled(
    instance: Instance, seconds: float, *, clients: int = 0, work_s: float = WORK_S
) -> Profiled:
    """Profile the server while clients read single rows, each statement as text.

    With clients it takes as long as a busy host lets the server work, and ``seconds`` at least.
    """
    with contextlib.ExitStack() as opened:
        observer = profile.collector(target(instance))
        opened.callback(observer.close)
        if clients:
            opened.enter_context(driven(instance, clients))
            work(instance, 0.1)
        began_s = time.monotonic()
        observer.begin()
        time.sleep(seconds)
        if clients:
            work(instance, work_s)
        observer.end()
        took_s = time.monotonic() - began_s
        found = document_of([observer])
    section = {**found[profile.NAME], "missing": found["missing"]}
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, count in section["stacks"].items():
        frames = stack.split(";")
        own[frames[-1]] += count
        total.update(dict.fromkeys(frames, count))
    assert sum(own.values()) == section["samples"]
    return Profiled(section, took_s, own, total)


def work(instance: Instance, cpu_s: float) -> None:
    """Wait until the server has worked for this CPU time."""
    server = psutil.Process(instance.pid)
    enough_s = sum(server.cpu_times()[:2]) + cpu_s
    deadline = time.monotonic() + LIMIT_S
    while sum(server.cpu_times()[:2]) < enough_s:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def driven(instance: Instance, clients: int) -> Iterator[None]:
    process = subprocess.Popen(
        command(instance, "run", f"--time={3 * LIMIT_S:.0f}", f"--threads={clients}"),
        env={**os.environ, "MYSQL_PWD": instance.password},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def prepare(instance: Instance) -> None:
    instance.query("CREATE DATABASE sbtest")
    subprocess.run(
        command(instance, "prepare"),
        env={**os.environ, "MYSQL_PWD": instance.password},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def command(instance: Instance, *options: str) -> list[str]:
    return [
        str(find_load_generator()), "bench", *options, "--workload=oltp_point_select",
        "--table-size=2000", "--db-ps-mode=disable", f"--socket={instance.socket}",
        f"--user={instance.user}",
    ]  # fmt: skip


def is_whole(section: Mapping[str, Any]) -> bool:
    """Return whether this host permits everything that a good profile needs."""
    return not any("permission" in each["what"] for each in section["missing"])


@pytest.mark.parametrize(
    ("name", "program", "parser"),
    [
        (NEW, "mysqld", "MYSQLparse"),
        (OWN_LOADER, "mysqld", "my_sql_parser_parse"),
        (STRIPPED, "mariadbd", "parse_sql"),
        (WITHOUT_FRAME_POINTERS, "mysqld", "MYSQLparse"),
    ],
)
def test_a_profile_shows_functions_with_their_callers(
    instance_of: InstanceOf, name: str, program: str, parser: str
) -> None:
    with instance_of(name, **BUFFER_POOL) as instance:
        prepare(instance)
        seen = profiled(instance, SHORT_S, clients=2)
    check_functions(seen, program, parser)
    if name == STRIPPED:
        lacking = [each for each in seen.section["missing"] if "mariadbd" in each["what"]]
        assert len(lacking) == 1
        assert "names of functions" in lacking[0]["what"]
        assert "debug symbols" in lacking[0]["hint"]


def check_functions(seen: Profiled, program: str, parser: str) -> None:
    modifier = "" if seen.section["with_kernel"] else ":u"
    assert seen.section["event"] in (f"cycles{modifier}", f"cpu-clock{modifier}")
    assert seen.section["call_graph"] in ("dwarf", "fp", "none")
    assert SHORT_S <= seen.section["seconds"] <= seen.took_s
    assert seen.samples > 20
    assert seen.total[f"{program}`{parser}"] > 0
    if seen.section["call_graph"] == "dwarf":
        assert seen.total["libc.so`start_thread"] > 0.9 * seen.samples
    assert not any("ld-linux" in frame for frame in seen.own)
    if is_whole(seen.section):
        assert seen.total["[kernel]`do_syscall_64"] + seen.total["[kernel]`el0_svc"] > 0


def test_functions_are_under_the_kinds_of_their_threads(old: Instance) -> None:
    seen = profiled(old, SHORT_S, clients=2)
    check_functions(seen, "mysqld", "MYSQLparse")
    assert seen.total["connection"] > 0.9 * seen.samples


def test_an_idle_server_has_nearly_no_samples(old: Instance) -> None:
    time.sleep(1)
    seen = profiled(old, 2)
    assert seen.samples < 0.05 * 2 * seen.section["frequency_hz"]


@pytest.mark.parametrize(
    "settings", [Settings(199, "dwarf", 32768), Settings(499, "fp"), Settings(499, "none")]
)
@pytest.mark.parametrize("has_control", [True, False])
def test_all_ways_to_record(old: Instance, settings: Settings, has_control: bool) -> None:
    """Test also a perf that cannot be controlled to begin and end."""
    by = perf.find()
    if has_control and not by.has_control:
        pytest.skip("this perf has no --control")
    by = perf.Perf(by.program, by.unwinds, has_control, by.has_size_limit)
    assert old.pid is not None
    with contextlib.closing(Recording(by, old.pid, settings)) as recorded:
        with driven(old, 2):
            work(old, 0.1)
            recorded.begin()
            if not has_control:
                wait_until_it_samples()
            work(old, LESS_WORK_S)
            recorded.end()
        assert recorded.granted().frequency_hz == settings.frequency_hz
        assert not recorded.was_cut
        lines = list(recorded.lines())
    assert sum("mysqld" in line for line in lines) > 20


def test_a_profile_that_grows_too_large_ends_early(
    old: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_LARGEST_BYTES", 4 << 20)
    seen = profiled(old, 2, clients=2)
    assert seen.section["seconds"] < seen.took_s
    assert "the end of the profile" in str(seen.section["missing"])
    assert seen.samples > 0


def test_frame_pointers_of_real_builds(server_of: ServerOf) -> None:
    kept = {name: profile.frame_pointers_are_kept(server_of(name).program) for name in (
        OLD, NEW, OWN_LOADER, STRIPPED, WITHOUT_FRAME_POINTERS,
    )}  # fmt: skip
    assert kept == {
        OLD: True, NEW: True, OWN_LOADER: True, STRIPPED: True, WITHOUT_FRAME_POINTERS: False,
    }  # fmt: skip


def test_threads_are_followed_where_whole_cpus_are_not_to_be_sampled(
    old: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_ALL_CPUS", "--refused")
    seen = profiled(old, SHORT_S, clients=2, work_s=LESS_WORK_S)
    assert seen.samples > 20
    assert not is_whole(seen.section)


def test_profile_is_unavailable_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    before, descriptors = children(), len(list(Path("/proc/self/fd").iterdir()))
    settings = Settings(97, "dwarf", 1 << 20)  # more of a stack than any kernel copies
    with pytest.raises(Unavailable, match="perf cannot record"):
        Recording(perf.find(), os.getpid(), settings)
    assert children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_nothing_is_left_of_a_profile_that_was_not_ended(old: Instance) -> None:
    before, descriptors = children(), len(list(Path("/proc/self/fd").iterdir()))
    observer = profile.collector(target(old))
    assert children() - before != set()
    observer.begin()
    observer.close()
    assert children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    observer.close()


KILLED = """
import sys, time
from millrace.host import perf
from millrace.collect.profiling.recording import Recording, Settings
recorded = Recording(perf.find(), int(sys.argv[1]), Settings(199, "none"))
recorded.begin()
print("recording", flush=True)
time.sleep(60)
"""


def test_perf_ends_when_we_are_killed(old: Instance, child_environment: dict[str, str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(old.pid)], stdout=subprocess.PIPE, env=child_environment
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"recording\n"
        (recorder,) = children(child.pid)
        child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{recorder}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{recorder}").exists()


def wait_until_it_samples() -> None:
    """Wait until perf, which was just started, samples: first it reads the mappings of processes.

    Then it sleeps between its buffers. A kernel that does not show this gets 4 s."""
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:
        for child in children():
            with contextlib.suppress(OSError):
                process = Path(f"/proc/{child}")
                if (process / "comm").read_text(encoding="utf-8").startswith("perf") and "poll" in (
                    process / "wchan"
                ).read_text(encoding="ascii"):
                    return
        time.sleep(0.01)


def children(pid: int | None = None) -> set[int]:
    """Return the living children of a process, by default this one."""
    said = Path(f"/proc/{pid or os.getpid()}/task").glob("*/children")
    return {int(each) for file in said for each in file.read_text(encoding="ascii").split()}
