"""Choose the calibration that a report quotes, and say why it may be stale.

It is stale when the host or the load generator is not what it was when it began, or when it and the
run are more than ``MOST_DAYS`` apart: what no fact shows (neighbours of a virtual machine, a
filling disk, an updated package) changes within weeks.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from millrace.analysis.compare.calibration_model import Calibration
from millrace.analysis.compare.model import ApplicableCalibration
from millrace.model.run_spec import Calibrates
from millrace.store.records import HostRecord, RunRecord

MOST_DAYS = 14


def preferred(run: RunRecord, calibrations: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the calibrations in the order in which a report of ``run`` would quote them.

    Those of its experiment and base come first, then the newest. Calibrations of one design
    (interleaved, in slices) say nothing of another one.
    """
    alike = [each for each in calibrations if each.design.slices == run.design.slices]
    return sorted(alike, key=lambda each: not _is_of(run, each.spec.calibrates))


def _is_of(run: RunRecord, asked: Calibrates | None) -> bool:
    compared = run.spec.compare
    return asked is not None and (asked.digest, asked.factor, asked.base) == (
        run.digest,
        compared.factor,
        compared.base,
    )


def applicable_calibration(
    run: RunRecord, found: Calibration, now: datetime
) -> ApplicableCalibration:
    """Return a calibration as the report of ``run`` quotes it, ``now``."""
    limits = found.limits(found.false)
    ended = datetime.fromisoformat(found.ended_utc)
    created = datetime.fromisoformat(run.created_utc)
    return ApplicableCalibration(
        run=found.run.id,
        experiment=found.target.name,
        is_of_experiment=_is_of(run, found.target),
        ended_utc=found.ended_utc,
        age_s=max((now - ended).total_seconds(), 0.0),
        verdicts=len(found.verdicts),
        false=found.false,
        refused=found.refused,
        low=None if limits is None else limits[0],
        high=None if limits is None else limits[1],
        smallest=found.smallest(found.target.blocks),
        blocks=found.target.blocks,
        stale=stale(found, run.host, run.versions, created),
    )


def stale(
    found: Calibration, host: HostRecord, versions: Mapping[str, str], begun: datetime
) -> tuple[str, ...]:
    """Return the reasons why a calibration says little of a run ``begun`` then on ``host``."""
    apart = abs(begun - datetime.fromisoformat(found.ended_utc))
    old = (f"it and this run are {apart.days} days apart",)
    return (
        *found.run.environment_changes(host, versions),
        *(old if apart > timedelta(days=MOST_DAYS) else ()),
    )
