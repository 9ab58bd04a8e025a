"""Test the sampler of threads, samplers that do not work, and the section of their counts."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from millrace import databases
from millrace.collect import thread_states
from millrace.collect.collectors import as_json
from millrace.collect.thread_states import (
    Activity,
    Context,
    Sampled,
    StateCollector,
    ThreadSampler,
    classify,
    target_kind,
)
from millrace.collect.threads.thread_watch import ThreadActivity, ThreadWatch
from millrace.databases.base import ServerClient
from millrace.databases.monitoring import FileKinds
from millrace.errors import TrialFailed, Unavailable
from millrace.host import sockets, syscalls
from millrace.host.sockets import Sockets
from millrace.loadgen.statement_activity import StatementActivity
from tests.unit.loadgen.test_statement_activity import written

DATA = "/var/lib/work/mysql-8.0.33-fbeda679/data"
SOCKETS = Sockets(listening=frozenset({10, 11}), own=frozenset({20}))
MYSQL = databases.get("mysql").monitoring

FILES = FileKinds(((re.compile(r"ib_logfile\d"), "redo log"),), frozenset({"redo log"}))
CONTEXT = Context(Sockets(frozenset({10}), frozenset({20})), FILES, architecture="x86_64")
FUTEX, FSYNC, POLL, IO_GETEVENTS = 202, 74, 7, 208


def state(count: int, letter: str = "S", call: int | None = None, **more: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(("target", "wchan", "stack"))
    known = {"state": letter, "syscall": call, "count": count, "seconds": 0.01 * count}
    return {**unknown, **known, "during_sync": 0, **more}


COUNTS: dict[str, Any] = {
    "type": "threads",
    "rate_hz": 97.5,
    "ticks": 100,
    "cpu_s": 0.02,
    "realtime": True,
    "window_s": 1.03,
    "ended": False,
    "threads": [
        {
            "tid": 7,
            "name": "connection",
            "ticks": 100,
            "states": [
                state(30, call=FUTEX, during_sync=25),
                state(20, "D", FSYNC, target="/data/ib_logfile0", wchan="jbd2_log_wait_commit"),
                state(15, "D", FSYNC, target="/data/ib_logfile1", wchan="jbd2_log_wait_commit"),
                state(20, "R"),
                state(15, call=POLL, target="socket:[30]"),
            ],
            "statements": [
                {"statement": None, "states": [state(9, call=POLL, target="socket:[30]")]},
                {
                    "statement": "update",
                    "states": [
                        state(20, call=FUTEX, during_sync=5),
                        state(4, "D", FSYNC, target="/data/ib_logfile0"),
                        state(3, "D", FSYNC, target="/data/ib_logfile1"),
                    ],
                },
            ],
        },
        {
            "tid": 8,
            "name": "mysqld",
            "ticks": 100,
            "states": [state(100, call=IO_GETEVENTS)],
            "statements": [],
        },
        {
            "tid": 9,
            "name": "connection",
            "ticks": 2,
            "states": [state(2, "R")],
            "statements": [
                {"statement": "update", "states": [state(1, call=FUTEX), state(1, "R")]}
            ],
        },
    ],
}


def sampled(counts: dict[str, Any] = COUNTS) -> Sampled:
    return TypeAdapter(Sampled).validate_python(counts)


def section(counts: dict[str, Any], kinds: dict[int, str]) -> Any:
    return as_json(thread_states.classified(sampled(counts), kinds, CONTEXT))


def test_the_section() -> None:
    found = section(COUNTS, {7: "connection"})
    for name in ("rate_hz", "ticks", "cpu_s", "realtime"):
        assert found[name] == COUNTS[name]
    first, second, _ = found["threads"]
    assert (first["tid"], first["kind"], first["ticks"]) == (7, "connection", 100)
    assert second["kind"] == "background"
    assert [(each["class"], each["count"]) for each in first["states"]] == [
        ("log_flush", 35),  # both files are the redo log
        ("lock", 30),
        ("running", 20),
        ("network", 15),
    ]
    flush, lock, *_ = first["states"]
    assert flush == {
        "class": "log_flush",
        "syscall": "fsync",
        "target": "redo log",
        "wchan": "jbd2_log_wait_commit",
        "stack": None,
        "count": 35,
        "seconds": pytest.approx(0.35),
        "during_sync": 0,
    }
    assert lock["during_sync"] == 25


def test_statements_are_summed_over_threads() -> None:
    statements = section(COUNTS, {7: "connection"})["statements"]
    assert statements["threads"] == 2
    keys = ("statement", "class", "count", "seconds", "during_sync")
    assert statements["states"][0].keys() == set(keys)
    rows = [tuple(row[key] for key in keys) for row in statements["states"]]
    assert rows == [
        (None, "network", 9, pytest.approx(0.09), 0),
        ("update", "lock", 21, pytest.approx(0.21), 5),
        ("update", "log_flush", 7, pytest.approx(0.07), 0),
        ("update", "running", 1, pytest.approx(0.01), 0),
    ]
    nobody = {**COUNTS, "threads": [COUNTS["threads"][1]]}
    assert section(nobody, {})["statements"] is None


def test_what_states_say_about_the_kind() -> None:
    first, second, _ = sampled().threads
    assert thread_states.activity(first) == ThreadActivity(
        "connection", {"/data/ib_logfile0", "/data/ib_logfile1", "socket:[30]"}, False
    )
    assert thread_states.activity(second) == ThreadActivity("mysqld", set(), True)


@dataclass
class Watch:
    """Threads that serve clients in one way, with no other properties."""

    serving: str = "connection"
    pid: int = 42

    def kinds(self, _activity: object) -> dict[int, str]:
        return {}

    def sockets(self) -> Sockets:
        return CONTEXT.sockets

    def missing(self, _kinds: Any) -> list[Any]:
        return []


@dataclass
class Commanded:
    """A sampler that records its commands and samples no statement."""

    commands: list[str] = field(default_factory=list)

    def send(self, command: str) -> None:
        self.commands.append(command)

    def samples(self) -> Sampled:
        return sampled({**COUNTS, "threads": []})


def connected(
    path: Path,
    *,
    names: bytes = b'["a","b","ROLLBACK"]',
    background_clients: bool = False,
    **watch: Any,
) -> tuple[list[str], list[str]]:
    """Return the commands of a sampler when clients have connected, and the missing parts."""
    path.write_bytes(written((1, 0, 7), (1, 0, 8), names=names))
    sampler = Commanded()
    made = StateCollector(
        cast(ThreadWatch, Watch(**watch)),
        cast(ThreadSampler, sampler),
        FILES,
        (),
        StatementActivity(path),
        background_clients=background_clients,
    )
    made.connected()
    return sampler.commands, [each.message for each in made.result().missing]


def test_sampler_gets_the_connection_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "activity"
    monkeypatch.setattr(sockets, "peers", lambda: {7: 70, 8: 80, 9: 90})
    (command,), (lack,) = connected(path)
    what, _, argument = command.partition(" ")
    assert what == "statement_activity"
    assert json.loads(argument) == {"path": str(path), "slots": {"70": 0, "80": 1}}
    assert lack.endswith("none was seen to wait for a client's next request")


def test_why_nobody_knows_the_statement_of_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "activity"
    monkeypatch.setattr(sockets, "peers", dict)
    commands, (lack,) = connected(path)
    assert (commands, lack.rpartition(": ")[2]) == (
        [], "the kernel does not report the clients of the server's sockets",
    )  # fmt: skip
    commands, (lack,) = connected(path, serving="pool")
    assert (commands, lack.rpartition(": ")[2]) == ([], "clients share a pool of threads")
    # All of a client's time belongs to its only statement.
    assert connected(path, names=b'["a","ROLLBACK"]') == ([], [])


def test_background_clients_are_separated_with_one_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "activity"
    monkeypatch.setattr(sockets, "peers", lambda: {7: 70, 8: 80, 9: 90})
    (command,), missing = connected(path, names=b'["a","ROLLBACK"]', background_clients=True)
    assert command.startswith("statement_activity ")
    assert missing == []
    found = thread_states.classified(sampled(), {}, CONTEXT, by_statement=False)
    assert found.statements is None
    assert [each.serves_client for each in found.threads or ()] == [True, False, True]


@dataclass
class Client:
    """A client of a server that answers with these names of its binary logs."""

    logs: tuple[str, ...] | None

    def query(self, _sql: str, *, limit_s: float) -> list[tuple[str]]:
        assert limit_s > 0
        if self.logs is None:
            raise TrialFailed("You are not using binary logging")
        return [(name,) for name in self.logs]


def files(*logs: str) -> FileKinds:
    return MYSQL.file_kinds(cast(ServerClient, Client(logs or None)))


MYSQL_FILES = files("binlog.000017", "/elsewhere/primary-log.000003")
MYSQL_CONTEXT = Context(SOCKETS, MYSQL_FILES, architecture="x86_64")
NUMBERS = {name: number for number, name in syscalls.names("x86_64").items()}


def did(call: str, link: str | None = None, context: Context = MYSQL_CONTEXT) -> Activity:
    return classify("S", NUMBERS[call], link, context)


@pytest.mark.parametrize(
    ("link", "what"),
    [
        (f"{DATA}/ib_logfile0", "redo log"),
        (f"{DATA}/ib_logfile101", "redo log"),
        (f"{DATA}/#innodb_redo/#ib_redo5", "redo log"),
        (f"{DATA}/#innodb_redo/#ib_redo6_tmp (deleted)", "redo log"),
        (f"{DATA}/binlog.000001", "binary log"),
        (f"{DATA}/host-bin.123456", "binary log"),
        ("/elsewhere/primary-log.000012", "binary log"),
        (f"{DATA}/binlog.index", "index of the binary log"),
        (f"{DATA}/host-relay-bin.000002", "relay log"),
        (f"{DATA}/aria_log.00000001", "Aria log"),
        (f"{DATA}/tc.log", "log of the coordinator"),
        (f"{DATA}/#rocksdb/000012.log", "RocksDB log"),
        (f"{DATA}/#ib_16384_0.dblwr", "doublewrite buffer"),
        (f"{DATA}/ibdata1", "system tablespace"),
        (f"{DATA}/ibdata12", "system tablespace"),
        (f"{DATA}/undo_001", "undo tablespace"),
        (f"{DATA}/undo001", "undo tablespace"),
        (f"{DATA}/observed/sbtest1.ibd", "data file"),
        (f"{DATA}/observed/sbtest1.MYD", "data file"),
        (f"{DATA}/mysql.ibd", "data file"),
        (f"{DATA}/observed/sbtest1.frm", "table definition"),
        (f"{DATA}/ibtmp1", "temporary file"),
        (f"{DATA}/#innodb_temp/temp_10.ibt", "temporary file"),
        ("/var/lib/work/tmp/#9986471 (deleted)", "temporary file"),
        ("/var/lib/work/tmp/ibZb4W7q (deleted)", "temporary file"),
        ("/var/lib/work/tmp/MLfd=41", "temporary file"),
        ("/var/lib/work/error.log", "text log"),
        (f"{DATA}/something", "other file"),
        ("socket:[10]", "listening socket"),
        ("socket:[20]", "socket of millrace"),
        ("socket:[30]", "socket of a client"),
        ("pipe:[99]", "pipe"),
        ("anon_inode:[eventpoll]", "anon_inode"),
    ],
)
def test_targets(link: str, what: str) -> None:
    assert target_kind(link, MYSQL_CONTEXT) == what


CALLS: dict[str, list[tuple[str, str | None]]] = {
    "lock": [("futex", None), ("semtimedop", None), ("flock", f"{DATA}/aria_log_control")],
    "log_flush": [
        ("fsync", f"{DATA}/ib_logfile0"), ("fdatasync", f"{DATA}/binlog.000001"),
        ("fdatasync", f"{DATA}/#innodb_redo/#ib_redo5"), ("msync", None),
    ],
    "fsync": [
        ("fsync", f"{DATA}/observed/sbtest1.ibd"), ("fsync", f"{DATA}/#ib_16384_0.dblwr"),
        ("fsync", None),
    ],
    "data_read": [("pread64", f"{DATA}/observed/sbtest1.ibd"), ("read", f"{DATA}/binlog.000001")],
    "data_write": [("pwrite64", f"{DATA}/observed/sbtest1.ibd")],
    "log_write": [("pwrite64", f"{DATA}/ib_logfile0")],
    "network": [
        ("read", "socket:[30]"), ("recvfrom", "socket:[30]"), ("poll", "socket:[30]"),
        ("ppoll", "socket:[30]"), ("poll", None), ("accept4", "socket:[10]"),
        ("epoll_wait", "anon_inode:[eventpoll]"),
    ],
    "network_send": [("sendto", "socket:[30]"), ("write", "socket:[30]")],
    "sleep": [
        ("nanosleep", None), ("clock_nanosleep", None), ("pselect6", "[no descriptors]"),
        ("poll", "[no descriptors]"),
    ],
    "io_queue": [
        ("io_getevents", None), ("io_pgetevents", None),
        ("io_uring_enter", "anon_inode:[io_uring]"),
    ],
    "other": [("rt_sigtimedwait", None), ("openat", None), ("munmap", None)],
}  # fmt: skip
"""Calls with their targets, by class."""


@pytest.mark.parametrize(
    ("call", "target", "expected"),
    [(*call, expected) for expected, calls in CALLS.items() for call in calls],
)
def test_classes_of_calls(call: str, target: str | None, expected: str) -> None:
    found = did(call, target)
    assert (found.state_class, found.syscall) == (expected, call)


def test_a_write_to_a_log_that_is_written_through_waits_for_the_disk() -> None:
    through = Context(SOCKETS, MYSQL_FILES, {"redo log", "data file"}, "x86_64")
    assert did("pwrite64", f"{DATA}/ib_logfile0", through).state_class == "log_flush"
    assert did("pwrite64", f"{DATA}/binlog.000001", through).state_class == "log_write"
    assert did("pwrite64", f"{DATA}/a/b.ibd", through).state_class == "data_write"


def test_what_is_in_no_call() -> None:
    assert classify("R", None, None, MYSQL_CONTEXT) == Activity("running", None, None)
    assert classify("D", -1, None, MYSQL_CONTEXT) == Activity("page_fault", None, None)
    assert classify("S", -1, None, MYSQL_CONTEXT).state_class == "page_fault"
    assert classify("t", -1, None, MYSQL_CONTEXT).state_class == "other"
    assert classify("S", 9_999, None, MYSQL_CONTEXT) == Activity("other", "syscall 9999", None)


def test_numbers_depend_on_the_architecture() -> None:
    arm = Context(SOCKETS, MYSQL_FILES, architecture="aarch64")
    assert classify("S", 98, None, arm) == Activity("lock", "futex", None)
    assert classify("D", 82, f"{DATA}/ib_logfile0", arm).state_class == "log_flush"
    assert classify("S", 98, None, Context(SOCKETS, MYSQL_FILES, architecture="s390x")) == Activity(
        "other", "syscall 98", None
    )
    for machine in ("x86_64", "aarch64"):
        assert len(syscalls.names(machine)) == len(set(syscalls.names(machine).values()))
    assert syscalls.names() in (syscalls.names("x86_64"), syscalls.names("aarch64"), {})


def test_binary_logs_have_the_names_that_the_server_has_for_them() -> None:
    assert files("/data/odd.1000000").kind("odd.1000001") == "binary log"
    assert files("/data/a.b").kind("/data/a.b") == "binary log"
    assert files("odd.000001").kind("oddly.000001") == "other file"
    assert files().kind("odd.000001") == "other file"


@given(
    st.sampled_from("RSDTtZ"),
    st.none() | st.integers(-1, 500),
    st.none() | st.text() | st.from_regex(r"(socket|pipe):\[\d{1,9}\]", fullmatch=True),
)
def test_every_state_has_a_class(state: str, call: int | None, target: str | None) -> None:
    found = classify(state, call, target, MYSQL_CONTEXT)
    assert found.state_class
    assert (found.state_class == "running") == (state == "R")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a load generator that runs the test's Python code."""
    file = tmp_path / "millrace-load"
    monkeypatch.setenv("MILLRACE_LOAD", str(file))
    return file


