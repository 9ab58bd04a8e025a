"""Read and plan experiments on this host."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from millrace import paths
from millrace.campaign import preparation, workload_check
from millrace.campaign.forecast import ForeseenChanges, forecast_here, foreseen_changes
from millrace.campaign.resume import measures_the_same
from millrace.collect import profile
from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.errors import HostError, Unavailable
from millrace.experiment import budget
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.estimate import Estimate
from millrace.experiment.model import Experiment, Plan, slices_possible
from millrace.experiment.plan import digest, expand, seed_of
from millrace.experiment.read import NO_OVERRIDES, Overrides, read
from millrace.experiment.validation_context import ValidationContext
from millrace.host import facts
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
        definition_of_option_file=configurations.definition_of_option_file,
        check_option=configurations.check_varied_option,
        studies=study_names(),
        collectors=CHOOSABLE,
        suites=tuple(catalogue.suites()),
        attached=[listing.name for listing in listings if listing.state == "attached"],
        check_workload=workload_check.refuse_mistakes,
    )


def read_experiment(
    path: Path, *, scale: str | None = None, overrides: Overrides = NO_OVERRIDES
) -> Experiment:
    """Read an experiment file and check it against the servers and configurations of this host."""
    return read(path, scale=scale, context=validation_context(), overrides=overrides)


def left_out_of_files(experiment: Experiment) -> list[str]:
    """Return notes on the settings that were left out of option files, with the reasons."""
    return [
        note
        for name, definition in experiment.configurations.items()
        for note in configurations.notes_on(name, definition.to_json())
    ]


def within_limit(store: Store | None, experiment: Experiment) -> Experiment:
    """Return the experiment with its trials shortened to fit into its time limit.

    If it has a run on this host, return the variant of the newest run whatever its time limit was,
    so that a longer limit resumes that run.
    """
    variants = budget.shortened(experiment)
    if store is not None and len(variants) > 1:
        host_id = facts.host_id(facts.facts(paths.work_dir()))
        found = [
            (run.created_utc, number)
            for number, each in enumerate(variants)
            for run in store.runs_of(digest(each), host_id, each.seed)
            if measures_the_same(run, each)
        ]
        if found:
            return variants[max(found)[1]]
    return budget.fitted(experiment)


def with_profile(experiment: Experiment) -> tuple[Experiment, str | None]:
    """Return the experiment with the default profiled block, if this host can profile.

    Also return a note for the user if this host cannot profile blocks, else None. The blocks and
    the time limit of the experiment must be final.
    """
    profiled = budget.with_default_profile(experiment)
    why = _no_profile() if profiled.profile_blocks else None
    if why is None:
        return profiled, None
    note = f"no block is profiled: {why.message}" + (f"; {why.hint}" if why.hint else "")
    return (experiment if experiment.profiles_by_default else profiled), note


def require_profile(experiment: Experiment) -> None:
    """Raise HostError if the user requires profiled blocks, but this host cannot profile."""
    is_wanted = experiment.profile_blocks and not experiment.profiles_by_default
    if is_wanted and (why := _no_profile()) is not None:
        hint = f"{why.hint}; or use --profile-blocks 0" if why.hint else "use --profile-blocks 0"
        raise HostError(f"profiled blocks need perf: {why.message}", hint=hint)


def _no_profile() -> Unavailable | None:
    """Return the reason why this host cannot profile blocks; None if it can."""
    try:
        profile.require_usable()
    except Unavailable as why:
        return why
    return None


@dataclass(frozen=True)
class PlannedRun:
    """A plan, its estimate, and the changes that it would show (None without an earlier run).

    ``notes`` for the user: settings left out of option files or by servers, shortened or missing
    trials, reasons why no block is profiled, and possible slices.
    """

    plan: Plan
    estimate: Estimate
    visible: ForeseenChanges | None
    notes: list[str]


def plan(path: Path, experiment: Experiment) -> PlannedRun:
    """Expand an experiment, and estimate it from the trials in the store at ``path``, if it exists.

    No server is started. Raise UserError for an experiment that this host cannot measure.
    """
    preparation.refuse_missing_cpus(experiment)
    with ExitStack() as stack:
        is_there = path.exists()
        store = stack.enter_context(Store.open(path, read_only=True)) if is_there else None
        fitted = within_limit(store, experiment)
        profiled, no_profile = with_profile(fitted)
        expanded = with_aa_trials(expand(profiled, seed=seed_of(profiled)))
        preparation.refuse_impossible(expanded)
        forecast = forecast_here(expanded, store)
        visible = None if store is None else foreseen_changes(expanded, store, forecast)
    notes = [*left_out_of_files(experiment), *preparation.left_out_by_servers(expanded)]
    notes += budget.notes(experiment, fitted)
    too_short = budget.too_short_for_profile(profiled) if no_profile is None else None
    notes += [each for each in (no_profile, too_short, slices_possible(experiment)) if each]
    return PlannedRun(expanded, forecast, visible, notes)
