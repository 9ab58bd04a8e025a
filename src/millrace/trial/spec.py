"""Describe a trial before it starts: its servers by role, its workload and its settings."""

from dataclasses import dataclass
from pathlib import Path

from millrace.experiment.slowdown import Slowdown
from millrace.host.cpuset import CpuPartition
from millrace.loadgen.datasets import DataChecksum
from millrace.model.servers import FittedOptions, Server
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.resolved_workload import ResolvedWorkload

SERVER = "server"
"""The role of a trial's only server."""


@dataclass(frozen=True)
class ServerSpec:
    """One server of a trial: its build, its options, and the slowdown that is injected into it."""

    server: Server
    options: FittedOptions
    slowdown: Slowdown | None = None
    role: str = SERVER


@dataclass(frozen=True)
class TrialSpec:
    """Everything that a trial needs, the same for every trial of a treatment.

    ``name`` is the trial's id in the store. All ``servers`` run under one load generator, which
    drives the first one. ``expected`` is the content of a named data set, ``data_file`` its file
    where a server reads it. ``cpu_partition`` holds the CPUs of a trial that is measured at the
    same time as another one, None where it may use all CPUs. With ``stops_cleanly`` the servers
    stop at the end and their files are measured; otherwise they are killed, which takes seconds
    less.
    """

    name: str
    servers: tuple[ServerSpec, ...]
    workload: ResolvedWorkload
    expected: DataChecksum | None = None
    data_file: Path | None = None
    cpu_idle: CpuIdleSettings | None = None
    collectors: tuple[str, ...] = ()
    cpu_partition: CpuPartition | None = None
    stops_cleanly: bool = True
