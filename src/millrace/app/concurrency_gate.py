"""The door to runs whose pairs are measured side by side."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from millrace.analysis.compare.applicable_calibration import of_experiment
from millrace.analysis.compare.calibration import calibration
from millrace.analysis.compare.concurrency import objection
from millrace.errors import UserError
from millrace.experiment.concurrent_pairs import held
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.read import AS_WRITTEN
from millrace.store.records import RunRecord
from millrace.store.store import Store


def refuse_uncalibrated(store: Store, run: RunRecord, plan: Plan) -> None:
    """Raise UserError unless the base of the experiment, measured beside itself in this way on this
    host, was no more often different than is claimed. Runs in turns need no such proof."""
    experiment = plan.experiment
    if not experiment.side_by_side:
        return
    factor = experiment.compare.factor
    groups = [dict(each) for each in {held(each, factor): None for each in plan.treatments}]
    runs = of_experiment(run, store.calibrations_of(run))
    found = (calibration(store.load_run(each.id)) for each in runs)
    why = objection(run, groups, found, datetime.now(UTC))
    if why is not None:
        raise UserError(
            f"{experiment.source}: not side by side: {why}",
            hint=f"measure that with `{_calibrate(experiment)}`, or in turns (--in-turns)",
        )


def _calibrate(experiment: Experiment) -> str:
    """The command that measures the base beside itself."""
    words = ["millrace", "calibrate", experiment.source, "--side-by-side"]
    if experiment.scale != AS_WRITTEN:
        words[3:3] = ["--scale", experiment.scale]
    return shlex.join(words)
