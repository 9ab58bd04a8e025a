"""Hold the prepared input of a run's trials, and derive the spec of one trial from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.collect.registry import PROFILE
from millrace.experiment.model import Plan, PlannedTrial
from millrace.experiment.slowdown import Slowdown
from millrace.host.cpuset import CpuPartition
from millrace.loadgen import client as load
from millrace.model.servers import FittedOptions, Server
from millrace.trial.cpu_idle import Control, Rule
from millrace.trial.measure import TrialSpec
from millrace.trial.resolved_workload import DataFile, ResolvedWorkload


@dataclass(frozen=True)
class PreparedTreatment:
    """A treatment's server, its fitted options, its resolved workload, and its slowdown."""

    server: Server
    options: FittedOptions
    work: ResolvedWorkload
    slowdown: Slowdown | None = None


@dataclass(frozen=True)
class RunInput:
    """The input that the trials of a run share.

    ``treatments`` are by treatment id. ``rule`` decides how idle CPUs are kept awake, None where no
    workload has ``connections``. ``halves`` are the CPU partitions of a concurrent pair, None where
    trials are interleaved. ``estimate_s`` is the expected time of all trials of the plan.
    """

    treatments: Mapping[str, PreparedTreatment]
    expected: load.DataChecksum | None
    data_file: DataFile | None
    rule: Rule | None = None
    halves: tuple[CpuPartition, CpuPartition] | None = None
    estimate_s: float = 0.0


def trial_input(name: str, trial: PlannedTrial, plan: Plan, inputs: RunInput) -> TrialSpec:
    """Return the spec of a trial; ``name`` is its id in the store."""
    treatment = inputs.treatments[trial.treatment.id]
    work = treatment.work
    half = None
    if trial.side is not None:
        assert inputs.halves is not None  # The preparation of such a run provides them.
        half = inputs.halves[trial.side]
    return TrialSpec(
        name=name,
        server=treatment.server,
        options=treatment.options,
        work=work,
        expected=inputs.expected,
        data_file=inputs.data_file if work.reads_a_file else None,
        control=_control(inputs.rule, work, half),
        observers=_collectors(plan, trial),
        slowdown=treatment.slowdown,
        half=half,
        # Sizes on disk hardly differ between blocks, and nothing reads the data afterwards.
        stops_cleanly=trial.block == 0,
    )


def _collectors(plan: Plan, trial: PlannedTrial) -> tuple[str, ...]:
    collectors = plan.experiment.observers
    return (*collectors, PROFILE) if trial.purpose == "profile" else collectors


def _control(
    rule: Rule | None, work: ResolvedWorkload, half: CpuPartition | None
) -> Control | None:
    if rule is None or work.connections is None:
        return None
    of_half = rule if half is None else replace(rule, cpus=half.cpus)
    return of_half.control(work.connections)
