"""Run the load generator's ``threads`` command, which samples a server's threads."""

import contextlib
import json
import math
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from millrace.errors import MillraceError, Unavailable
from millrace.loadgen import program

_OF_ONE_CPU, _OF_ALL_CPUS, _LEAST_OF_ALL_CPUS = 0.01, 0.0025, 0.001
_READY_LIMIT_S = 10.0
_ANSWER_LIMIT_S = 30.0
_END_LIMIT_S = 2.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class SampledState:
    """A state of a thread: the scheduler's letter, the system call and the descriptor's target.

    ``count`` samples of it stand for ``seconds``; in ``during_sync`` of them another thread wrote
    its log through to the disk. ``wchan`` and ``stack`` are the functions of the kernel.
    """

    state: str
    syscall: int | None
    target: str | None
    wchan: str | None
    stack: str | None
    count: int
    seconds: float
    during_sync: int


@dataclass(frozen=True)
class SampledStatement:
    """The states of a thread while its client executed a statement; None: no statement."""

    statement: str | None
    states: Sequence[SampledState]


@dataclass(frozen=True)
class ThreadSamples:
    """A thread that existed in ``ticks`` samples."""

    tid: int
    name: str
    ticks: int
    states: Sequence[SampledState]
    statements: Sequence[SampledStatement]


@dataclass(frozen=True)
class Sampled:
    """All samples, at ``ticks`` moments; ``realtime`` ones did not wait for other processes.

    The sampler's answer has other keys, of its protocol.
    """

    rate_hz: float
    ticks: int
    cpu_s: float
    realtime: bool
    threads: Sequence[ThreadSamples]


_SAMPLED = TypeAdapter(Sampled)


def budget(connections: int) -> float:
    """Return the share of one CPU that sampling may use; a busy server loses twice as much.

    With many ``connections`` each sample of all threads shows more, so fewer suffice.
    """
    of_all = max(_OF_ALL_CPUS / math.sqrt(connections), _LEAST_OF_ALL_CPUS)
    return min(_OF_ONE_CPU, of_all * (os.cpu_count() or 1))


class ThreadSampler:
    """The running command: it begins, ends, and then reports its counts."""

    def __init__(self, pid: int, connections: int) -> None:
        """Start the command and wait until it can begin. Raise Unavailable where it cannot."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._rest = b""
        try:
            arguments = ["threads", "--pid", str(pid), "--budget", f"{budget(connections):g}"]
            self._process = program.start(arguments, self._stderr)
        except MillraceError as error:
            self._stderr.close()
            raise _unsampled(error) from error
        try:
            self._answer("ready", _READY_LIMIT_S)
        except BaseException:
            self.close()
            raise

    def send(self, command: str) -> None:
        """Send a command: to begin, to end or, before that, to sample the clients' statements."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def samples(self) -> Sampled:
        """Return the samples, after the command to end."""
        answer = self._answer("threads", _ANSWER_LIMIT_S)
        try:
            return _SAMPLED.validate_python(answer)
        except ValidationError as error:
            raise _unsampled(error) from error

    def close(self) -> None:
        """End the command at any point."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._stderr.close()

    def _answer(self, kind: str, limit_s: float) -> Mapping[str, object]:
        line = self._line(limit_s)
        try:
            answer: Mapping[str, object] = json.loads(line)
        except json.JSONDecodeError as error:
            raise _unsampled(error) from error
        if answer["type"] != kind:
            raise _unsampled(f"{program.NAME} said {answer['type']!r}")
        return answer

    def _line(self, limit_s: float) -> bytes:
        """Return the next line of the output. Raise Unavailable where none comes in time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + limit_s
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            left_s = deadline - time.monotonic()
            readable, _, _ = select.select([descriptor], [], [], max(0.0, left_s))
            if not readable:
                raise _unsampled(f"{program.NAME} did not answer in {limit_s:g} s")
            part = os.read(descriptor, _READ_BYTES)
            if not part:
                raise self._failure()
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _failure(self) -> Unavailable:
        """Return the reason why the command ended early."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_LIMIT_S)
        status = self._process.poll()
        self._stderr.seek(0)
        said = program.last_words(1 if status is None else status, self._stderr.read())
        if "unrecognized subcommand" in said:
            return _unsampled(f"this {program.NAME} has no command for it", hint="run `make setup`")
        return _unsampled(said)


def _unsampled(why: object, *, hint: str | None = None) -> Unavailable:
    return Unavailable(f"threads cannot be sampled: {why}", hint=hint)
