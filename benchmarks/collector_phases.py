"""Measure the cost of collectors on a host that is never quiet.

Clients run continuously. The collectors of every trial, in a process of their own, are run and
halted in phases of less than half a second, so that other load of the host changes little from one
phase to the next.

The compared figure is the traffic of the loopback interface in both kinds of phases. In between, a
process that does nothing is run and halted likewise, which shows the effect of the method itself.
Collectors restart every few phases, as in trials, and are not halted while the kernel records
events for them. Their clocks continue while they are halted, so that they do more or less in a
phase than in a trial. The output has both shares of the CPUs' time, and the loss at the share of a
trial.

    benchmarks/collector_phases [--server NAME] [--seconds N] [--quick] [--json FILE]

The CPU profile cannot be halted: see benchmarks/collector_cost.
"""

import argparse
import math
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
from scipy.stats import bootstrap, trim_mean

from benchmarks import json_file
from benchmarks.collector_cost import (
    BY_DEFAULT,
    CPUS,
    DATABASE,
    LIMIT_S,
    OPTIONS,
    TESTS,
    going_on,
    make,
    measured_spec,
    placing,
    shared_cpu_of,
    work_of,
)
from benchmarks.servers import installed, running
from millrace.collect.collectors import Window, collecting
from millrace.collect.model import Target
from millrace.collect.registry import COLLECTORS
from millrace.collect.sched_waits import EVENTS
from millrace.host.cpu_clock import clock_ns
from millrace.loadgen import client as load
from millrace.loadgen.events import Mark, MarkName
from millrace.loadgen.spec import Connection
from millrace.loadgen.statement_activity import StatementActivity
from millrace.servers.instances.instance import Instance
from millrace.trial.collection import target_of, window
from millrace.trial.resolved_workload import ResolvedWorkload

SECONDS, QUICK_S = 600.0, 20.0  # per cell
PHASE_S = 0.4
PAIRS = 16  # phases with the same collectors
ORDINARY_S = 2.0  # seconds in which they are not halted
NOTHING_EVERY = 3  # one in this many pairs halts a process that does nothing
TRIMMED = 0.2  # share of the pairs trimmed at either end: the host does something else in these
GOAL = 0.99

_SETTLED_S = 0.02
_NOTING_S = 0.004
_TRACING = Path("/sys/kernel/tracing/instances")

What = Literal["collectors", "nothing"]
Group = tuple[int, ...]  # processes

_FORK = multiprocessing.get_context("fork")  # collectors look at the server that was started here


@dataclass
class Found:
    """Measurements of pairs of phases.

    Logarithms, by pair, of the packets of the running phase over those of the halted one; seconds
    and nanoseconds of CPU of the collectors while running in phases, and while never halted.
    """

    ratios: dict[What, list[float]] = field(
        default_factory=lambda: {"collectors": [], "nothing": []}
    )
    on_s: float = 0.0
    on_ns: int = 0
    ordinary_s: float = 0.0
    ordinary_ns: int = 0

    @property
    def own_cpu(self) -> float:
        """Return the share of all CPUs' time that collectors used in running phases."""
        return self.on_ns / 1e9 / self.on_s / len(CPUS)

    @property
    def ordinary_cpu(self) -> float:
        """Return the share of all CPUs' time that collectors used while never halted."""
        return self.ordinary_ns / 1e9 / self.ordinary_s / len(CPUS)


