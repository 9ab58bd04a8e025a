"""Run as the programs of the fake family: server and load generator, in one file.

    fake-server --list-options | --initialise --data=DIR
    fake-server --data=DIR --socket=PATH --draw=NUMBER [--OPTION=VALUE ...]
    millrace-load version | idle-latency | statements - | run -

The file needs only the standard library. The server follows ``SCRIPT``, a line that
``family`` appends, and answers JSON lines on its socket. The load generator speaks the
contract of ``millrace.loadgen``: it asks the server how long an operation takes, and reports the
work of imaginary clients without waiting.
"""

# ruff: noqa: PTH108, PTH110, PTH118, PTH119, PTH123 - it starts in a moment and holds no secrets

import base64
import json
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from typing import IO, Any

SCRIPT: dict[str, Any] = {}
_PATIENCE_S = 10.0


def serve(arguments: list[str]) -> int:
    """Run as the server."""
    flags = dict(each.removeprefix("--").partition("=")[::2] for each in arguments)
    if "list-options" in flags:
        sys.stdout.write("".join(f"{name}={value}\n" for name, value in SCRIPT["options"].items()))
        return 0
    step = "initialise" if "initialise" in flags else "start"
    if (words := SCRIPT["failures"].get(step)) is not None:
        sys.stderr.write(f"ERROR: {words}\n")
        return 1
    if step == "initialise":
        with open(os.path.join(flags["data"], "format"), "w") as file:
            file.write("1\n")
        return 0
    _recover(os.path.join(flags["data"], "torn"))
    _Server(flags).run()
    return 0


def _recover(torn: str) -> None:
    """Say so where there is something to repair, and take long enough for millrace to read it."""
    if os.path.exists(torn):
        sys.stderr.write(f"{SCRIPT['recovery']}\n")
        sys.stderr.flush()
        time.sleep(0.2)
        os.unlink(torn)


class _Server:
    """A running server: its databases, and its counters since its start."""

    def __init__(self, flags: dict[str, str]) -> None:
        self._flags = flags
        self._counts = {"operations": 0.0, "reads": 0.0}
        self._waits: dict[str, list[float]] = {}
        self._readers: dict[object, int] = {}
        self._awaited: dict[object, int] = {}
        self._has_read = threading.Condition()
        self._noise = random.Random(f"{SCRIPT['seed']}:{flags['draw']}")

    def run(self) -> None:
        """Answer until SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        with socket.socket(socket.AF_UNIX) as listener:
            if os.path.exists(self._flags["socket"]):
                os.unlink(self._flags["socket"])
            listener.bind(self._flags["socket"])
            listener.listen()
            # A signal that comes right before a system call is handled only after that.
            listener.settimeout(0.2)
            while True:
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        session = object()
        with client, client.makefile("rw") as lines:
            for line in lines:
                asked = json.loads(line)
                if asked["do"] == "counters":
                    self._note_reading(session)
                lines.write(json.dumps(getattr(self, "do_" + asked.pop("do"))(**asked)) + "\n")
                lines.flush()
        with self._has_read:
            self._readers.pop(session, None)
            self._has_read.notify_all()

    def _note_reading(self, session: object) -> None:
        with self._has_read:
            self._readers[session] = self._readers.get(session, 0) + 1
            self._has_read.notify_all()

    def _is_read(self) -> bool:
        return all(self._readers.get(each, n + 1) > n for each, n in self._awaited.items())

    def do_facts(self) -> dict[str, Any]:
        """Return the facts that do not change while the server runs."""
        options = {name: self._flags.get(name, value) for name, value in SCRIPT["options"].items()}
        return {
            "version": SCRIPT["version"],
            "data_directory": self._flags["data"],
            "settings": {**options, "socket": self._flags["socket"]},
        }

    def do_tables(self) -> list[str]:
        """Return the names of all tables."""
        path = os.path.join(self._flags["data"], "tables")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return file.read().split()

    def do_keep_tables(self, names: list[str]) -> None:
        """Keep tables of these names in the data directory, and so in every later copy of it."""
        with open(os.path.join(self._flags["data"], "tables"), "w") as file:
            file.write("\n".join(names))

    def do_counters(self) -> dict[str, Any]:
        """Return the counts since the start."""
        return {"counts": self._counts, "waits": self._waits}

    def do_begin_drive(self) -> None:
        """Record which sessions have read the counters.

        Each of them reads the counters again where clients begin.
        """
        with self._has_read:
            self._awaited = dict(self._readers)

    def do_drive(self, clients: int, time_s: float | None, operations: int | None) -> Any:
        """Return how long an operation takes a client, and count the operations of all clients.

        Wait for collectors to read the counters first, for at most ``_PATIENCE_S`` seconds.
        """
        with self._has_read:
            self._has_read.wait_for(self._is_read, timeout=_PATIENCE_S)
        if (words := SCRIPT["failures"].get("measure")) is not None:
            return {"error": words}
        costs = SCRIPT["option_costs"]
        operation_s = SCRIPT["operation_s"] * self._noise.lognormvariate(0, SCRIPT["spread"])
        for name, value in self.do_facts()["settings"].items():
            operation_s *= costs.get(f"{name}={value}", 1.0)
        operations = operations or int(clients * (time_s or 1.0) / operation_s)
        self._counts["operations"] += operations
        self._counts["reads"] += 4 * operations
        for name, wait_s in SCRIPT["waits"].items():
            count, seconds = self._waits.get(name, (0, 0.0))
            self._waits[name] = [count + operations, seconds + wait_s * operations]
        return {"operation_s": operation_s, "operations": operations}


def answer(arguments: list[str], given: str) -> dict[str, Any] | None:
    """Return the load generator's answer to a command; None for a command that drives clients."""
    command, *_ = [each for each in arguments if each != "--die-with-parent"]
    if command == "statements":
        named = json.loads(given)["workload"]["statements"]
        return {"statements": {name: each["sql"] for name, each in named.items()}}
    known: dict[str, dict[str, Any]] = {
        "version": {"load_generator": "0-fake", "data": {}, "tables": "fake"},
        "idle-latency": {"idle_states_enabled": [], "idle_states_disabled": []},
    }
    return known.get(command)


