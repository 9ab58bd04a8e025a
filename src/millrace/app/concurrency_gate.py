"""Refuse concurrent pairs where no calibration shows that they do not disturb each other."""

import shlex
from datetime import UTC, datetime

from millrace.analysis.compare.applicable_calibration import of_experiment
from millrace.analysis.compare.calibration import calibration
from millrace.analysis.compare.concurrency import objection
from millrace.errors import UserError
from millrace.experiment.concurrent_pairs import fixed_factors
from millrace.experiment.model import Experiment, Plan
from millrace.experiment.read import AS_WRITTEN
from millrace.store.records import RunRecord
from millrace.store.store import Store


def refuse_uncalibrated(store: Store, run: RunRecord, plan: Plan) -> None:
    """Raise UserError unless a calibration supports concurrent pairs on this host.

    The calibration must have concurrent pairs, and no more false differences than verdicts claim.
    Interleaved runs need none.
    """
    experiment = plan.experiment
    if not experiment.concurrent:
        return
    factor = experiment.compare.factor
    groups = [
        dict(each) for each in {fixed_factors(each, factor): None for each in plan.treatments}
    ]
    runs = of_experiment(run, store.calibrations_of(run))
    found = (calibration(store.load_run(each.id)) for each in runs)
    why = objection(run, groups, found, datetime.now(UTC))
    if why is not None:
        raise UserError(
            f"{experiment.source}: not concurrent: {why}",
            hint=f"measure that with `{_calibrate(experiment)}`, or run with --interleaved",
        )


def _calibrate(experiment: Experiment) -> str:
    """Return the command that measures the base against itself."""
    words = ["millrace", "calibrate", experiment.source, "--concurrent"]
    if experiment.scale != AS_WRITTEN:
        words[3:3] = ["--scale", experiment.scale]
    return shlex.join(words)
