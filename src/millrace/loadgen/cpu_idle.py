"""Measure the wake-up latency of idle CPUs, and disable idle states, with the load generator."""

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter

from millrace.errors import HostError
from millrace.loadgen import program
from millrace.model.documents import exact

# These take about a second; longer on hosts with many CPUs, because of the minimum for each CPU.
_SAMPLES_OF_ALL_CPUS = 500
_LEAST_SAMPLES = 30
_END_LIMIT_S = 10.0


@dataclass(frozen=True)
class IdleLatency:
    """The median time in µs until a CPU runs a woken thread: if idle, and if kept awake."""

    cpu: int
    idle_us: float
    awake_us: float


@exact
@dataclass(frozen=True)
class DisabledIdleStates:
    """The method by which CPUs are kept awake."""

    latency_request: bool  # the kernel accepted a latency request: its idle loop polls
    pollers: int  # number of polling threads with idle priority


_DISABLED = TypeAdapter(DisabledIdleStates)


@functools.cache  # so that decisions use the same values as the reported facts of the host
def measure() -> tuple[IdleLatency, ...]:
    """Return the wake-up latency of each CPU of this process; takes a second. Raise HostError."""
    samples = max(_LEAST_SAMPLES, _SAMPLES_OF_ALL_CPUS // len(os.sched_getaffinity(0)))
    answer = program.ask(["idle-latency", "--samples", str(samples)])
    awake = {one["cpu"]: one["p50_us"] for one in answer["idle_states_disabled"]}
    return tuple(
        IdleLatency(one["cpu"], one["p50_us"], awake[one["cpu"]])
        for one in answer["idle_states_enabled"]
    )


@contextlib.contextmanager
def disable_idle_states() -> Iterator[DisabledIdleStates]:
    """Keep this process's CPUs awake within the block. Raise HostError if that is not possible."""
    with program.start(["disable-idle-states"], subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            said = process.stdout.readline()
            if not said:
                raise HostError(program.last_words(process.wait(), process.stderr.read()))
            yield _DISABLED.validate_json(said, strict=True)
            if process.poll() is not None:
                raise HostError("the process that keeps CPUs awake ended during the measurement")
        finally:
            process.stdin.close()
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
