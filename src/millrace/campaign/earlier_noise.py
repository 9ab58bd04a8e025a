"""Find the noise that earlier runs of an experiment had on this host.

A run keeps what it began with, so that its verdicts stay what they are whatever is measured or
removed later, and are the same on another host that imports it.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.group_noise import noise_of_groups
from millrace.experiment.model import Plan
from millrace.model.run_spec import CampaignPart, EarlierNoise
from millrace.store.records import HostRecord, RunRecord
from millrace.store.store import Store

_MOST_RUNS = 8


def earlier_noise(
    store: Store, plan: Plan, host: HostRecord, versions: Mapping[str, str]
) -> tuple[EarlierNoise, ...]:
    """Return what the newest runs of a plan's experiment in the same environment tell.

    Runs that only have other levels are runs of the experiment, too. A run with a purpose of its
    own, such as a calibration, neither lends nor borrows.
    """
    if _purpose(plan.experiment.campaign):
        return ()
    alike = islice(_alike(store, plan, host, versions), _MOST_RUNS)
    return tuple(
        each for run in alike for each in noise_of_groups(compare_run(store.load_run(run.id)))
    )


def _alike(
    store: Store, plan: Plan, host: HostRecord, versions: Mapping[str, str]
) -> Iterator[RunRecord]:
    for run in store.runs_of(plan.digest, host.id, seed=None):
        changed = any(run.environment_changes(host, versions))
        if not changed and run.spec.design is not None and not _purpose(run.spec):
            yield run


def _purpose(part: CampaignPart) -> bool:
    return any(getattr(part, name) is not None for name in CampaignPart.model_fields)
