"""Select the run that a command resumes, or start a new one.

A run can be resumed if it measures the same experiment and if neither the host nor the servers have
changed. Report settings (base, margin, published figures) and the number of blocks do not matter.

A new run stores the noise of this host's earlier runs as it is now. Its verdicts therefore do not
change when runs are measured or removed later, or when another host imports the run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import attrgetter

from millrace.analysis.compare.calibration import MOST_DAYS
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.estimates import noise_of_groups
from millrace.campaign import run_records
from millrace.campaign.run_records import design_of, experiment_spec
from millrace.errors import MillraceError
from millrace.experiment.aa_trials import with_aa_trials
from millrace.experiment.model import Experiment, Plan, PlannedTrial
from millrace.experiment.plan import chosen, expand, seed_of
from millrace.levels import Level
from millrace.model.run_spec import MOST_EARLIER, CampaignPart, EarlierNoise, Extension, RunSpec
from millrace.model.servers import InstalledServer, build_facts
from millrace.model.trials import Purpose, is_in_measured_block, kind_of_block
from millrace.quantities import utc_now
from millrace.servers import install
from millrace.store.records import HostRecord, RunRecord, StoredRun, TrialRecord
from millrace.store.store import Store
from millrace.trial.resolved_workload import ResolvedWorkload

# Keys of a run's spec that do not affect its trials.
_IGNORED_KEYS = (
    "source", "compare", "published", "design", "extensions", "confirms", "earlier_noise",
)  # fmt: skip
_MOST_RUNS = 8
_MOST_READ = 24  # runs that are read; some may have no noise of the plan's groups


@dataclass(frozen=True)
class RunSelection:
    """A run to execute, with its plan; ``is_new`` if the store does not have the run yet.

    The plan of a sequential experiment has all possible blocks. ``extension`` is recorded when
    blocks are added to the run. ``note`` is the reason why an earlier run is not resumed, if any.
    """

    run: RunRecord
    plan: Plan
    is_new: bool = False
    extension: Extension | None = None
    note: str | None = None


def select_run(
    store: Store,
    experiment: Experiment,
    *,
    host: HostRecord,
    versions: Mapping[str, str],
    command: str,
    fresh: bool,
) -> RunSelection:
    """Return the newest run that can be resumed, else a new one; ``fresh``: always a new one."""
    seed = seed_of(experiment)
    plan = expand(experiment, seed=seed)
    notes = []
    if not fresh:
        for run in _alike(store, plan, host):
            stored = store.load_run(run.id)
            changed = [*run.environment_changes(host, versions), *_rebuilt(stored)]
            changed += _moved_files(stored, plan)
            if not changed:
                return _continued(store, run, experiment, command)
            notes.append(f"run {run.id} is not resumed, a new one starts: {'; '.join(changed)}")
        notes += (
            f"run {run.id} was imported and is not resumed, a new one starts"
            for run in _alike(store, plan, host, imported=True)
        )
    noise = earlier_noise(store, plan, host, versions)
    run = run_records.new_run_record(plan, host, versions, command, noise)
    note = notes[0] if notes else None
    return RunSelection(run, with_aa_trials(plan), is_new=True, note=note)


def _alike(
    store: Store, plan: Plan, host: HostRecord, *, imported: bool = False
) -> Iterator[RunRecord]:
    """Yield this host's (or ``imported``) runs that measure the plan's trials, newest first."""
    for run in store.runs_of(plan.digest, host.id, plan.experiment.seed, imported=imported):
        if measures_the_same(run, plan.experiment):
            yield run


def _continued(store: Store, run: RunRecord, experiment: Experiment, command: str) -> RunSelection:
    stored = store.load_run(run.id)
    stored = only_begun(stored) if experiment.sequential else stored
    blocks = len({trial.block for trial in stored.trials if is_in_measured_block(trial.purpose)})
    most, design = experiment.blocks, design_of(experiment)
    extension = Extension(blocks=most, design=design, utc=utc_now(), command=command)
    if experiment.sequential:
        # Started blocks are executed whatever the limit is now.
        longest = replace(experiment, blocks=max(most, blocks))
        plan = _with_aa_trials(expand(longest, seed=run.seed), stored, blocks)
        return RunSelection(run, plan, extension=extension if run.design != design else None)
    plan = _with_aa_trials(expand(experiment, seed=run.seed), stored, blocks)
    plan = _as_begun(plan, stored)
    if experiment.blocks <= run.blocks:
        return RunSelection(run, plan)
    return RunSelection(replace(run, blocks=experiment.blocks), plan, extension=extension)


def only_begun(stored: StoredRun) -> StoredRun:
    """Return the run without the blocks in which no trial started."""
    attempted = {attempt.trial_id for attempt in stored.attempts}
    begun = {_block(trial) for trial in stored.trials if trial.id in attempted}
    trials = tuple(trial for trial in stored.trials if _block(trial) in begun)
    return replace(stored, trials=trials)


def _block(trial: TrialRecord | PlannedTrial) -> tuple[Purpose, int]:
    return kind_of_block(trial.purpose), trial.block


def _with_aa_trials(plan: Plan, stored: StoredRun, blocks: int) -> Plan:
    """Return the plan with A/A trials that continue those in a run's first ``blocks``."""
    blocks_with = (trial.block for trial in stored.trials if trial.purpose == "aa")
    return with_aa_trials(plan, begun=blocks, first=min(blocks_with, default=None))


