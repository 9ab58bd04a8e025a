"""Run the load generator: send it a specification, read its events and build a result."""

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import IO

from millrace import safe_json
from millrace.errors import HostError, TrialFailed
from millrace.loadgen import events as load_events
from millrace.loadgen import program
from millrace.loadgen.events import Event, Interval, LoadResult, read_event, result_of
from millrace.loadgen.spec import Drive, LoadSpec
from millrace.shown_text import shown_line

_SPEC_REFUSED = 2
# Enough for a result of 16 MiB with all characters escaped; 100 histograms take 1 MiB.
_OF_AN_EVENT = safe_json.Limits(size_bytes=128 << 20, values=4_000_000, text_chars=128 << 20)
_GRACE_S = 0.7  # shorter than the grace time of a trial's steps


class LoadFailed(TrialFailed):
    """A failed run; ``result`` has its results until the failure, None if it did not log in."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        step: str | None = None,
        result: LoadResult | None = None,
        side: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, step=step, side=side)
        self.result = result


def run(
    spec: LoadSpec, *, on_event: Callable[[Event], None] | None = None, limit_s: float
) -> LoadResult:
    """Run a specification and return its result.

    ``on_event`` is called for each event; an exception from it aborts the run. Raise LoadFailed
    with the server's error code and message, or after ``limit_s``. Raise HostError if the load
    generator cannot run. The load generator has exited when this returns or raises.
    """
    events: list[Event] = []
    with tempfile.TemporaryFile() as stderr, _started(stderr) as process:
        late = threading.Event()
        # The load generator's own limits start at its log-in; it then reports its results so far.
        alarm = threading.Timer(limit_s + _GRACE_S, _end, (process, late))
        alarm.daemon = True
        alarm.start()
        try:
            _hand_over(process, spec)
            for event in _events(process):
                if not isinstance(event, Interval):
                    events.append(event)
                if on_event is not None:
                    on_event(event)
            returncode = process.wait()
        finally:
            alarm.cancel()
        if late.is_set():
            raise LoadFailed(
                f"the load generator was killed after its time limit of {limit_s:g} s",
                result=result_of(events),
            )
        stderr.seek(0)
        return _result(spec, events, returncode, stderr.read())


@contextlib.contextmanager
def _started(stderr: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the load generator, and kill it when the block ends or raises."""
    process = program.start(["run", "-"], stderr)
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


def _hand_over(process: subprocess.Popen[bytes], spec: LoadSpec) -> None:
    assert process.stdin is not None
    # A load generator that exits before it reads its input prints the reason on standard error.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(spec.to_json().encode())
        process.stdin.close()


def _events(process: subprocess.Popen[bytes]) -> Iterator[Event]:
    assert process.stdout is not None
    while line := process.stdout.readline(_OF_AN_EVENT.size_bytes + 1):
        try:
            event = read_event(safe_json.parse_object(line, _OF_AN_EVENT))
        except ValueError as error:
            if len(line) <= _OF_AN_EVENT.size_bytes and not line.endswith(b"\n"):
                return  # the truncated line of a killed load generator
            raise LoadFailed(f"invalid event from {program.NAME}: {error}") from error
        yield event


def _result(spec: LoadSpec, events: list[Event], returncode: int, stderr: bytes) -> LoadResult:
    """Return the result of a run that ended; raise LoadFailed or HostError if it failed."""
    result = result_of(events)
    for event in events:
        if isinstance(event, load_events.Error):
            hint = None if event.code is None else spec.error_hints.get(event.code)
            raise LoadFailed(
                _describe(event), hint=hint, step=event.phase, result=result, side=event.side
            )
    if returncode == _SPEC_REFUSED:
        raise HostError(
            f"{program.NAME} refused its specification: {program.last_words(returncode, stderr)}",
            hint=program.version_hint(),
        )
    if returncode != 0 or result is None or not isinstance(events[-1], load_events.Summary):
        raise HostError(f"{program.NAME}: {program.last_words(returncode, stderr)}")
    return result


def statements(spec: LoadSpec) -> Mapping[str, str]:
    """Return the SQL of a run's statements by name, without very rare ones. Raise HostError."""
    phases = [replace(p, protocol="text") if isinstance(p, Drive) else p for p in spec.phases]
    as_text = replace(spec, phases=phases).to_json()
    found: Mapping[str, str] = program.ask(["statements", "-"], as_text)["statements"]
    return found


def _describe(error: load_events.Error) -> str:
    text = f"{error.phase}: {shown_line(error.message)}"
    if error.code is not None:
        text += f" (error {error.code}, SQLSTATE {error.sqlstate})"
    if error.statement is not None:
        text += f"; the statement: {shown_line(error.statement)}"
    return text
