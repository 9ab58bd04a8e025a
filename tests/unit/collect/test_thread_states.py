"""Test the sampler's counts as a section of the document, and samplers that do not work."""

from __future__ import annotations

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
from pydantic import TypeAdapter

from millrace.collect import thread_states
from millrace.collect.collectors import as_json
from millrace.collect.thread_states import StateCollector
from millrace.collect.threads import thread_sampler
from millrace.collect.threads.state_classes import Context
from millrace.collect.threads.thread_sampler import Sampled, ThreadSampler
from millrace.collect.threads.thread_watch import ThreadActivity, ThreadWatch
from millrace.databases.monitoring import FileKinds
from millrace.errors import Unavailable
from millrace.host import sockets
from millrace.host.sockets import Sockets
from millrace.loadgen.statement_activity import Board
from tests.unit.loadgen.test_statement_activity import written

FILES = FileKinds(((re.compile(r"ib_logfile\d"), "redo log"),), frozenset({"redo log"}))
CONTEXT = Context(Sockets(frozenset({10}), frozenset({20})), FILES, architecture="x86_64")
FUTEX, FSYNC, POLL, IO_GETEVENTS = 202, 74, 7, 208


def state(count: int, letter: str = "S", call: int | None = None, **more: Any) -> dict[str, Any]:
    known = {
        "target": None,
        "wchan": None,
        "stack": None,
        "during_sync": 0,
        "seconds": 0.01 * count,
        **more,
    }
    return {"state": letter, "syscall": call, "count": count, **known}


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
                {"statement": "update", "states": [state(1, call=FUTEX), state(1, "R")]},
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
    assert {name: found[name] for name in ("rate_hz", "ticks", "cpu_s", "realtime")} == {
        "rate_hz": 97.5,
        "ticks": 100,
        "cpu_s": 0.02,
        "realtime": True,
    }
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
    told = section(COUNTS, {7: "connection"})["statements"]
    assert told["threads"] == 2
    rows = [tuple(row.values()) for row in told["states"]]
    assert list(told["states"][0]) == ["statement", "class", "count", "seconds", "during_sync"]
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

    def missing(self) -> list[Any]:
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
    path: Path, *, names: bytes = b'["a","b","ROLLBACK"]', **watch: Any
) -> tuple[list[str], list[str]]:
    """Return the commands of a sampler when clients have connected, and the missing parts."""
    path.write_bytes(written((1, 0, 7), (1, 0, 8), names=names))
    sampler = Commanded()
    made = StateCollector(
        cast(ThreadWatch, Watch(**watch)), cast(ThreadSampler, sampler), FILES, (), Board(path)
    )
    made.connected()
    return sampler.commands, [each.message for each in made.result().missing]


def test_the_sampler_is_told_who_is_whose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "board"
    monkeypatch.setattr(sockets, "peers", lambda: {7: 70, 8: 80, 9: 90})
    (command,), (lack,) = connected(path)
    what, _, told = command.partition(" ")
    assert what == "board"
    assert json.loads(told) == {"path": str(path), "slots": {"70": 0, "80": 1}}
    assert lack.endswith("none was seen to wait for a client's next request")


def test_why_nobody_knows_the_statement_of_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "board"
    monkeypatch.setattr(sockets, "peers", dict)
    commands, (lack,) = connected(path)
    assert (commands, lack.rpartition(": ")[2]) == (
        [], "the kernel does not report the clients of the server's sockets",
    )  # fmt: skip
    commands, (lack,) = connected(path, serving="pool")
    assert (commands, lack.rpartition(": ")[2]) == ([], "clients share a pool of threads")
    # All of a client's time belongs to its only statement.
    assert connected(path, names=b'["a","ROLLBACK"]') == ([], [])


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
    assert thread_sampler.budget(connections) == share


