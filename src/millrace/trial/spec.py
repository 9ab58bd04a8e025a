"""Describe a trial before it starts: its servers by role, its workload and its settings."""

from dataclasses import dataclass, field
from pathlib import Path

from millrace.databases.table_formats import TableFormat
from millrace.experiment.slowdown import Slowdown
from millrace.loadgen.datasets import DataChecksum
from millrace.model.roles import SERVER
from millrace.model.servers import FittedOptions, Server
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.resolved_workload import ResolvedWorkload


@dataclass(frozen=True)
class ServerSpec:
    """One server of a trial: its build, options and tables, and the injected slowdown."""

    server: Server
    options: FittedOptions
    slowdown: Slowdown | None = None
    role: str = SERVER
    table_format: TableFormat = field(default_factory=TableFormat)


@dataclass(frozen=True)
class TrialSpec:
    """Everything that a trial needs, the same for every trial of a treatment."""

    name: str  # the trial's id in the store
    servers: tuple[ServerSpec, ...]  # under one load generator, which drives the first
    workload: ResolvedWorkload
    expected: DataChecksum | None = None  # the content of a named data set
    data_file: Path | None = None  # of the data set, where a server reads it
    cpu_idle: CpuIdleSettings | None = None
    collectors: tuple[str, ...] = ()
    stops_cleanly: bool = True  # and measures files; else kills, seconds sooner
    loops: int = 1  # in which clients are driven, on the same data directory
