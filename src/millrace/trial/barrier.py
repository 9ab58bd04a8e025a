"""Synchronise the two trials of a concurrent pair.

Each trial prepares, restores, starts and warms its servers at its own speed. It then waits for the
other one (``READY``), again right before the load generator starts (``BEGIN``), and when it has
measured (``END``), so that no server stops while the other trial still measures. A trial that runs
alone waits for nobody.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from millrace.collect.collectors import Edge
from millrace.host.cpuset import CpuPartition
from millrace.loadgen.events import LoadResult
from millrace.model.instance_facts import ConcurrentFact
from millrace.trial.hooks import MeasurementContext, MeasurementHook, Wait, WindowHook

READY, BEGIN, END = "ready", "begin", "end"

# The steps of both trials have limits of their own, and a failure ends both. This limit ends what
# hangs in spite of that.
LIMIT_S = 6 * 3600.0


def no_barrier(_point: str) -> None:
    """Wait for nobody."""


def hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook by which a trial of a concurrent pair waits for the other one."""
    if measurement.spec.cpu_partition is not None:
        yield _Barrier(measurement.wait)


class _Barrier(MeasurementHook):
    def __init__(self, wait: Wait) -> None:
        self._wait = wait

    def before(self) -> None:
        self._wait(BEGIN)

    def ended(self) -> None:
        self._wait(END)


def window_hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that records when a trial of a concurrent pair was measured."""
    if measurement.spec.cpu_partition is not None:
        yield _MeasuredWindow(measurement, measurement.spec.cpu_partition)


class _MeasuredWindow(WindowHook):
    """The times are seconds of CLOCK_MONOTONIC, which all processes of a host share."""

    def __init__(self, measurement: MeasurementContext, partition: CpuPartition) -> None:
        super().__init__(measurement)
        self._partition = partition
        self._at_s: dict[Edge, float] = {}

    def at_edge(self, edge: Edge) -> None:
        self._at_s[edge] = time.monotonic()

    def contribute(self, result: LoadResult) -> None:
        if self.is_complete:
            fact = ConcurrentFact(
                side=self._partition.side,
                cpus=self._partition.cpus,
                measured_from_s=self._at_s["begin"],
                measured_to_s=self._at_s["end"],
            )
            self._measurement.outputs.add_facts(concurrent=fact)
