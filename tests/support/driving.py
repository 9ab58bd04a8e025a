"""Run specifications that drive clients, and read the results."""

import base64
import contextlib
import json
import os
import signal
import struct
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.databases.client import Session
from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance

LIMIT_S = 120
ROWS = 1_000
DATABASE = "driven"

Event = dict[str, Any]

# Small rows, so that each server loads them quickly. `n` counts how often a row was updated.
TABLE = {
    "name": "t",
    "rows": ROWS,
    "create": (
        "CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY AUTO_INCREMENT,"
        " n INT NOT NULL DEFAULT 0, c CHAR(20) NOT NULL DEFAULT '')"
        " ENGINE=InnoDB DEFAULT CHARSET=latin1"
    ),
    "columns": [
        {"name": "id", "kind": "sequence"},
        {"name": "n", "kind": "constant", "value": 0},
        {"name": "c", "kind": "text", "length": 20},
    ],
}
DRAWS = {
    "id": {"kind": "integer", "low": 1, "high": ROWS},
    "own_id": {"kind": "integer", "low": 1, "high": ROWS, "segment": "client"},
    "each_id": {"kind": "permutation", "low": 1, "high": ROWS},
    "c": {"kind": "text", "length": 20},
    "one": {"kind": "constant", "value": 1},
    "two": {"kind": "constant", "value": 2},
}
STATEMENTS = {
    "select": {"sql": "SELECT c FROM {table} WHERE id = ?", "parameters": ["id"]},
    "update": {"sql": "UPDATE {table} SET n = n + 1 WHERE id = ?", "parameters": ["id"]},
    "update_own": {"sql": "UPDATE {table} SET n = n + 1 WHERE id = ?", "parameters": ["own_id"]},
    "insert": {"sql": "INSERT INTO {table} (n, c) VALUES (5, ?)", "parameters": ["c"]},
    "delete": {"sql": "DELETE FROM {table} WHERE id = ?", "parameters": ["each_id"]},
    "first": {"sql": "UPDATE {table} SET n = n + 1 WHERE id = ?", "parameters": ["one"]},
    "second": {"sql": "UPDATE {table} SET n = n + 1 WHERE id = ?", "parameters": ["two"]},
    "read": {
        "sql": "HANDLER {table} READ `PRIMARY` = (?)",
        "parameters": ["id"],
        "protocol": "text",
    },
    "long": {"sql": "SELECT SUM(a.n + b.n + c.n + d.n) FROM t a, t b, t c, t d"},
}
TESTS = {
    "select": {"title": "a row", "steps": [{"statements": ["select"]}]},
    "insert": {"title": "an insert", "steps": [{"statements": ["insert"]}]},
    "delete": {"title": "each row once", "steps": [{"statements": ["delete"]}]},
    "mixed": {
        "title": "all in a transaction",
        "transaction": True,
        "steps": [{"statements": ["select"], "times": 3}, {"statements": ["update", "insert"]}],
    },
    "apart": {
        "title": "all in a transaction, and no row is updated by two clients",
        "transaction": True,
        "steps": [{"statements": ["select"], "times": 3}, {"statements": ["update_own", "insert"]}],
    },
    "loose": {
        "title": "all by themselves",
        "steps": [{"statements": ["select"], "times": 3}, {"statements": ["update", "insert"]}],
    },
    "handler": {
        "title": "a row through HANDLER",
        "client_setup": ["HANDLER {table} OPEN"],
        "steps": [{"statements": ["read"]}],
    },
    "first": {"title": "the same row", "steps": [{"statements": ["first"]}]},
    "crossed": {
        "title": "two rows in two orders",
        "mix": [
            {
                "name": name,
                "weight": 1,
                "transaction": True,
                "steps": [{"statements": [one]}, {"statements": [other]}],
            }
            for name, one, other in (("forth", "first", "second"), ("back", "second", "first"))
        ],
    },
    "long": {"title": "it never ends", "steps": [{"statements": ["long"]}]},
}


@dataclass(frozen=True)
class Done:
    """The result of a run: exit status, events, messages on stderr."""

    status: int
    events: tuple[Event, ...]
    said: str

    def of_type(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["type"] == kind]

    def phase(self, name: str) -> Event:
        (found,) = [event for event in self.of_type("phase") if event["name"] == name]
        return found

    @property
    def driven(self) -> Event:
        """Return the result of the one phase that drove clients."""
        (phase,) = [event for event in self.of_type("phase") if event["kind"] == "drive"]
        return phase

    @property
    def error(self) -> Event:
        (error,) = self.of_type("error")
        return error


def by_socket(instance: Instance, **changes: Any) -> dict[str, Any]:
    return _login(instance, {"socket": str(instance.socket), **changes})


def by_tcp(instance: Instance, **changes: Any) -> dict[str, Any]:
    return _login(instance, {"host": "127.0.0.1", "port": instance.port, **changes})


def _login(instance: Instance, address: dict[str, Any]) -> dict[str, Any]:
    account = {"user": instance.user, "password": instance.password, "database": DATABASE}
    return {**account, "allow_unverified": True, **address}


