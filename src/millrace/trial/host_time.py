"""Record what the host's clocks and hypervisor did in the measured part of a trial.

A machine that sleeps stops CLOCK_MONOTONIC, by which millrace measures, but not CLOCK_BOOTTIME. A
virtual machine that its host suspends may notice neither; when it goes on, its wall clock is set
forward. Steal is the time in which a virtual CPU wanted to run and the hypervisor ran something
else; the kernel counts it in /proc/stat.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from millrace.host.files import read_file
from millrace.host.parsers import cpu_steal
from millrace.loadgen.events import LoadResult
from millrace.model.instance_facts import HostTimeFact
from millrace.trial.hooks import EdgeReadings, MeasurementContext, MeasurementHook

_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class Moment:
    """Clocks in seconds; steal and all time of the trial's CPUs in ticks, None where unknown."""

    monotonic_s: float
    boot_s: float
    wall_s: float
    steal: tuple[int, int] | None


def moment(cpus: Collection[int], stat: Path = _STAT) -> Moment:
    """Read the clocks and the steal of some CPUs."""
    return Moment(
        monotonic_s=time.clock_gettime(time.CLOCK_MONOTONIC),
        boot_s=time.clock_gettime(time.CLOCK_BOOTTIME),
        wall_s=time.clock_gettime(time.CLOCK_REALTIME),
        steal=cpu_steal(read_file(stat), cpus),
    )


def hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that records the host's time; every measurement has it."""
    yield HostTime(measurement)


class HostTime(EdgeReadings[Moment]):
    """Read the moments at which the measured part begins and ends."""

    def __init__(self, measurement: MeasurementContext) -> None:
        super().__init__(measurement)
        self._cpus = os.sched_getaffinity(0)

    def read(self) -> Moment:
        return moment(self._cpus)

    def contribute(self, result: LoadResult) -> None:
        if self.both is not None:
            self._measurement.outputs.add_facts(host_time=between(*self.both))


def between(begin: Moment, end: Moment) -> HostTimeFact:
    """Return the time between two moments, by all clocks."""
    measured_s, booted_s = end.monotonic_s - begin.monotonic_s, end.boot_s - begin.boot_s
    share = None
    if begin.steal is not None and end.steal is not None and end.steal[1] > begin.steal[1]:
        # The kernel's counts may go back by a tick.
        stolen = max(end.steal[0] - begin.steal[0], 0)
        share = min(stolen / (end.steal[1] - begin.steal[1]), 1.0)
    return HostTimeFact(
        measured_s=measured_s,
        suspended_s=max(round(booted_s - measured_s, 6), 0.0),
        clock_step_s=round(end.wall_s - begin.wall_s - booted_s, 6),
        steal_share=share,
    )