def _as_begun(plan: Plan, stored: StoredRun) -> Plan:
    """Return the plan without new trials in started blocks.

    The trials of a block must run close together in time.
    """
    known = {trial.id for trial in stored.trials}
    begun = {_block(trial) for trial in stored.trials}
    kept = (
        trial
        for trial in plan.trials
        if run_records.stored_trial_id(stored.run, trial) in known or _block(trial) not in begun
    )
    return replace(plan, trials=tuple(kept))


def measures_the_same(run: RunRecord, experiment: Experiment) -> bool:
    """Return whether a run with the experiment's digest has the same factors and levels."""
    return _compared_part(run.spec) == _compared_part(experiment_spec(experiment))


def _compared_part(spec: RunSpec) -> dict[str, object]:
    kept = {key: value for key, value in spec.to_json().items() if key not in _IGNORED_KEYS}
    return {**kept, "compared factor": spec.compare.factor}


def _moved_files(stored: StoredRun, plan: Plan) -> Iterator[str]:
    """Yield why a treatment's next trials would restore files differently (page cache), once.

    If the experiment leaves ``page_cache`` to millrace, its versions may choose different values.
    """
    experiment = plan.experiment
    treatments = {each.id: each for each in plan.treatments}
    of_trial = {trial.id: treatments.get(trial.treatment_id) for trial in stored.trials}
    for attempt in stored.attempts:
        treatment = of_trial[attempt.trial_id]
        for was in (instance.facts.page_cache for instance in attempt.instances):
            if treatment is None or was is None:  # nothing was restored
                continue
            workload = ResolvedWorkload(experiment.workload, chosen(experiment, treatment))
            # A workload that measures loading restores an empty data directory.
            if workload.drives and workload.page_cache != was:
                yield f"page_cache was {was} for {treatment.label} and is {workload.page_cache}"
                return


def _rebuilt(stored: StoredRun) -> Iterator[str]:
    ran = {
        instance.server.name: instance.server.build
        for attempt in stored.attempts
        for instance in attempt.instances
    }
    for name, build in ran.items():
        try:
            server = install.find(name)
        except MillraceError:
            continue  # not installed now: it will be installed again, or refused
        # Older records have the digest of the program only.
        digest = attrgetter("build_sha256" if build.build_sha256 else "program_sha256")
        if isinstance(server, InstalledServer) and digest(build_facts(server)) != digest(build):
            changed = ", ".join(server.changed)
            yield f"{name} was changed: {changed}" if changed else f"{name} was built again"


def earlier_noise(
    store: Store, plan: Plan, host: HostRecord, versions: Mapping[str, str]
) -> tuple[EarlierNoise, ...]:
    """Return the noise of a plan's groups in the newest runs of its experiment.

    These runs were measured within weeks, in the same environment, with the same collectors; they
    may have compared other servers. Calibrations and other special runs are not used, and get none.
    """
    spec = experiment_spec(plan.experiment)
    if _has_purpose(spec):
        return ()
    groups = _groups(plan)
    read = islice(_lending(store, plan, spec, host, versions), _MOST_READ)
    known = (_noise_of(store, run, groups) for run in read)
    newest = islice((noise for noise in known if noise), _MOST_RUNS)
    return tuple(islice((each for noise in newest for each in noise), MOST_EARLIER))


def _groups(plan: Plan) -> list[dict[str, Level]]:
    """Return the fixed factors of each group of a plan."""
    compared = plan.experiment.compare.factor
    found: list[dict[str, Level]] = []
    for treatment in plan.treatments:
        fixed = {name: level for name, level in treatment.levels.items() if name != compared}
        if fixed not in found:
            found.append(fixed)
    return found


def _lending(
    store: Store, plan: Plan, spec: RunSpec, host: HostRecord, versions: Mapping[str, str]
) -> Iterator[RunRecord]:
    """Yield the runs whose noise a run that starts now may use, the newest first."""
    oldest = datetime.now(UTC) - timedelta(days=MOST_DAYS)
    for run in store.runs_of(plan.digest, host.id, seed=None):
        if (
            datetime.fromisoformat(run.created_utc) >= oldest
            and not any(run.environment_changes(host, versions))
            and run.spec.compare.factor == spec.compare.factor
            and run.spec.collectors == spec.collectors
            and not _has_purpose(run.spec)
            and _same_names(run.spec, spec)
        ):
            yield run


def _same_names(one: RunSpec, other: RunSpec) -> bool:
    """Return whether configurations and aliases of the same name have the same settings."""
    ours, theirs = one.configurations, other.configurations
    aliases = [{factor.name: factor.aliases for factor in spec.factors} for spec in (one, other)]
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys()) and all(
        aliases[0][name] == aliases[1][name] for name in aliases[0].keys() & aliases[1].keys()
    )


def _noise_of(store: Store, run: RunRecord, groups: list[dict[str, Level]]) -> list[EarlierNoise]:
    """Return the noise of these groups in a run; an empty list if its results are damaged."""
    try:
        analysis = compare_run(store.load_run(run.id))
    except MillraceError:
        return []
    return [each for each in noise_of_groups(analysis) if dict(each.fixed_factors) in groups]


def _has_purpose(part: CampaignPart) -> bool:
    return any(getattr(part, name) is not None for name in CampaignPart.model_fields)
