"""The estimate of a plan on this host: what its servers and configurations need, on which disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import psutil

from millrace import databases
from millrace.campaign.requested_options import configuration_of
from millrace.experiment.estimate import Estimate, Needs, estimate
from millrace.experiment.model import Plan, Treatment
from millrace.servers import install
from millrace.store.records import StoredRun

# System tables, undo and temporary tablespaces of a fresh data directory (measured: 30 to 200 MB).
_FRESH_DATA_DIR_BYTES = 200_000_000


def forecast(
    plan: Plan, *, work_dir: Path, measured_trial_s: Mapping[str, float] | None = None
) -> Estimate:
    """What ``plan`` takes when its instances live in ``work_dir``; servers may be missing yet."""
    listings = {listing.name: listing for listing in install.list_servers()}
    used = dict.fromkeys(str(treatment.resolved["server"]) for treatment in plan.treatments)
    return estimate(
        plan,
        needs={
            treatment.id: _needs(plan, treatment, listings[str(treatment.resolved["server"])])
            for treatment in plan.treatments
        },
        host_free_bytes=_free_bytes(work_dir),
        download_bytes=sum(
            listings[name].download_bytes or 0
            for name in used
            if listings[name].state in install.MISSING
        ),
        measured_trial_s=measured_trial_s,
    )


def measured_trial_s(stored: StoredRun) -> dict[str, float]:
    """Mean duration of a treatment's finished trials, in seconds by treatment id."""
    treatment_of = {trial.id: trial.treatment_id for trial in stored.trials}
    durations: dict[str, list[float]] = {}
    for attempt in stored.attempts:
        if attempt.outcome == "finished":
            last = attempt.steps[-1]
            took_s = last.started_s + last.duration_s
            durations.setdefault(treatment_of[attempt.trial_id], []).append(took_s)
    return {treatment: fmean(each) for treatment, each in durations.items()}


def _needs(plan: Plan, treatment: Treatment, server: install.ServerListing) -> Needs:
    """An attached server's data is on its own host's disk: nothing is known, nothing is asked."""
    if server.version is None:
        return Needs(fixed_bytes=0, binary_log=False)
    configuration = configuration_of(
        plan.experiment, treatment, family=server.family, version=server.version
    )
    rules = databases.get(server.family).options
    return Needs(
        fixed_bytes=_FRESH_DATA_DIR_BYTES + rules.log_bytes(configuration, server.version),
        binary_log=rules.keeps_binary_log(configuration, server.version),
    )


def _free_bytes(directory: Path) -> int:
    """Free space of the disk that holds ``directory``, which need not exist yet."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return psutil.disk_usage(str(existing)).free
