"""Define the events of a run, and announcements.

Events are passed to progress displays and written to the run's event file; their field ``event`` is
the name of the kind. Announcements are only passed to progress displays.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from millrace.model.trials import Outcome, Purpose


class Announcement:
    """The base of what listeners receive and the event file does not record."""


@dataclass(frozen=True)
class Notice(Announcement):
    """One sentence that the user should read."""

    text: str


@dataclass(frozen=True)
class DownloadMoved(Announcement):
    """A download has received ``done_bytes`` of ``total_bytes``, None if the total is unknown."""

    what: str
    done_bytes: int
    total_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class RunOpened:
    """A run of ``trials`` trials starts or resumes; ``waiting`` of them have no result.

    ``confirms`` is the id of the change that the run confirms.
    """

    run: str
    seed: int
    trials: int
    waiting: int
    confirms: str | None = None
    event: Literal["run"] = "run"


@dataclass(frozen=True, kw_only=True)
class ScheduledTrial:
    """A trial to run; ``time_weight`` is its share of the time until it ends, see ``Plan``."""

    id: str
    treatment_id: str
    time_weight: float


@dataclass(frozen=True, kw_only=True)
class TrialsScheduled:
    """The trials ``waiting`` are measured next, each with ``rows`` rows, None if not known."""

    trials: tuple[ScheduledTrial, ...]
    waiting: tuple[str, ...]
    estimate_s: float
    rows: int | None
    event: Literal["schedule"] = "schedule"


@dataclass(frozen=True, kw_only=True)
class _OfTrial:
    """The trial of an event: its id in the plan, and its place in the run."""

    trial: str
    treatment: str
    treatment_id: str
    block: int
    position: int
    purpose: Purpose


@dataclass(frozen=True, kw_only=True)
class TrialBegan(_OfTrial):
    """A trial starts."""

    event: Literal["trial"] = "trial"


@dataclass(frozen=True, kw_only=True)
class TrialEnded(_OfTrial):
    """A trial has a result; ``failed_step`` and ``reason`` are set unless it finished."""

    outcome: Outcome
    failed_step: str | None = None
    reason: str | None = None
    event: Literal["end"] = "end"


@dataclass(frozen=True, kw_only=True)
class StepBegan:
    """A step of a trial begins.

    ``trial`` is the trial's id in the plan, which the campaign sets: a trial does not know it.
    """

    name: str
    trial: str | None = None
    event: Literal["step"] = "step"


@dataclass(frozen=True, kw_only=True)
class IntervalEnded:
    """A second of a phase of the load generator has ended, ``t_s`` after the phase began.

    ``rows`` is the number of rows so far. In a phase that drives clients, ``kind`` is ``drive`` and
    ``part`` is ``warmup`` or ``measure``. ``trial`` is as in ``StepBegan``.
    """

    phase: str
    t_s: float
    rows: int
    kind: str | None = None
    part: str | None = None
    trial: str | None = None
    event: Literal["interval"] = "interval"


@dataclass(frozen=True, kw_only=True)
class LoopEnded:
    """One of several ``loops`` has ended; ``loop`` is its number, from 1.

    ``trial`` is as in ``StepBegan``. ``restarted_cold``: before this loop, the server was started
    again on the files of an interrupted trial.
    """

    loop: int
    loops: int
    transactions: int
    duration_s: float
    restarted_cold: bool = False
    trial: str | None = None
    event: Literal["loop"] = "loop"


@dataclass(frozen=True, kw_only=True)
class ResultWaits:
    """A result cannot be written yet."""

    reason: str
    event: Literal["waiting"] = "waiting"


@dataclass(frozen=True, kw_only=True)
class ClosedComparison:
    """A comparison that needs no more blocks, with its state and verdict."""

    label: str
    state: str
    verdict: str | None = None


@dataclass(frozen=True, kw_only=True)
class InterimRatio:
    """The ratio of a comparison so far, candidate / base, and its interval, None if too early."""

    label: str
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class VisibleChanges:
    """The changes that a run will detect after ``blocks`` blocks, given its noise so far.

    ``smallest`` and ``largest`` are fractions: the detectable change of the comparison with the
    least noise and of the one with the most.
    """

    blocks: int
    smallest: float
    largest: float


@dataclass(frozen=True)
class BlockEnded(Announcement):
    """The first ``blocks`` of ``total`` blocks of a fixed run have ended, with ``ratios`` so far.

    ``visible`` is set once, with the first intervals.
    """

    blocks: int
    total: int
    ratios: tuple[InterimRatio, ...]
    visible: VisibleChanges | None = None


@dataclass(frozen=True, kw_only=True)
class RunAssessed:
    """A sequential run was analysed after ``blocks`` blocks; ``ended_trials`` have a result.

    ``closed``: the comparisons that got their verdict since the last analysis.
    ``open``: the number of comparisons that need more blocks; ``ratios`` are theirs so far.
    ``about_s``, ``at_most_s``: the expected and the longest remaining time of the run.
    ``at_most_trials``: the largest number of remaining trials.
    ``visible`` is set once, with the first intervals.
    """

    blocks: int
    closed: tuple[ClosedComparison, ...]
    open: int
    about_s: float
    at_most_s: float
    at_most_trials: int
    ended_trials: int = 0
    ratios: tuple[InterimRatio, ...] = ()
    visible: VisibleChanges | None = None
    event: Literal["look"] = "look"


TrialEvent = StepBegan | IntervalEnded | LoopEnded
"""The events that a trial emits itself."""

Event = (
    RunOpened | TrialsScheduled | TrialBegan | TrialEnded | TrialEvent | ResultWaits | RunAssessed
)

Emitted = Event | Announcement

OnEvent = Callable[[Emitted], None]
"""A listener of events and announcements; it must not raise."""


def ignore(_event: Emitted) -> None:
    """Ignore an event."""


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain data, without fields that are None."""
    return {key: value for key, value in asdict(event).items() if value is not None}
