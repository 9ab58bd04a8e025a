"""Test the sampler's counts as a section of the document."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from millrace.collect import thread_states
from millrace.collect.collectors import as_json
from millrace.collect.thread_states import StateCollector
from millrace.collect.threads.state_classes import Context
from millrace.collect.threads.thread_sampler import Sampled, ThreadSampler
from millrace.collect.threads.thread_watch import ThreadActivity, ThreadWatch
from millrace.databases.monitoring import FileKinds
from millrace.host import sockets
from millrace.host.sockets import Sockets
from millrace.loadgen.statement_activity import StatementActivity
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


def test_the_sampler_is_told_who_is_whose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_clients_with_one_statement_are_told_from_those_in_the_background(
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