@dataclass(frozen=True)
class Ratio:
    """Throughput of running phases over that of halted ones, with a 95 % bootstrap interval."""

    ratio: float
    low: float
    high: float
    n_pairs: int


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mysql-8.0.33", metavar="NAME", help="[%(default)s]")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help="of a cell [%(default)s]"
    )
    parser.add_argument("--clients", type=int, action="append", help="one or more of it [1 and 16]")
    parser.add_argument("--quick", action="store_true", help="20 seconds: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    server = installed(arguments.server)
    seconds = QUICK_S if arguments.quick else arguments.seconds
    results = []
    for clients in arguments.clients or (1, 16):
        for test in TESTS:
            with running(server, OPTIONS) as instance:
                found = _cell(instance, work_of(test, clients), seconds)
            collectors, nothing = (ratio(found.ratios[what]) for what in ("collectors", "nothing"))
            results.append(
                {
                    "test": test,
                    "clients": clients,
                    "own_cpu": found.own_cpu,
                    "ordinary_cpu": found.ordinary_cpu,
                    "collectors": asdict(collectors),
                    "nothing": asdict(nothing),
                }
            )
            _print(test, clients, found, collectors, nothing)
    json_file.write(
        arguments.json, "collector_phases", server=arguments.server, phase_s=PHASE_S, cells=results
    )


def ratio(logs: list[float]) -> Ratio:
    """Return the trimmed mean of log-ratios, shape (n,), as a ratio."""
    values = np.array(logs)

    def typical(sample: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(trim_mean(sample, TRIMMED, axis=axis))

    limits = bootstrap((values,), typical, method="percentile", rng=1).confidence_interval
    return Ratio(
        math.exp(float(typical(values))),
        math.exp(float(limits.low)),
        math.exp(float(limits.high)),
        len(values),
    )


def _print(test: str, clients: int, found: Found, collectors: Ratio, nothing: Ratio) -> None:
    in_trial = collectors.ratio ** (found.ordinary_cpu / found.own_cpu)
    print(
        f"{test:22} {clients:3} clients  {_text(collectors)} of the throughput with collectors, "
        f"which ran {found.own_cpu:.2%} of the CPUs' time themselves; {found.ordinary_cpu:.2%} in "
        f"a trial, that is {in_trial:.4f}; the goal is {GOAL:.2f}; with nothing {_text(nothing)}",
        flush=True,
    )


def _text(found: Ratio) -> str:
    return f"{found.ratio:.4f} ({found.low:.4f} to {found.high:.4f}, 95 %, {found.n_pairs} pairs)"


def _cell(instance: Instance, work: ResolvedWorkload, seconds: float) -> Found:
    connection = Connection(
        user=instance.user,
        password=instance.password,
        database=DATABASE,
        host="127.0.0.1",
        port=instance.port,
    )
    make(instance, work, connection)
    found = Found()
    with StatementActivity.create() as shown:
        shared_cpu = shared_cpu_of(work)
        spec = measured_spec(work, connection, shown, shared_cpu)
        target = replace(
            target_of(instance, DATABASE),
            statements=load.statements(spec),
            statement_activity=shown,
            connections=work.connections or 1,
        )
        with going_on(spec, placing(target, shared_cpu, shown)) as intervals:
            intervals.get(timeout=LIMIT_S)  # the first line says that they have begun
            ends_s = time.monotonic() + seconds
            while time.monotonic() < ends_s:
                _stint(found, target, window(work))
    return found


def _stint(found: Found, target: Target, measured: Window) -> None:
    """Measure some pairs of phases with the same collectors."""
    with _aside(_observe, target, measured) as collectors, _aside(_do_nothing) as nothing:
        began_s, began_ns = time.monotonic(), _own_ns(collectors)
        time.sleep(ORDINARY_S)
        found.ordinary_s += time.monotonic() - began_s
        found.ordinary_ns += _own_ns(collectors) - began_ns
        _halt(collectors)
        _halt(nothing)
        for number in range(PAIRS):
            halts_nothing = number % NOTHING_EVERY == NOTHING_EVERY - 1
            group = nothing if halts_nothing else collectors
            order = random.sample([True, False], 2)
            rates = {on: _phase(found, group, on=on, counts=not halts_nothing) for on in order}
            what: What = "nothing" if halts_nothing else "collectors"
            found.ratios[what].append(math.log(rates[True] / rates[False]))


def _phase(found: Found, group: Group, *, on: bool, counts: bool) -> float:
    """Return packets per second while a group runs or is halted; the group is halted at the end."""
    if on:
        _signal(group, signal.SIGCONT)
    time.sleep(_SETTLED_S)
    began_s, began, began_ns = time.monotonic(), _packets(), _own_ns(group)
    time.sleep(PHASE_S)
    packets, took_s = _packets() - began, time.monotonic() - began_s
    if on and counts:
        found.on_s += took_s
        found.on_ns += _own_ns(group) - began_ns
    if on:
        _halt(group)
    return packets / took_s


def _packets() -> int:
    """Return the number of packets received over the loopback interface since boot."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[2]) for line in lines if line.split()[0] == "lo:")


@contextmanager
def _aside(does: Callable[..., None], *given: Any) -> Iterator[Group]:
    """Run a process that first reports its missing observations; yield them and its children.

    All of them are gone when the block ends.
    """
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=does, args=(theirs, *given), daemon=True)
    process.start()
    theirs.close()
    group: Group = ()
    try:
        if not ours.poll(LIMIT_S):
            raise RuntimeError("collectors did not begin")
        for lack in ours.recv():
            print(f"missing: {lack['what']}; {lack['hint']}", file=sys.stderr)
        assert process.pid is not None
        children = psutil.Process(process.pid).children(recursive=True)
        group = (process.pid, *(child.pid for child in children))
        yield group
    finally:
        _signal(group, signal.SIGCONT)
        with suppress(OSError):
            ours.send("end")
        process.join()
        ours.close()


def _observe(parent: Pipe, target: Target, measured: Window) -> None:
    _not_ours_to_handle()
    with collecting(COLLECTORS, BY_DEFAULT, target, measured) as collector:
        marks: tuple[MarkName, ...] = ("connected", "measure_started")
        for name in marks:
            collector.on_event(Mark(phase="measure", mark=name, t_s=0))
        parent.send(collector.missing)
        parent.recv()


def _do_nothing(parent: Pipe) -> None:
    _not_ours_to_handle()
    parent.send([])
    parent.recv()


def _not_ours_to_handle() -> None:
    """Leave the server to the parent, which receives the same signal and stops it."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


def _halt(group: Group) -> None:
    """Halt a group, but not while the kernel records events for it."""
    _signal(group, signal.SIGSTOP)
    while _is_noting(group[0]):
        _signal(group, signal.SIGCONT)
        time.sleep(_NOTING_S)
        _signal(group, signal.SIGSTOP)


def _is_noting(pid: int) -> bool:
    of_process = _TRACING.glob(f"millrace-{pid}-*/events/sched")
    enabled = (place / event / "enable" for place in of_process for event in EVENTS)
    return any(each.read_text(encoding="ascii").startswith("1") for each in enabled)


def _signal(group: Group, number: signal.Signals) -> None:
    for pid in group:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _own_ns(group: Group) -> int:
    return sum(clock_ns(pid) for pid in group)


if __name__ == "__main__":
    main()
