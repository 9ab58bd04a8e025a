"""Estimate the time, disk space, downloads and power of a plan on this host."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from millrace import databases, paths
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.metrics import read_metrics
from millrace.analysis.compare.stopping import visible_changes
from millrace.analysis.compare.treatments import repeated_s
from millrace.campaign.blocks import mean_start_s
from millrace.campaign.inputs import all_servers, configuration_of, servers_of
from millrace.campaign.run_records import experiment_spec
from millrace.experiment import estimate
from millrace.experiment.estimate import Estimate, Needs
from millrace.experiment.model import Plan, Treatment
from millrace.host import facts
from millrace.levels import Level, Values
from millrace.model.run_spec import FEWEST_BLOCKS, WorkloadDefinition
from millrace.model.trials import is_in_measured_block
from millrace.servers import install
from millrace.stats.ratio import Looks
from millrace.store.records import StoredRun
from millrace.store.store import Store

# System tables, undo and temporary tablespaces of a fresh data directory (measured: 30 to 200 MB).
_FRESH_DATA_DIR_BYTES = 200_000_000
_RATE = "rate"
_MOST_ALIKE = 5  # runs of the same workload that are read for their noise


def forecast_here(plan: Plan, store: Store | None) -> Estimate:
    """Estimate a plan's time and disk space on this host, from earlier trials in the store.

    Servers may still be missing. Raise MillraceError for an unknown or damaged server.
    """
    install.require_known(all_servers(plan))
    listings = {listing.name: listing for listing in install.list_servers()}
    used = [listings[name] for name in all_servers(plan)]
    earlier = None if store is None else _earlier(plan, store)
    return estimate.estimate(
        plan,
        needs={
            each.id: [
                _needs(plan, each, role, listings[name])
                for role, name in servers_of(plan.experiment, each).items()
                # The disk of an attached server's data is not known, even on this host.
                if listings[name].state != "attached"
            ]
            for each in plan.treatments
        },
        host_free_bytes=_free_bytes(paths.work_dir()),
        download_bytes=sum(s.download_bytes or 0 for s in used if s.state in install.MISSING),
        measured_trial_s=None if earlier is None else _measured_trial_s(earlier),
        measured_count_s=None if earlier is None else mean_start_s(earlier),
    )


def expected_here_s(plan: Plan, store: Store) -> float:
    """Return the expected time of a plan's trials on this host, in seconds.

    It is derived from earlier trials in the store. The servers need not exist any more: users may
    remove a server while it is measured.
    """
    earlier = _earlier(plan, store)
    if earlier is None:
        return estimate.unmeasured_s(plan)
    known_s, start_s = _measured_trial_s(earlier), mean_start_s(earlier)
    return estimate.expected_s(plan, plan.trials, known_s, start_s)


@dataclass(frozen=True)
class ForeseenChanges:
    """The changes that ``blocks`` would show with power 0.8, given the noise of an earlier run.

    ``run`` is the id of that run; ``is_of_plan`` is false if it only has the same workload.
    ``smallest`` and ``largest`` are fractions: the visible change of the comparison with the least
    noise and of the one with the most.
    """

    run: str
    is_of_plan: bool
    blocks: int
    smallest: float
    largest: float


def foreseen_changes(plan: Plan, store: Store, found: Estimate) -> ForeseenChanges | None:
    """Return the changes that a plan would show; None if no run on this host has its noise."""
    blocks = blocks_in_time(plan, found)
    if blocks < FEWEST_BLOCKS:
        return None
    earlier = _earlier(plan, store)
    looks: Looks = "any" if plan.experiment.sequential else "once"
    for stored in [earlier] if earlier is not None else _alike(plan, store):
        analysis = compare_run(stored, looks=looks)
        if changes := visible_changes(analysis.comparisons(), blocks, analysis.holds_for):
            return ForeseenChanges(stored.run.id, earlier is not None, blocks, *changes)
    return None


def _alike(plan: Plan, store: Store) -> Iterator[StoredRun]:
    """Yield this host's newest runs of the plan's workload, whose noise is probably similar.

    They have the plan's design (slices or whole trials) and its first metric. Open-loop and
    closed-loop runs are kept apart: at a fixed rate, throughput hardly varies, but latency does.
    """
    experiment = plan.experiment
    workload = experiment_spec(experiment).workload
    headline, work = read_metrics(workload)[0], _work(workload)
    levels = {factor.name: factor.levels for factor in experiment.factors}
    in_open_loop = is_open_loop(experiment.parameters, levels)
    of_design = (
        run
        for run in store.runs_of_workload(experiment.checked_workload.name, _this_host())
        if run.spec.design.slices == experiment.slices
        and run.spec.counts is None
        and read_metrics(run.spec.workload)[0] == headline
        and _work(run.spec.workload) == work
        and is_open_loop(run.spec.parameters, run.spec.levels) == in_open_loop
    )
    yield from store.readable_runs(islice(of_design, _MOST_ALIKE))


def _work(workload: WorkloadDefinition) -> dict[str, Any]:
    """Return a workload without its metrics, to compare workloads by content, not by name."""
    return {key: value for key, value in workload.to_json().items() if key != "metrics"}


def is_open_loop(parameters: Values, levels: Mapping[str, tuple[Level, ...]]) -> bool:
    """Return whether clients send at a fixed rate, set as a parameter or as a factor's level."""
    rates = levels.get(_RATE, (parameters.get(_RATE, 0),))
    return any(isinstance(rate, int | float) and rate > 0 for rate in rates)


