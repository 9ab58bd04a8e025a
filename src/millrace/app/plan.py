"""Plan an experiment: its trials in order, and their time and disk space."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from millrace.campaign import preparation
from millrace.campaign.forecast import forecast_here
from millrace.experiment.aa_trials import with_controls
from millrace.experiment.estimate import Estimate
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.plan import expand
from millrace.store.store import Store

SEEDS = 1 << 31


@dataclass(frozen=True)
class PlannedExperiment:
    """The plan of an experiment and its estimate."""

    plan: Plan
    estimate: Estimate


def plan(path: Path, experiment: Experiment) -> PlannedExperiment:
    """Expand an experiment and estimate it from earlier trials.

    The trials are those in the store at ``path``, if it exists.

    Start nothing. Raise UserError for an experiment that this host cannot measure.
    """
    seed = secrets.randbelow(SEEDS) if experiment.seed is None else experiment.seed
    expanded = with_controls(expand(experiment, seed=seed))
    preparation.refuse_missing_cpus(experiment)
    preparation.refuse_attached(expanded)
    if not path.exists():
        return PlannedExperiment(expanded, forecast_here(expanded, None))
    with Store.open(path, read_only=True) as store:
        return PlannedExperiment(expanded, forecast_here(expanded, store))