def generate_load(arguments: list[str]) -> int:
    """Run as the load generator."""
    given = sys.stdin.read()
    answered = answer(arguments, given)
    if answered is None:
        return _run(json.loads(given))
    _say(answered)
    return 0


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _run(spec: dict[str, Any]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(spec["connection"]["socket"])
        with connection.makefile("rw") as lines:
            version = _ask(lines, do="facts")["version"]
            _say({"type": "start", "load_generator": "0-fake", "server_version": version})
            for phase in spec["phases"]:
                _say({"type": "mark", "phase": phase["name"], "mark": "phase_started", "t_s": 0.0})
                failed = _phase(lines, phase, spec)
                if failed is not None:
                    error = {"phase": phase["name"], "kind": "server", "code": "1"}
                    _say({"type": "error", **error, "sqlstate": None, "message": failed})
                    return 1
    client = {**_CLIENT, "max_rss_bytes": None}
    _say(
        {
            "type": "summary", "statements": [], "client": client,
            "bytes_sent": 0, "bytes_received": 0,
        }
    )  # fmt: skip
    return 0


_CLIENT = {
    "user_s": 0.01, "system_s": 0.01, "voluntary_switches": 1, "involuntary_switches": 0,
}  # fmt: skip


def _ask(lines: IO[str], **asked: Any) -> Any:
    lines.write(json.dumps(asked) + "\n")
    lines.flush()
    return json.loads(lines.readline())


def _phase(lines: IO[str], phase: dict[str, Any], spec: dict[str, Any]) -> str | None:
    """Report one phase. Return the server's error message where the phase failed."""
    if phase["kind"] == "drive":
        return _drive(lines, phase, spec)
    event = {"type": "phase", "name": phase["name"], "kind": phase["kind"], "duration_s": 0.01}
    if phase["kind"] == "load_tables":
        _ask(lines, do="keep_tables", names=list(spec["workload"]["tables"]))
        loaded = {"rows": 100, "bytes": 1000, "checksum": "1", "load_s": 0.01, "after_load_s": 0.0}
        event |= {
            "tables": [{"name": name, **loaded} for name in spec["workload"]["tables"]],
            "method": "multi_row", "method_reason": None, "warnings": 0, "generator_wait_s": 0.0,
        }  # fmt: skip
    _say(event)
    return None


def _drive(lines: IO[str], phase: dict[str, Any], spec: dict[str, Any]) -> str | None:
    mark = {"type": "mark", "phase": phase["name"]}
    _ask(lines, do="begin_drive")
    _say({**mark, "mark": "connected", "t_s": 0.0})
    _say({**mark, "mark": "measure_started", "t_s": 0.0})
    end, clients = phase["end"], phase["clients"]
    driven = _ask(
        lines, do="drive", clients=clients,
        time_s=end.get("seconds"), operations=end.get("transactions"),
    )  # fmt: skip
    if "error" in driven:
        return str(driven["error"])
    operation_s, n = driven["operation_s"], driven["operations"]
    duration_s = n * operation_s / clients
    seconds = max(1, round(duration_s))
    for second in range(seconds):
        _say(
            {
                "type": "interval", "phase": phase["name"], "kind": "drive", "part": "measure",
                "t_s": second + 1.0, "duration_s": duration_s / seconds,
                "transactions": n // seconds, "statements": n // seconds, "errors": 0,
                "retries": 0, "late": 0, "skipped": 0, "rows": n // seconds, "bytes": 90 * n,
                "p50_us": 1e6 * operation_s, "p99_us": 2e6 * operation_s,
                "max_us": 2e6 * operation_s,
            }
        )  # fmt: skip
    _say({**mark, "mark": "measure_ended", "t_s": duration_s})
    steps = spec["workload"]["tests"][phase["test"]]["steps"]
    is_only = sum(each["kind"] == "drive" for each in spec["phases"]) == 1
    record = {
        "count": n, "errors": {}, "retries": 0, "rows": n, "affected_rows": n,
        "bytes_sent": 30 * n, "bytes_received": 60 * n,
        "service": _histogram(n, operation_s), "response": None,
    }  # fmt: skip
    _say(
        {
            "type": "phase", "kind": "drive", "name": phase["name"],
            "duration_s": duration_s,
            "warmup_s": 0.0, "connect_s": 0.0, "partial": False, "partial_reason": None,
            "primary": phase["primary"] or is_only, "clients": clients, "threads": 1,
            "protocol": phase["protocol"], "test": phase["test"], "busy_poll": False, "cpus": None,
            "pacing": {"kind": "closed"}, "mean_gap_s": 1e-6, "client": _CLIENT,
            "transactions": [{"name": phase["test"], **record}],
            "statements": [
                {"name": name, **record}
                for step in steps for name in step.get("statements", ())
            ],
        }
    )  # fmt: skip
    return None


def _histogram(n: int, mean_s: float) -> dict[str, Any]:
    """Return an HdrHistogram of ``n`` latencies: equal ones, and a slowest tenth twice as long."""
    counts = {_slot(int(1e9 * mean_s)): n - n // 10, _slot(int(2e9 * mean_s)): n // 10}
    payload, at = b"", 0
    for slot, count in sorted(counts.items()):
        payload += (_integer(at - slot) if slot > at else b"") + _integer(count)
        at = slot + 1
    header = struct.pack(">IIIIQQd", 0x1C849313, len(payload), 0, 3, 1, 60 * 10**9, 1.0)
    return {
        "encoded": base64.b64encode(header + payload).decode(), "count": n,
        "sum_s": n * mean_s, "min_s": mean_s, "max_s": 2 * mean_s,
    }  # fmt: skip


def _slot(value: int) -> int:
    bucket = max(0, value.bit_length() - 11)
    return (bucket << 10) + (value >> bucket)


def _integer(value: int) -> bytes:
    """Encode a number as zig-zag LEB128."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def main() -> int:
    """Run as the program named by the file's name."""
    if os.path.basename(sys.argv[0]) == "fake-server":
        return serve(sys.argv[1:])
    return generate_load(sys.argv[1:])
