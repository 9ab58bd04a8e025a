"""Derive the input of trials: the options of a treatment's servers, and a trial's spec."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import psutil

from millrace.collect.registry import PROFILE
from millrace.experiment.levels import CONFIGURATION, DEFAULT_ROLE, OPTION, SERVER
from millrace.experiment.model import Experiment, Plan, PlannedTrial, Treatment
from millrace.experiment.plan import chosen, profiled_values
from millrace.experiment.slowdown import OptionGiven, slowdown_of
from millrace.levels import Level, levels_of_role
from millrace.loadgen.datasets import DataChecksum
from millrace.model.measurements import BYTES_PER_ROW
from millrace.model.roles import MEASURED
from millrace.model.servers import Configuration
from millrace.model.trials import is_in_measured_block
from millrace.servers import configurations
from millrace.trial.cpu_idle import CpuIdlePolicy
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec


@dataclass(frozen=True)
class PreparedTreatment:
    """The servers and the resolved workload of a treatment."""

    servers: tuple[ServerSpec, ...]
    workload: ResolvedWorkload


@dataclass(frozen=True)
class RunInput:
    """The input that the trials of a run share.

    ``treatments`` are by id. ``expected`` is the checksum of the data set to load, None if the
    workload has its own tables. ``data_file`` is the file to load, if any. ``cpu_idle`` is None if
    no workload has ``connections``. ``estimate_s`` is the expected time of all trials of the plan.
    """

    treatments: Mapping[str, PreparedTreatment]
    expected: DataChecksum | None
    data_file: Path | None
    cpu_idle: CpuIdlePolicy | None = None
    estimate_s: float = 0.0


def servers_of(experiment: Experiment, treatment: Treatment) -> dict[str, str]:
    """Return the names of a treatment's servers by role."""
    return {
        role: str(levels_of_role(treatment.resolved, role)[SERVER])
        for role in experiment.checked_workload.roles
    }


def all_servers(plan: Plan) -> tuple[str, ...]:
    """Return the names of a plan's servers."""
    named = (servers_of(plan.experiment, treatment).values() for treatment in plan.treatments)
    return tuple(dict.fromkeys(chain.from_iterable(named)))


def configuration_of(
    experiment: Experiment,
    treatment: Treatment,
    role: str = DEFAULT_ROLE,
    *,
    family: str,
    version: str | None,
) -> Configuration:
    """Return a role's configuration, scaled to the data size and to its share of host memory."""
    # A round may have one more server, for its A/A trial.
    treatments_at_once = experiment.treatments_at_once + int(experiment.slices)
    servers_at_once = treatments_at_once * len(experiment.checked_workload.roles)
    resolved = configurations.resolve(
        str(levels_of_role(treatment.resolved, role)[CONFIGURATION]),
        family=family,
        version=version,
        definitions={name: each.to_json() for name, each in experiment.configurations.items()},
        data_bytes=experiment.checked_workload.data_bytes(chosen(experiment, treatment)),
        host_memory_bytes=psutil.virtual_memory().total // servers_at_once,
    )
    return configurations.laid_over(resolved, varied_options(treatment, role))


def varied_options(treatment: Treatment, role: str = DEFAULT_ROLE) -> dict[str, Level]:
    """Return a role's server options and levels, including an option that injects a slowdown."""
    slowdown = slowdown_of(treatment.resolved) if role in MEASURED else None
    slowing = {slowdown.name: slowdown.value} if isinstance(slowdown, OptionGiven) else {}
    return {
        name.removeprefix(OPTION): level
        for name, level in levels_of_role(treatment.resolved, role).items()
        if name.startswith(OPTION)
    } | slowing


def trial_spec(name: str, trial: PlannedTrial, plan: Plan, inputs: RunInput) -> TrialSpec:
    """Return the spec of a trial; ``name`` is its id in the store."""
    treatment = inputs.treatments[trial.treatment.id]
    collectors, workload = plan.experiment.collectors, treatment.workload
    cpu_idle = None
    if inputs.cpu_idle is not None and workload.connections is not None:
        is_sliced = trial.slot is not None
        cpu_idle = inputs.cpu_idle.settings(workload.connections, in_slices=is_sliced)
    if trial.purpose == "profile":
        collectors = (*collectors, PROFILE)
    if trial.purpose == "profile" and plan.experiment.profile_s is not None:
        workload = replace(workload, chosen=profiled_values(plan.experiment, workload.chosen))
    return TrialSpec(
        name=name,
        servers=treatment.servers,
        workload=workload,
        expected=inputs.expected,
        data_file=inputs.data_file if treatment.workload.reads_a_file else None,
        cpu_idle=cpu_idle,
        collectors=collectors,
        # A clean stop matters only for measuring data sizes, which hardly differ between blocks.
        stops_cleanly=is_in_measured_block(trial.purpose)
        and (trial.block == 0 or BYTES_PER_ROW in treatment.workload.checked.metrics),
        # Profiled and counted trials have one loop: they explain tables that have not aged.
        loops=treatment.workload.loops if trial.purpose in ("measure", "aa") else 1,
    )
