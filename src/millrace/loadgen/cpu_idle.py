"""Sleeping CPUs, as the load generator measures them and keeps them awake."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from millrace.errors import HostError
from millrace.loadgen import program

# A second or so in all; more on hosts of many CPUs, each of which gets the least below.
_SAMPLES_OF_ALL_CPUS = 500
_LEAST_SAMPLES = 30
_END_LIMIT_S = 10.0


@dataclass(frozen=True)
class CpuWakeup:
    """How long one CPU takes to run a thread that was signalled: the median, in microseconds,
    when the CPU sleeps and when it is kept awake."""

    cpu: int
    idle_us: float
    awake_us: float


@dataclass(frozen=True)
class KeptAwake:
    """What keeps the CPUs awake: the kernel's own idle loop (``latency_request``: it took the
    request for no wake-up latency), and so many threads of the idle class."""

    latency_request: bool
    pollers: int


@functools.cache
def measure() -> tuple[CpuWakeup, ...]:
    """Measure each CPU this process may use, one after the other, for about a second in all; only
    once, so that what is found about a host and what is decided by it are the same.

    Raises HostError where that cannot be done.
    """
    samples = max(_LEAST_SAMPLES, _SAMPLES_OF_ALL_CPUS // len(os.sched_getaffinity(0)))
    answer = program.ask(["wakeup", "--samples", str(samples)])
    awake = {one["cpu"]: one["p50_us"] for one in answer["kept_awake"]}
    return tuple(CpuWakeup(one["cpu"], one["p50_us"], awake[one["cpu"]]) for one in answer["idle"])


@contextlib.contextmanager
def kept_awake() -> Iterator[KeptAwake]:
    """While the block runs, no CPU this process may use halts.

    Raises HostError when the host refuses the scheduling class that the pollers need, and at the
    block's end when they ended before it.
    """
    command = [str(program.find_load_generator()), "--die-with-parent", "keep-awake"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            said = process.stdout.readline()
            if not said:
                raise HostError(program.last_words(process.wait(), process.stderr.read()))
            how: Mapping[str, Any] = json.loads(said)
            yield KeptAwake(how["latency_request"], how["pollers"])
            if process.poll() is not None:
                raise HostError("what keeps the CPUs awake ended before the measurement did")
        finally:
            process.stdin.close()
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
