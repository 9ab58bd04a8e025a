"""Call use cases from the command line, and print each of their events as a line."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from millrace.analysis.compare.bisection import trials_to_go
from millrace.analysis.compare.calibration import Calibration
from millrace.app.execution import Caller
from millrace.campaign.policies.bisect import BisectionReviewed
from millrace.campaign.policies.calibrate import CalibrationReviewed
from millrace.campaign.policies.experiment import SequentialOpened
from millrace.cli.progress import Listener
from millrace.model.events import Emitted, RunOpened
from millrace.quantities import counted, duration_in_words
from millrace.report.bisection import likeliest
from millrace.stats.bisection_model import Next


@contextmanager
def calling() -> Iterator[Caller]:
    """Yield the caller of a use case: the command as the user wrote it, and events on stderr."""
    with Listener(event_line) as listener:
        yield Caller(shlex.join(["millrace", *sys.argv[1:]]), listener)


def event_line(event: Emitted) -> str | None:
    """Return the line to print for an event; None for an event without a line."""
    match event:
        case RunOpened():
            return _run_text(event)
        case SequentialOpened():
            return sequential_text(event)
        case CalibrationReviewed():
            return _calibration_text(event)
        case BisectionReviewed():
            return _bisection_text(event)
    return None


def _run_text(event: RunOpened) -> str:
    if not event.waiting:
        more = "--new measures again" if event.confirms is None else "a larger --blocks adds some"
        return f"run {event.run}: all {event.trials} trials have a result; {more}"
    if event.waiting < event.trials:
        return (
            f"run {event.run}: resumed, {event.waiting} of {counted(event.trials, 'trial')} to go"
        )
    return f"run {event.run}: {counted(event.trials, 'trial')}, seed {event.seed}"


def sequential_text(event: SequentialOpened) -> str:
    """Return the first line about a sequential run: its progress and how it continues."""
    experiment, run = event.selection.plan.experiment, event.selection.run
    progress = event.progress
    status = progress.status
    limits = f"at most {counted(experiment.blocks, 'block')}"
    if experiment.max_time_s is not None:
        limits += f" and {duration_in_words(experiment.max_time_s)}"
    if status is None:
        return f"run {run.id}: until each comparison is decided, {limits}, seed {run.seed}"
    done = f"run {run.id}: {counted(status.blocks, 'block')}"
    if not progress.is_over:
        return f"{done} started, resumed until each comparison is decided, {limits}"
    if progress.ending == "closed":
        return f"{done}, and nothing is left to decide; --new measures again"
    more = "a larger --max-time"
    if progress.ending == "blocks":
        more = f"a --max-blocks above {status.blocks}"
    return (
        f"{done}, {len(status.open)} of {counted(len(status.comparisons), 'comparison')} undecided"
        f", and no more blocks are allowed: {more} resumes, --new measures again"
    )


def _calibration_text(event: CalibrationReviewed) -> str:
    found = event.found
    missing = max(event.verdicts - len(found.verdicts), 0)
    left_s = _time_left_s(found, missing)
    text = f"{len(found.verdicts)} of {event.verdicts} verdicts, {found.false} false"
    if missing and left_s is not None:
        text += f"; about {duration_in_words(left_s)} left for the others"
    return f"with slowdown {event.level}: {text}"


def _time_left_s(found: Calibration, missing: int) -> float | None:
    """Return the seconds that the missing verdicts will take; None before any block has ended.

    Assume the mean number of blocks of the earlier verdicts.
    """
    done = found.verdicts
    budget = found.target.blocks
    usual = sum(len(each.blocks) for each in done) / len(done) if done else budget
    times = [group.block_s for group in found.groups if group.block_s is not None]
    return missing * usual * sum(times) / len(times) if times else None


def _bisection_text(event: BisectionReviewed) -> str:
    found = event.found
    text = f"{counted(found.trials, 'trial')}, the last of {event.server}: {likeliest(found)}"
    if isinstance(found.step, Next) and not (found.lost_end or found.unsteady):
        text += f"; next {found.spec.members[found.step.index]}"
        if to_go := trials_to_go(found):
            text += f", about {counted(to_go, 'trial')} to go"
    return text
