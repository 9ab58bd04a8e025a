"""Define what happens while millrace works: events of a run, and announcements.

Events, which ``event`` names, go to progress displays and the run's event file; announcements are
not recorded.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from millrace.model.trials import Outcome, Purpose


class Announcement:
    """Something that a listener should know, and that no file records."""


@dataclass(frozen=True)
class Notice(Announcement):
    """One sentence that the user should read."""

    text: str


@dataclass(frozen=True)
class DownloadMoved(Announcement):
    """A download has ``done_bytes`` of ``total_bytes``, None where nobody knows the total."""

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
    """One trial; ``time_weight`` is its share of the time until it ends."""

    id: str
    treatment_id: str
    time_weight: float


@dataclass(frozen=True, kw_only=True)
class TrialsScheduled:
    """The ``waiting`` ones of ``trials`` come next, each with ``rows`` rows where that is known."""

    trials: tuple[ScheduledTrial, ...]
    waiting: tuple[str, ...]
    estimate_s: float
    rows: int | None
    event: Literal["schedule"] = "schedule"


@dataclass(frozen=True, kw_only=True)
class _OfTrial:
    """The trial that an event is about: its id in the plan, and its place in the run."""

    trial: str
    treatment: str
    treatment_id: str
    block: int
    position: int
    purpose: Purpose


@dataclass(frozen=True, kw_only=True)
class TrialBegan(_OfTrial):
    """A trial is measured from now on."""

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
    """A second of a phase of the load generator is over, ``t_s`` from the phase's beginning.

    ``rows`` is the number of rows so far. ``kind`` is ``drive`` where clients are driven, and
    ``part`` then names the part of that phase (``warmup``, ``measure``). ``trial`` is that of
    ``StepBegan``.
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
    """A loop of several is over, by its number from 1: ``trial`` emits it, ``cli`` shows it.

    ``trial`` is that of ``StepBegan``. Before a loop that ``restarted_cold`` the server started
    again on the files of a stopped trial.
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
    """The ratio of a comparison so far, candidate / base, and its interval where there is one."""

    label: str
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class VisibleChanges:
    """The changes that a run will show after ``blocks`` blocks, by its own noise so far.

    ``smallest`` and ``largest`` are fractions, of the comparison with the least noise and of the
    one with the most.
    """

    blocks: int
    smallest: float
    largest: float


@dataclass(frozen=True)
class BlockEnded(Announcement):
    """The first ``blocks`` blocks of a fixed ``total`` have ended, with these ``ratios`` so far.

    ``visible`` comes with the first intervals.
    """

    blocks: int
    total: int
    ratios: tuple[InterimRatio, ...]
    visible: VisibleChanges | None = None


@dataclass(frozen=True, kw_only=True)
class RunAssessed:
    """A sequential run was analyzed after ``blocks`` blocks, with ``ended_trials``.

    ``closed`` are the comparisons closed since the last time, ``open`` is the number of those that
    need more blocks, ``ratios`` are theirs so far. The rest takes about ``about_s``, and at most
    ``at_most_s`` and ``at_most_trials``. ``visible`` comes with the first intervals.
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
"""Take an event or an announcement; it must not raise."""


def ignore(_event: Emitted) -> None:
    """Ignore an event."""


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain data, without what is not known."""
    return {key: value for key, value in asdict(event).items() if value is not None}
