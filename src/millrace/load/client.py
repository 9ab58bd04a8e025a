"""The contract with the load generator: a specification out, events and a result in.

The program writes JSON lines: ``start``, an ``interval`` a second, a ``phase`` at the end of each
phase, and a ``summary``; or an ``error`` before the summary. Times are seconds, sizes bytes.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from millrace.errors import HostProblem, TrialFailed
from millrace.load import program
from millrace.load.data import DataChecksum, data_checksum, versions, write_data_file
from millrace.load.program import find_load_generator
from millrace.load.spec import RunSpec

__all__ = [
    "ClientUsage",
    "DataChecksum",
    "LoadResult",
    "PhaseResult",
    "StatementResult",
    "data_checksum",
    "find_load_generator",
    "run",
    "versions",
    "write_data_file",
]

Event = dict[str, Any]

_SPEC_REFUSED = 2

# What LOAD DATA LOCAL is answered where local_infile is off: by older servers of both families, by
# newer ones of MySQL, by newer ones of MariaDB.
_LOCAL_INFILE_OFF = frozenset((1148, 3948, 4166))


@dataclass(frozen=True)
class PhaseResult:
    """One phase that ended well.

    ``generator_wait_s`` is how long the sender waited for rows to be made, None where none were;
    ``result`` holds at most 100 rows of the phase's last result set, None where it had none.
    """

    name: str
    duration_s: float
    affected_rows: int
    warnings: int
    rows_sent: int
    bytes_sent: int
    generator_wait_s: float | None
    result: tuple[tuple[str | None, ...], ...] | None


@dataclass(frozen=True)
class StatementResult:
    """The statements of one phase: ``count`` succeeded, ``errors`` counts the others by the
    server's code; ``histogram`` is their latency in microseconds, HdrHistogram V2 in base64."""

    name: str
    count: int
    errors: Mapping[int, int]
    histogram: str


@dataclass(frozen=True)
class ClientUsage:
    """What the load generator itself used of the host."""

    user_s: float
    system_s: float
    voluntary_switches: int
    involuntary_switches: int
    max_rss_bytes: int | None


@dataclass(frozen=True)
class LoadResult:
    """A run that ended well. ``server_version`` is the server's own word."""

    load_generator: str
    server_version: str
    phases: tuple[PhaseResult, ...]
    statements: tuple[StatementResult, ...]
    client: ClientUsage
    bytes_sent: int
    bytes_received: int


def run(
    spec: RunSpec, *, on_event: Callable[[Event], None] | None = None, limit_s: float
) -> LoadResult:
    """Run a specification and return what it yielded.

    ``on_event`` gets every event as it comes; whatever it raises ends the run. Raises TrialFailed
    with the server's code and message, or when ``limit_s`` is over; HostProblem when the program
    itself cannot do its work. The program is gone when this returns or raises.
    """
    events: list[Event] = []
    with tempfile.TemporaryFile() as stderr, _started(stderr) as process:
        late = threading.Event()
        alarm = threading.Timer(limit_s, _end, (process, late))
        alarm.daemon = True
        alarm.start()
        try:
            _hand_over(process, spec)
            for event in _events(process):
                if event["type"] != "interval":
                    events.append(event)
                if on_event is not None:
                    on_event(event)
            returncode = process.wait()
        finally:
            alarm.cancel()
        if late.is_set():
            raise TrialFailed(f"the load generator was ended after {limit_s:g} s, its time limit")
        stderr.seek(0)
        _raise_failure(events, returncode, stderr.read())
    return _result(events)


@contextlib.contextmanager
def _started(stderr: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The program, ended at the end of the block however that comes."""
    command = [str(program.find_load_generator()), "--die-with-parent", "run", "-"]
    try:
        # A session of its own: Ctrl-C reaches us alone, and we end it in order.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        raise HostProblem(f"cannot start {command[0]}: {error.strerror}") from error
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _end(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _hand_over(process: subprocess.Popen[bytes], spec: RunSpec) -> None:
    assert process.stdin is not None
    # A program that ended before it read tells why on standard error.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(spec.to_json().encode())
        process.stdin.close()


def _events(process: subprocess.Popen[bytes]) -> Iterator[Event]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith(b"\n"):  # a killed program may leave half a line
            yield json.loads(line)


def _raise_failure(events: list[Event], returncode: int, stderr: bytes) -> None:
    for event in events:
        if event["type"] == "error":
            raise TrialFailed(_describe(event), remedy=_remedy(event), step=event["phase"])
    if returncode == _SPEC_REFUSED:
        raise HostProblem(
            f"{program.NAME} refused its specification: {program.last_words(returncode, stderr)}",
            remedy="millrace and its load generator are of different versions: run `make setup`",
        )
    if returncode != 0 or not events or events[-1]["type"] != "summary":
        raise HostProblem(f"{program.NAME}: {program.last_words(returncode, stderr)}")


def _describe(error: Event) -> str:
    text = f"{error['phase']}: {error['message']}"
    if error["code"] is not None:
        text += f" (error {error['code']}, SQLSTATE {error['sqlstate']})"
    return text


def _remedy(error: Event) -> str | None:
    if error["code"] in _LOCAL_INFILE_OFF:
        return "local_infile is off there; SET GLOBAL local_infile=1 would allow it"
    return None


def _result(events: list[Event]) -> LoadResult:
    start, summary = events[0], events[-1]
    return LoadResult(
        load_generator=start["load_generator"],
        server_version=start["server_version"],
        phases=tuple(_phase(event) for event in events if event["type"] == "phase"),
        statements=tuple(_statement(statement) for statement in summary["statements"]),
        client=ClientUsage(**summary["client"]),
        bytes_sent=summary["bytes_sent"],
        bytes_received=summary["bytes_received"],
    )


def _phase(event: Event) -> PhaseResult:
    fields = {name: value for name, value in event.items() if name != "type"}
    if event["result"] is not None:
        fields["result"] = tuple(tuple(row) for row in event["result"])
    return PhaseResult(**fields)


def _statement(statement: Event) -> StatementResult:
    errors = {int(code): count for code, count in statement["errors"].items()}
    return StatementResult(**{**statement, "errors": errors})
