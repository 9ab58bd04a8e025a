"""Measure how long idle CPUs take to wake, and disable idle states, with the load generator."""

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

# About a second in all; more on hosts with many CPUs, because each gets at least the minimum below.
_SAMPLES_OF_ALL_CPUS = 500
_LEAST_SAMPLES = 30
_END_LIMIT_S = 10.0


@dataclass(frozen=True)
class IdleLatency:
    """The median µs that a CPU takes to run a signalled thread: when idle, when kept awake."""

    cpu: int
    idle_us: float
    awake_us: float


@exact
@dataclass(frozen=True)
class DisabledIdleStates:
    """The means that keep CPUs awake."""

    latency_request: bool  # the kernel's own idle loop polls: it accepted the request
    pollers: int  # threads of the idle class that poll


_DISABLED = TypeAdapter(DisabledIdleStates)


@functools.cache  # so that reported facts of a host and decisions based on them agree
def measure() -> tuple[IdleLatency, ...]:
    """Measure each CPU that this process may use, in about a second in all. Raise HostError."""
    samples = max(_LEAST_SAMPLES, _SAMPLES_OF_ALL_CPUS // len(os.sched_getaffinity(0)))
    answer = program.ask(["idle-latency", "--samples", str(samples)])
    awake = {one["cpu"]: one["p50_us"] for one in answer["idle_states_disabled"]}
    return tuple(
        IdleLatency(one["cpu"], one["p50_us"], awake[one["cpu"]])
        for one in answer["idle_states_enabled"]
    )


@contextlib.contextmanager
def disable_idle_states() -> Iterator[DisabledIdleStates]:
    """Keep this process's CPUs from halting in the block. Raise HostError where that is refused."""
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
                raise HostError("what keeps the CPUs awake ended before the measurement did")
        finally:
            process.stdin.close()
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
