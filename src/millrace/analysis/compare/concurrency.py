"""Assess whether pairs may be measured concurrently on a host.

Two servers at the same time share disk, memory bandwidth and caches. Whether intervals of such
pairs keep their promise shows only where the base is measured beside itself in that very way.

The promise is that an interval excludes no difference in 5 % of the verdicts at most. A one-sided
exact binomial test decides that it is broken where this many verdicts, or more, would exclude it
with a probability below 5 % if the promise held. Of 20 verdicts that is 4 or more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from millrace.analysis.compare.applicable_calibration import stale
from millrace.analysis.compare.calibration_model import Calibration
from millrace.levels import Level
from millrace.stats.proportions import binomial_upper_tail
from millrace.store.records import RunRecord

ENOUGH = 20
"""The fewest verdicts of the base beside itself that say anything: a rate of 30 % is then noticed
in nine of ten calibrations."""

CLAIMED = 0.05
CHANCE = 0.05

_NEVER = "on this host the base of this experiment was never measured beside itself in this way"


def objection(
    run: RunRecord,
    groups: Sequence[Mapping[str, Level]],
    calibrations: Iterable[Calibration],
    now: datetime,
) -> str | None:
    """Explain why ``run`` may not measure pairs concurrently, ``now``; None where it may.

    ``groups`` are the held levels of its pairs, ``calibrations`` those of its experiment, its host
    and this way of measuring, the newest first. The newest that has enough verdicts on all groups
    decides, also where an older one was better.
    """
    newest: Calibration | None = None
    for found in calibrations:
        if not _covers(found, groups):
            continue
        if len(found.verdicts) >= ENOUGH:
            return "; ".join(_against(run, found, now)) or None
        newest = newest or found
    if newest is None:
        return _NEVER
    return (
        f"its calibration {newest.run.id} has {len(newest.verdicts)} of the {ENOUGH} verdicts on "
        "the base beside itself that are needed"
    )


def _covers(found: Calibration, groups: Sequence[Mapping[str, Level]]) -> bool:
    """Return whether the calibration has a verdict on each group, its own compared factor aside."""
    factor = found.target.factor
    known = [
        {name: level for name, level in group.fixed_factors.items() if name != factor}
        for group in found.groups
        if group.verdicts
    ]
    return all(dict(held) in known for held in groups)


def _against(run: RunRecord, found: Calibration, now: datetime) -> Iterator[str]:
    excluding, verdicts = found.excluding, len(found.verdicts)
    probability = binomial_upper_tail(excluding, verdicts, CLAIMED)
    if probability < CHANCE:
        yield (
            f"in its calibration {found.run.id} {excluding} of {verdicts} intervals exclude that "
            f"the base is as fast as itself; where {100 * CLAIMED:g} % do, as many or more have a "
            f"probability of {100 * probability:.2g} %: the two sides disturb each other"
        )
    for clause in stale(found, run.host, run.versions, now):
        yield f"its calibration {found.run.id} is stale: {clause}"