def drive(test: str, **settings: Any) -> dict[str, Any]:
    """Return a phase of 2 s or of a number of ``transactions``; other settings are defaults."""
    transactions = settings.pop("transactions", None)
    by_time = {"kind": "time", "seconds": settings.pop("seconds", 2)}
    end = {"kind": "operations", "transactions": transactions} if transactions else by_time
    return {
        "kind": "drive",
        "name": "measure",
        "test": test,
        "clients": 4,
        "end": end,
        "limit_s": LIMIT_S,
        **settings,
    }


def specification(
    connection: Mapping[str, Any],
    *phases: Mapping[str, Any],
    session: Sequence[str] = (),
    seed: int = 1,
) -> dict[str, Any]:
    return {
        "version": 2,
        "connection": connection,
        "session": session,
        "workload": {
            "tables": {"t": TABLE},
            "generators": DRAWS,
            "statements": STATEMENTS,
            "tests": TESTS,
        },
        "seed": seed,
        "phases": phases,
    }


Listen = Callable[[Event, int], None]


def at_intervals(act: Callable[[int], None]) -> Listen:
    """Return what acts at each interval, with the process id."""
    return lambda event, pid: act(pid) if event["type"] == "interval" else None


def succeeded(spec: Mapping[str, Any], on_event: Listen = lambda _event, _pid: None) -> Done:
    """Run to the end as ``run`` does, and assert that it succeeds."""
    done = run(spec, on_event)
    assert done.status == 0, done.said
    return done


def run(spec: Mapping[str, Any], on_event: Listen = lambda _event, _pid: None) -> Done:
    """Run to the end; call ``on_event`` with each event as it comes and the process id."""
    process = subprocess.Popen(
        [str(find_load_generator()), "--die-with-parent", "run", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(spec))
    events = []
    limit = threading.Timer(LIMIT_S, process.kill)
    limit.start()
    try:
        for line in process.stdout:
            events.append(json.loads(line))
            on_event(events[-1], process.pid)
        said = process.stderr.read()
        return Done(process.wait(), tuple(events), said)
    finally:
        limit.cancel()


def fresh(instance: Instance) -> None:
    """Recreate the database, with the table as generated."""
    with session(instance, None) as connection:
        connection.query(f"DROP DATABASE IF EXISTS {DATABASE}")
        connection.query(f"CREATE DATABASE {DATABASE}")
    load = {"kind": "load_tables", "name": "load", "limit_s": LIMIT_S}
    verify = {"kind": "verify_tables", "name": "verify", "limit_s": LIMIT_S}
    succeeded(specification(by_socket(instance), load, verify))


@contextlib.contextmanager
def session(instance: Instance, database: str | None = DATABASE) -> Iterator[Session]:
    with contextlib.closing(instance.connect(database)) as opened:
        yield opened


def ask(instance: Instance, sql: str) -> tuple[tuple[Any, ...], ...]:
    with session(instance) as connection:
        return tuple(connection.query(sql))


def ask_without_database(instance: Instance, sql: str) -> tuple[tuple[Any, ...], ...]:
    with session(instance, None) as connection:
        return tuple(connection.query(sql))


def status(instance: Instance) -> dict[str, int]:
    """Return the server's counters once all other clients have gone.

    MySQL 5.7 counts a closing connection twice for a moment: in the total of closed ones, and among
    the open ones.
    """
    deadline = time.monotonic() + LIMIT_S
    while (clients := connected(instance)) > 1:
        if time.monotonic() > deadline:
            left = ask(instance, "SHOW FULL PROCESSLIST")
            raise AssertionError(f"{clients} clients are still connected: {left}")
        time.sleep(0.01)
    rows = ask(instance, "SHOW GLOBAL STATUS")
    return {name: int(value) for name, value in rows if str(value).isdigit()}


def connected(instance: Instance) -> int:
    """Return the number of the server's clients, including this query's session.

    A session of MySQL 5.6 that was killed may remain forever after its client has gone.
    """
    ((_, clients),) = ask(instance, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    sessions = ask(instance, "SHOW PROCESSLIST")
    return int(clients) - len([session for session in sessions if session[4] == "Killed"])


def record(driven: Event, of: str, name: str) -> dict[str, Any]:
    """Return the record of a statement or a transaction."""
    records: list[dict[str, Any]] = driven[of]
    (found,) = [each for each in records if each["name"] == name]
    return found


def counted(histogram: Mapping[str, Any]) -> int:
    """Return the number of latencies in an encoded histogram, without the program's own library.

    The format is HdrHistogram's V2: a header, then counts as ZigZag LEB128 numbers; a negative one
    stands for that number of zeros.
    """
    data = base64.b64decode(histogram["encoded"])
    cookie, length = struct.unpack(">II", data[:8])
    if cookie & ~0xF0 == 0x1C849304:
        data = zlib.decompress(data[8 : 8 + length])
        cookie, length = struct.unpack(">II", data[:8])
    assert cookie & ~0xF0 == 0x1C849303
    payload, total, position = data[40 : 40 + length], 0, 0
    while position < len(payload):
        value = shift = 0
        while True:
            byte = payload[position]
            position += 1
            # The ninth byte of a number has no flag: all its bits are value.
            value |= (byte if shift == 56 else byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift == 63:
                break
        number = (value >> 1) ^ -(value & 1)
        total += max(number, 0)
    return total


def interrupt(pid: int) -> None:
    """Send SIGINT, as Ctrl-C does."""
    os.kill(pid, signal.SIGINT)