def test_a_sampler_from_begin_to_end(program: Path) -> None:
    answer = {**COUNTS, "threads": [{**COUNTS["threads"][1], "name": "y" * 200_000}]}
    write(
        program,
        READY
        + "assert sys.argv[1:5] == ['--die-with-parent', 'threads', '--pid', '42']\n"
        + f"assert sys.argv[5:] == ['--budget', '{thread_sampler.budget(1):g}']\n"
        + "assert [sys.stdin.readline() for _ in range(2)] == ['begin\\n', 'end\\n']\n"
        # More than a pipe holds, in two parts.
        + f"answer = {json.dumps(answer)!r}\n"
        + "sys.stdout.write(answer[:150_000]); sys.stdout.flush(); time.sleep(0.05)\n"
        + "print(answer[150_000:], flush=True)",
    )
    sampler = ThreadSampler(42, 1)
    try:
        sampler.send("begin")
        sampler.send("end")
        assert len(sampler.samples().threads[0].name) == 200_000
    finally:
        sampler.close()
    assert sampler._process.returncode == 0


def test_a_load_generator_that_cannot_do_it(program: Path) -> None:
    write(program, "sys.exit(\"error: unrecognized subcommand 'threads'\")")
    with pytest.raises(Unavailable, match="has no command for it") as caught:
        ThreadSampler(42, 1)
    assert caught.value.hint == "run `make setup`"


def test_a_sampler_that_says_why_it_cannot(program: Path) -> None:
    write(program, "sys.exit('millrace-load: the threads of process 42 may not be looked at')")
    with pytest.raises(Unavailable, match="process 42 may not be looked at"):
        ThreadSampler(42, 1)


def test_no_load_generator(program: Path) -> None:
    with pytest.raises(Unavailable, match="not a program"):
        ThreadSampler(42, 1)


def test_a_sampler_that_ends_before_its_end(program: Path) -> None:
    write(program, READY + "sys.stdin.readline(); sys.exit('it was enough')")
    sampler = ThreadSampler(42, 1)
    try:
        sampler.send("begin")
        with pytest.raises(Unavailable, match="it was enough"):
            sampler.samples()
        with pytest.raises(Unavailable, match="it was enough"):
            sampler.send("end")
    finally:
        sampler.close()


def test_a_sampler_that_says_nothing_is_not_waited_for(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_sampler, "_READY_LIMIT_S", 0.3)
    monkeypatch.setattr(thread_sampler, "_ANSWER_LIMIT_S", 0.3)
    write(program, "time.sleep(60)")
    with pytest.raises(Unavailable, match=r"did not answer in 0\.3 s"):
        ThreadSampler(42, 1)
    write(program, READY + "sys.stdin.readline(); time.sleep(60)")
    sampler = ThreadSampler(42, 1)
    sampler.send("begin")
    with pytest.raises(Unavailable, match=r"did not answer in 0\.3 s"):
        sampler.samples()
    sampler.close()
    assert sampler._process.returncode is not None


def test_a_sampler_that_was_never_told_to_begin_is_ended(program: Path) -> None:
    write(program, READY + "sys.stdin.read()")
    sampler = ThreadSampler(42, 1)
    sampler.close()
    assert sampler._process.returncode == 0


def test_a_real_sampler_of_this_process() -> None:
    try:
        sampler = ThreadSampler(os.getpid(), 1)
    except Unavailable as lack:
        pytest.skip(lack.message)
    try:
        sampler.send("begin")
        time.sleep(0.3)
        sampler.send("end")
        counts = sampler.samples()
    finally:
        sampler.close()
    assert os.getpid() in {thread.tid for thread in counts.threads}
    assert thread_states.classified(counts, {}, CONTEXT).ticks > 0


def test_a_process_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(Unavailable, match="threads cannot be sampled"):
        ThreadSampler(gone.pid, 1)


def test_an_answer_without_what_is_needed(program: Path) -> None:
    write(program, READY + 'print(\'{"type": "threads", "ticks": 1}\', flush=True)')
    sampler = ThreadSampler(42, 1)
    with pytest.raises(Unavailable, match="threads cannot be sampled"):
        sampler.samples()
    sampler.close()
