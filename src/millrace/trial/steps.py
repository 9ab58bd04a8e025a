"""Execute the declared steps of a trial, each with a time limit."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType

from millrace.errors import Interrupted, MillraceError, TrialFailed
from millrace.store.records import StepRecord


@dataclass(frozen=True)
class Step:
    """One step: ``action`` takes the step's time limit in seconds, and fails by raising.

    An action may return finer steps it consisted of (the phases of a workload), with their times
    in seconds from the action's own start; they are then recorded in its place.
    """

    name: str
    action: Callable[[float], Sequence[StepRecord] | None]
    limit_s: float


# The errors that fail a step; any other is a defect of millrace and ends the run.
EXPECTED_FAILURES = (MillraceError, OSError)


@dataclass(frozen=True)
class StepsOutcome:
    """The executed steps; ``failed`` and ``cause`` name the one that ended the trial, if any."""

    steps: tuple[StepRecord, ...]
    failed: str | None = None
    cause: Exception | None = None


def execute_steps(steps: Iterable[Step], on_begin: Callable[[str], None]) -> StepsOutcome:
    """Execute steps in order until one fails; times are seconds from the first step's start.

    ``steps`` may be a generator that decides the next step from the results so far. ``on_begin``
    gets each step's name before it starts. Raise Interrupted when the user stops the run.
    """
    origin = time.monotonic()
    done: list[StepRecord] = []
    for step in steps:
        on_begin(step.name)
        started = time.monotonic()
        offset_s = started - origin
        try:
            with time_limit(step.name, step.limit_s):
                finer = step.action(step.limit_s)
        except Interrupted:
            raise
        except EXPECTED_FAILURES as cause:
            name = (cause.step if isinstance(cause, TrialFailed) else None) or step.name
            done.append(StepRecord(len(done), name, offset_s, time.monotonic() - started, "failed"))
            return StepsOutcome(tuple(done), name, cause)
        if finer is None:
            duration_s = time.monotonic() - started
            done.append(StepRecord(len(done), step.name, offset_s, duration_s, "finished"))
            continue
        for part in finer:
            done.append(replace(part, position=len(done), started_s=offset_s + part.started_s))
    return StepsOutcome(tuple(done))


@contextlib.contextmanager
def time_limit(name: str, limit_s: float) -> Iterator[None]:
    """Raise TrialFailed in the main thread when the block takes longer than ``limit_s`` seconds.

    The alarm interrupts system calls, so that no action can hang for ever. Actions that know their
    limit end earlier, with a better message; hence the second of grace.
    """

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise TrialFailed(f"step {name} took longer than its limit of {limit_s:g} s", step=name)

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s + 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
