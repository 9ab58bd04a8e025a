"""Hold the prepared input of a run's trials, and derive the spec of one trial from it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from millrace.collect.registry import PROFILE
from millrace.experiment.model import Plan, PlannedTrial
from millrace.host.cpuset import CpuPartition
from millrace.loadgen.datasets import DataChecksum
from millrace.trial.cpu_idle import CpuIdlePolicy, CpuIdleSettings
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec


@dataclass(frozen=True)
class PreparedTreatment:
    """The servers and the resolved workload of a treatment."""

    servers: tuple[ServerSpec, ...]
    workload: ResolvedWorkload


@dataclass(frozen=True)
class RunInput:
    """The input that the trials of a run share; ``treatments`` are by id.

    ``cpu_idle`` is None where no workload has ``connections``, ``cpu_partitions`` where trials are
    interleaved. ``estimate_s`` is the expected time of all trials of the plan.
    """

    treatments: Mapping[str, PreparedTreatment]
    expected: DataChecksum | None
    data_file: Path | None
    cpu_idle: CpuIdlePolicy | None = None
    cpu_partitions: tuple[CpuPartition, CpuPartition] | None = None
    estimate_s: float = 0.0


def trial_spec(name: str, trial: PlannedTrial, plan: Plan, inputs: RunInput) -> TrialSpec:
    """Return the spec of a trial; ``name`` is its id in the store."""
    treatment = inputs.treatments[trial.treatment.id]
    partition, collectors = None, plan.experiment.collectors
    if trial.side is not None:
        assert inputs.cpu_partitions is not None  # The preparation of such a run provides them.
        partition = inputs.cpu_partitions[trial.side]
    return TrialSpec(
        name=name,
        servers=treatment.servers,
        workload=treatment.workload,
        expected=inputs.expected,
        data_file=inputs.data_file if treatment.workload.reads_a_file else None,
        cpu_idle=_cpu_idle(inputs.cpu_idle, treatment.workload, partition),
        collectors=(*collectors, PROFILE) if trial.purpose == "profile" else collectors,
        cpu_partition=partition,
        # Sizes on disk hardly differ between blocks, and nothing reads the data afterwards.
        stops_cleanly=trial.block == 0,
    )


def _cpu_idle(
    policy: CpuIdlePolicy | None, workload: ResolvedWorkload, partition: CpuPartition | None
) -> CpuIdleSettings | None:
    if policy is None or workload.connections is None:
        return None
    if partition is not None:
        policy = replace(policy, cpus=partition.cpus)
    return policy.settings(workload.connections)
