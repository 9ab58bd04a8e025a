"""The calibration of a run's host, for its report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from millrace.analysis.compare.applicable_calibration import applicable_calibration, preferred
from millrace.analysis.compare.calibration import calibration
from millrace.analysis.compare.model import RunAnalysis
from millrace.store.store import Store


def with_calibration(store: Store, analysis: RunAnalysis) -> RunAnalysis:
    """The analysis with what its report says of the newest calibration that the store has of the
    run's host."""
    if analysis.run.spec.calibrates is not None:
        return analysis  # it is one itself
    runs = preferred(analysis.run, store.calibrations_of(analysis.run))
    if not runs:
        return replace(analysis, calibrations=())
    # One that was stopped before its first verdict does not hide an older one.
    every = (calibration(store.load_run(run.id)) for run in runs)
    found = next((each for each in every if each.verdicts), None)
    if found is None:
        found = calibration(store.load_run(runs[0].id))
    return replace(
        analysis, calibrations=(applicable_calibration(analysis.run, found, datetime.now(UTC)),)
    )