def write(program: Path, script: str) -> None:
    program.write_text(f"#!{sys.executable}\nimport os, sys, time\n{script}\n")
    program.chmod(0o755)


READY = 'print(\'{"type": "ready"}\', flush=True)\n'


@pytest.mark.parametrize(
    ("cpus", "connections", "share"),
    [
        (None, 1, 0.0025),
        (2, 1, 0.005),
        (4, 1, 0.01),
        (96, 1, 0.01),
        (2, 4, 0.0025),
        (2, 16, 0.002),
        (96, 1000, 0.01),
    ],
)
def test_looking_takes_little_of_one_cpu_and_of_all(
    cpus: int | None, connections: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert thread_states.budget(connections) == share


def test_a_sampler_from_begin_to_end(program: Path) -> None:
    answer = {**COUNTS, "threads": [{**COUNTS["threads"][1], "name": "y" * 200_000}]}
    write(
        program,
        READY
        + "assert sys.argv[1:5] == ['--die-with-parent', 'threads', '--pid', '42']\n"
        + f"assert sys.argv[5:] == ['--budget', '{thread_states.budget(1):g}']\n"
        + "assert [sys.stdin.readline() for _ in range(2)] == ['begin\\n', 'end\\n']\n"
        # More than a pipe holds, in two parts.
        + f"answer = {json.dumps(answer)!r}\n"
        + "sys.stdout.write(answer[:150_000]); sys.stdout.flush(); time.sleep(0.05)\n"
        + "print(answer[150_000:], flush=True)",
    )
    with contextlib.closing(ThreadSampler(42, 1)) as sampler:
        sampler.send("begin")
        sampler.send("end")
        assert len(sampler.samples().threads[0].name) == 200_000
    assert sampler._process.returncode == 0


@pytest.mark.parametrize(
    ("script", "why", "hint"),
    [
        (
            "sys.exit(\"error: unrecognized subcommand 'threads'\")",
            "has no command for it",
            "run `make setup`",
        ),
        (
            "sys.exit('millrace-load: the threads of process 42 may not be inspected')",
            "process 42 may not be inspected",
            None,
        ),
        (None, "not an executable file", None),
    ],
    ids=["an earlier load generator", "no permission", "no load generator"],
)
def test_sampler_reports_why_it_cannot_sample(
    program: Path, script: str | None, why: str, hint: str | None
) -> None:
    if script is not None:
        write(program, script)
    with pytest.raises(Unavailable, match=why) as caught:
        ThreadSampler(42, 1)
    assert hint is None or caught.value.hint == hint


def test_a_sampler_that_ends_before_its_end(program: Path) -> None:
    write(program, READY + "sys.stdin.readline(); sys.exit('it was enough')")
    with contextlib.closing(ThreadSampler(42, 1)) as sampler:
        sampler.send("begin")
        with pytest.raises(Unavailable, match="it was enough"):
            sampler.samples()
        with pytest.raises(Unavailable, match="it was enough"):
            sampler.send("end")


def test_silent_sampler_times_out(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_states, "_READY_LIMIT_S", 0.3)
    monkeypatch.setattr(thread_states, "_ANSWER_LIMIT_S", 0.3)
    write(program, "time.sleep(60)")
    with pytest.raises(Unavailable, match=r"did not answer in 0\.3 s"):
        ThreadSampler(42, 1)
    write(program, READY + "sys.stdin.readline(); time.sleep(60)")
    with contextlib.closing(ThreadSampler(42, 1)) as sampler:
        sampler.send("begin")
        with pytest.raises(Unavailable, match=r"did not answer in 0\.3 s"):
            sampler.samples()
    assert sampler._process.returncode is not None


def test_sampler_ends_without_a_begin(program: Path) -> None:
    write(program, READY + "sys.stdin.read()")
    sampler = ThreadSampler(42, 1)
    sampler.close()
    assert sampler._process.returncode == 0


def test_a_real_sampler_of_this_process() -> None:
    try:
        sampler = ThreadSampler(os.getpid(), 1)
    except Unavailable as lack:
        pytest.skip(lack.message)
    with contextlib.closing(sampler):
        sampler.send("begin")
        time.sleep(0.3)
        sampler.send("end")
        counts = sampler.samples()
    assert os.getpid() in {thread.tid for thread in counts.threads}
    assert (thread_states.classified(counts, {}, CONTEXT).ticks or 0) > 0


def test_a_process_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(Unavailable, match="threads cannot be sampled"):
        ThreadSampler(gone.pid, 1)


def test_an_answer_without_what_is_needed(program: Path) -> None:
    write(program, READY + 'print(\'{"type": "threads", "ticks": 1}\', flush=True)')
    with (
        contextlib.closing(ThreadSampler(42, 1)) as sampler,
        pytest.raises(Unavailable, match="threads cannot be sampled"),
    ):
        sampler.samples()
