"""Estimate the time, disk space, downloads and power of a plan on this host."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil

from millrace import databases, paths
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.treatments import trial_s
from millrace.campaign.counting import mean_start_s
from millrace.campaign.inputs import all_servers, configuration_of, servers_of
from millrace.experiment.estimate import Estimate, Needs, estimate, require_space
from millrace.experiment.model import FEWEST_BLOCKS, Plan, Treatment
from millrace.host import facts
from millrace.servers import install
from millrace.stats.power import minimum_detectable_ratio
from millrace.store.records import StoredRun
from millrace.store.store import Store

# System tables, undo and temporary tablespaces of a fresh data directory (measured: 30 to 200 MB).
_FRESH_DATA_DIR_BYTES = 200_000_000


def forecast_here(plan: Plan, store: Store | None) -> Estimate:
    """Estimate a plan in this host's work directory, from earlier trials in the store.

    Servers may still be missing.
    """
    listings = {listing.name: listing for listing in install.list_servers()}
    used = [listings[name] for name in all_servers(plan)]
    earlier = None if store is None else _earlier(plan, store)
    return estimate(
        plan,
        needs={
            each.id: [
                _needs(plan, each, role, listings[name])
                for role, name in servers_of(plan.experiment, each).items()
            ]
            for each in plan.treatments
        },
        host_free_bytes=_free_bytes(paths.work_dir()),
        download_bytes=sum(s.download_bytes or 0 for s in used if s.state in install.MISSING),
        measured_trial_s=None if earlier is None else _measured_trial_s(earlier),
        measured_count_s=None if earlier is None else mean_start_s(earlier),
    )


@dataclass(frozen=True)
class VisibleChanges:
    """The changes that ``blocks`` would show with power 0.8, by the noise of the earlier ``run``.

    ``smallest`` and ``largest`` are fractions, for the least and the most noise of a comparison.
    """

    run: str
    blocks: int
    smallest: float
    largest: float


def visible_changes(plan: Plan, store: Store, found: Estimate) -> VisibleChanges | None:
    """Return the changes that a plan would show; None where no run on this host tells its noise."""
    stored = _earlier(plan, store)
    if stored is None:
        return None
    analysis = compare_run(stored, looks="any" if plan.experiment.sequential else "once")
    estimates = (
        comparison.estimate
        for group in analysis.groups
        for comparison in group.in_metric(analysis.headline)
    )
    noises = [each.log_sd for each in estimates if each is not None and each.log_sd]
    blocks = _blocks_in_time(plan, found)
    if not noises or blocks < FEWEST_BLOCKS:
        return None
    changes = [
        minimum_detectable_ratio(noise, blocks, looks=analysis.holds_for) - 1 for noise in noises
    ]
    return VisibleChanges(stored.run.id, blocks, min(changes), max(changes))


def _blocks_in_time(plan: Plan, found: Estimate) -> int:
    experiment = plan.experiment
    if experiment.max_time_s is None:
        return experiment.blocks
    return min(experiment.blocks, int(experiment.max_time_s / (found.time_s / experiment.blocks)))


def refuse_without_space(estimate: Estimate) -> None:
    """Raise HostError where the disk of this host's instances cannot hold a plan."""
    require_space(estimate, str(paths.work_dir()))


def _measured_trial_s(stored: StoredRun) -> dict[str, float]:
    """Return the mean duration of a run's finished trials, in seconds by treatment id."""
    treatment_of = {
        trial.id: trial.treatment_id for trial in stored.trials if trial.purpose != "count"
    }
    durations: dict[str, list[float]] = {}
    for attempt in stored.attempts:
        if attempt.outcome == "finished" and attempt.trial_id in treatment_of:
            durations.setdefault(treatment_of[attempt.trial_id], []).append(trial_s(attempt))
    return {treatment: fmean(each) for treatment, each in durations.items()}


def _earlier(plan: Plan, store: Store) -> StoredRun | None:
    """Return the newest run here that has all treatments of a plan."""
    wanted = {treatment.id for treatment in plan.treatments}
    host_id = facts.host_id(facts.facts(paths.work_dir()))
    for run in store.runs_of(plan.digest, host_id, seed=None):
        stored = store.load_run(run.id)
        if wanted <= {treatment.id for treatment in stored.treatments}:
            return stored
    return None


def _needs(plan: Plan, treatment: Treatment, role: str, server: install.ServerListing) -> Needs:
    """Return the disk needs of a server; none for an attached one with a disk of its own."""
    family = databases.get(server.family)
    table_bytes = family.storage.table_bytes
    if server.version is None:
        return Needs(0, binary_log=False, table_bytes=table_bytes)
    configuration = configuration_of(
        plan.experiment, treatment, role, family=server.family, version=server.version
    )
    options = family.options
    return Needs(
        fixed_bytes=_FRESH_DATA_DIR_BYTES + options.log_bytes(configuration, server.version),
        binary_log=options.keeps_binary_log(configuration, server.version),
        table_bytes=table_bytes,
    )


def _free_bytes(directory: Path) -> int:
    """Return the free space of the disk of ``directory``, which may not exist yet."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return psutil.disk_usage(str(existing)).free
