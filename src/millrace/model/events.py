"""Define what millrace reports while it works: typed events, for listeners and the event file.

Events of a run are recorded in a file beside the store while a trial measures. Others, such as the
bytes of a download, only reach the listener.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from millrace.model.trials import Purpose


class Event:
    """Something that happened, for whoever listens."""


OnEvent = Callable[[Event], None]
"""Take one event; it must not raise."""


def ignore(_event: Event) -> None:
    """Ignore an event."""


@dataclass(frozen=True)
class Notice(Event):
    """One sentence that the user should read."""

    text: str


@dataclass(frozen=True)
class DownloadMoved(Event):
    """A download has ``done_bytes`` of ``total_bytes``, None where nobody knows the total."""

    what: str
    done_bytes: int
    total_bytes: int | None


class RunEvent(Event):
    """An event of a run, recorded in its event file."""


@dataclass(frozen=True)
class RunOpened(RunEvent):
    """A run of ``trials`` trials starts or resumes; ``waiting`` of them have no result."""

    run: str
    seed: int
    trials: int
    waiting: int


@dataclass(frozen=True)
class ScheduledTrial:
    """One trial; ``time_weight`` is its share of the host's time, a half in a concurrent pair."""

    id: str
    treatment_id: str
    time_weight: float


@dataclass(frozen=True)
class TrialsScheduled(RunEvent):
    """Trials come next: the ``waiting`` ones of ``trials``, by id, in about ``estimate_s``."""

    trials: tuple[ScheduledTrial, ...]
    waiting: tuple[str, ...]
    estimate_s: float
    rows: int | None


@dataclass(frozen=True)
class TrialEvent(RunEvent):
    """Something happened to a trial. ``trial`` is its id in the plan, ``block`` counts from 0."""

    trial: str
    treatment: str
    treatment_id: str
    block: int
    position: int
    purpose: Purpose


@dataclass(frozen=True)
class TrialStarted(TrialEvent):
    """An attempt at a trial was claimed."""


@dataclass(frozen=True)
class StepStarted(RunEvent):
    """A trial came to the step ``name``."""

    trial: str
    name: str


@dataclass(frozen=True)
class IntervalMeasured(RunEvent):
    """A second of a phase of the load generator, ``t_s`` after the phase began."""

    trial: str
    phase: str
    kind: str | None
    t_s: float
    rows: int
    transactions: int


@dataclass(frozen=True)
class TrialEnded(TrialEvent):
    """An attempt has its result."""

    outcome: str
    failed_step: str | None
    reason: str | None


@dataclass(frozen=True)
class ResultDelayed(RunEvent):
    """A result cannot be written yet; it is tried again."""

    reason: str


@dataclass(frozen=True)
class ClosedComparison:
    """A comparison that needs no more blocks: its label, how it was closed, and its verdict."""

    label: str
    state: str
    verdict: str | None


@dataclass(frozen=True)
class RunReviewed(RunEvent):
    """A sequential run was analyzed after ``blocks`` blocks.

    ``closed`` are the comparisons closed since the last review, ``open`` counts the others. The
    rest takes about ``about_s``, and at most ``at_most_s`` and ``at_most_trials``.
    """

    blocks: int
    closed: tuple[ClosedComparison, ...]
    open: int
    about_s: float
    at_most_s: float
    at_most_trials: int
    ended_trials: int


_NAMES: dict[type[RunEvent], str] = {
    RunOpened: "run",
    TrialsScheduled: "schedule",
    TrialStarted: "trial",
    StepStarted: "step",
    IntervalMeasured: "interval",
    TrialEnded: "end",
    ResultDelayed: "delayed",
    RunReviewed: "review",
}


def as_data(event: RunEvent) -> dict[str, Any]:
    """Return an event as a line of the event file holds it."""
    assert is_dataclass(event)
    return {"event": _NAMES[type(event)], **asdict(event)}
