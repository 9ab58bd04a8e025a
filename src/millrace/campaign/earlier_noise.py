"""Find the noise that earlier runs of an experiment had on this host.

A run keeps what it began with, so that its verdicts stay what they are whatever is measured or
removed later, and are the same on another host that imports it.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice

from millrace.analysis.compare.calibration import MOST_DAYS
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.estimates import noise_of_groups
from millrace.campaign.run_records import experiment_spec
from millrace.errors import MillraceError
from millrace.experiment.model import Plan
from millrace.levels import Level
from millrace.model.run_spec import MOST_EARLIER, CampaignPart, EarlierNoise, RunSpec
from millrace.store.records import HostRecord, RunRecord
from millrace.store.store import Store

_MOST_RUNS = 8
_MOST_READ = 24  # of which some may have no noise of the plan's groups


def earlier_noise(
    store: Store, plan: Plan, host: HostRecord, versions: Mapping[str, str]
) -> tuple[EarlierNoise, ...]:
    """Return the noise of a plan's groups in the newest runs of its experiment.

    These were measured within weeks, in the same environment, by the same design and collectors;
    the servers that they compared may be others. A run with a purpose of its own, such as a
    calibration, neither lends nor borrows.
    """
    spec = experiment_spec(plan.experiment)
    if _has_purpose(spec):
        return ()
    groups = _groups(plan)
    read = islice(_alike(store, plan, spec, host, versions), _MOST_READ)
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


def _alike(
    store: Store, plan: Plan, spec: RunSpec, host: HostRecord, versions: Mapping[str, str]
) -> Iterator[RunRecord]:
    """Yield the runs whose noise may be that of a run that begins now, the newest first."""
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
    """Return whether configurations and aliases that both have stand for the same settings."""
    ours, theirs = one.configurations, other.configurations
    aliases = [{factor.name: factor.aliases for factor in spec.factors} for spec in (one, other)]
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys()) and all(
        aliases[0][name] == aliases[1][name] for name in aliases[0].keys() & aliases[1].keys()
    )


def _noise_of(store: Store, run: RunRecord, groups: list[dict[str, Level]]) -> list[EarlierNoise]:
    """Return the noise of these groups in a run; nothing where its results are damaged."""
    try:
        analysis = compare_run(store.load_run(run.id))
    except MillraceError:
        return []
    return [each for each in noise_of_groups(analysis) if dict(each.fixed_factors) in groups]


def _has_purpose(part: CampaignPart) -> bool:
    return any(getattr(part, name) is not None for name in CampaignPart.model_fields)
