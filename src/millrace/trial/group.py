"""Trials that are measured together, and count together or not at all."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from millrace.store.records import ROUND_FAILED, AttemptResult
from millrace.trial.load_run import Emit
from millrace.trial.spec import TrialSpec


@dataclass(frozen=True)
class RoundTrial:
    """One trial of a round, with its label in messages and the listener of its events."""

    spec: TrialSpec
    label: str
    emit: Emit


def joined(
    trials: Sequence[RoundTrial],
    results: Sequence[AttemptResult | None],
    *,
    unprepared: Collection[int] = (),
) -> tuple[AttemptResult, ...]:
    """Return the results of a round's trials; where one failed, those that did not are left out.

    A result is None where the round ended before the trial's first step. Those ``unprepared``, by
    number, failed before the others were measured, which therefore count.
    """
    ended = enumerate(zip(trials, results, strict=True))
    failed = next(
        (
            (trial, result)
            for number, (trial, result) in ended
            if result is not None and result.outcome == "failed" and number not in unprepared
        ),
        None,
    )
    if failed is None:
        return tuple(result for result in results if result is not None)
    trial, cause = failed
    first_line = str(cause.reason).partition("\n")[0]
    left_out = AttemptResult(
        "failed",
        failed_step=ROUND_FAILED,
        reason=f"the other trial of the round, {trial.label}, failed at step {cause.failed_step}: "
        f"{first_line}",
    )
    return tuple(
        result
        if result is not None and result.outcome == "failed"
        else replace(
            result or left_out,
            outcome="failed", failed_step=left_out.failed_step, reason=left_out.reason,
        )
        for result in results
    )  # fmt: skip
