"""Read and plan experiments on this host."""

from dataclasses import dataclass
from pathlib import Path

from millrace.campaign import preparation
from millrace.campaign.forecast import VisibleChanges, forecast_here, visible_changes
from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import Estimate
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.plan import expand, seed_of
from millrace.experiment.read import NO_OVERRIDES, Overrides, read
from millrace.experiment.validation import ValidationContext
from millrace.servers import catalogue, configurations, install
from millrace.store.store import Store
from millrace.studies.lookup import study_names

CHOOSABLE = tuple(name for name in COLLECTORS if name != PROFILE)
"""The names of the collectors that a user may choose, in the order in which they start."""


def validation_context() -> ValidationContext:
    """Return the names that an experiment may refer to on this host."""
    listings = install.list_servers()
    return ValidationContext(
        servers=[listing.name for listing in listings],
        configurations=configurations.load_builtin(),
        check_configurations=configurations.check,
        check_option=configurations.check_varied_option,
        studies=study_names(),
        collectors=CHOOSABLE,
        suites=tuple(catalogue.suites()),
        attached=[listing.name for listing in listings if listing.state == "attached"],
    )


def read_experiment(
    path: Path, *, scale: str | None = None, overrides: Overrides = NO_OVERRIDES
) -> Experiment:
    """Read an experiment file and check it against the servers and configurations of this host."""
    return read(path, scale=scale, context=validation_context(), overrides=overrides)


@dataclass(frozen=True)
class PlannedRun:
    """A plan, its estimate, and the changes that it would show, where an earlier run tells."""

    plan: Plan
    estimate: Estimate
    visible: VisibleChanges | None


def plan(path: Path, experiment: Experiment) -> PlannedRun:
    """Expand an experiment and estimate it from the trials of the store at ``path``, if it exists.

    Start nothing. Raise UserError for an experiment that this host cannot measure.
    """
    expanded = with_aa_trials(expand(experiment, seed=seed_of(experiment)))
    preparation.refuse_missing_cpus(experiment)
    preparation.refuse_attached(expanded)
    if not path.exists():
        return PlannedRun(expanded, forecast_here(expanded, None), None)
    with Store.open(path, read_only=True) as store:
        forecast = forecast_here(expanded, store)
        return PlannedRun(expanded, forecast, visible_changes(expanded, store, forecast))