def blocks_in_time(plan: Plan, found: Estimate) -> int:
    """Return how many blocks probably fit into a plan's time limit.

    The time of profiled and counted trials is included, although the limit does not apply to them.
    """
    blocks, limit_s = plan.experiment.blocks, plan.experiment.max_time_s
    if limit_s is None or found.time_s <= limit_s:
        return blocks
    if found.least_time_s > limit_s or blocks <= FEWEST_BLOCKS:
        return int(FEWEST_BLOCKS * limit_s / found.least_time_s)
    block_s = (found.time_s - found.least_time_s) / (blocks - FEWEST_BLOCKS)
    return FEWEST_BLOCKS + int((limit_s - found.least_time_s) / block_s)


def refuse_without_space(found: Estimate) -> None:
    """Raise HostError if the disk of the work directory is too small for a plan's instances."""
    estimate.require_space(found, str(paths.work_dir()))


def _measured_trial_s(stored: StoredRun) -> dict[str, float]:
    """Return the mean duration of a run's finished trials, in seconds by treatment id."""
    treatment_of = {
        trial.id: trial.treatment_id
        for trial in stored.trials
        if is_in_measured_block(trial.purpose)
    }
    durations: dict[str, list[float]] = {}
    for attempt in stored.attempts:
        if attempt.outcome == "finished" and attempt.trial_id in treatment_of:
            durations.setdefault(treatment_of[attempt.trial_id], []).append(repeated_s(attempt))
    return {treatment: fmean(each) for treatment, each in durations.items()}


def _earlier(plan: Plan, store: Store) -> StoredRun | None:
    """Return this host's newest readable run with all treatments of a plan; None without one."""
    wanted = {treatment.id for treatment in plan.treatments}
    for stored in store.readable_runs(store.runs_of(plan.digest, _this_host(), seed=None)):
        if wanted <= {treatment.id for treatment in stored.treatments}:
            return stored
    return None


def _this_host() -> str:
    return facts.host_id(facts.facts(paths.work_dir()))


def _needs(plan: Plan, treatment: Treatment, role: str, server: install.ServerListing) -> Needs:
    """Return the disk needs of a server that millrace starts."""
    family = databases.get(server.family)
    assert server.version is not None
    configuration = configuration_of(
        plan.experiment, treatment, role, family=server.family, version=server.version
    )
    options = family.options
    return Needs(
        fixed_bytes=_FRESH_DATA_DIR_BYTES + options.log_bytes(configuration, server.version),
        binary_log=options.keeps_binary_log(configuration, server.version),
        table_bytes=family.storage.table_bytes,
    )


def _free_bytes(directory: Path) -> int:
    """Return the free space of the disk of ``directory``, which may not exist yet."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return psutil.disk_usage(str(existing)).free
