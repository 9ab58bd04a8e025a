"""Events of a run: what its trials do, as they do it.

The scheduler and the trials emit them; progress and watching read them, from memory or from the
run's event file. ``event`` names the kind, also in the file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from millrace.model.trials import Outcome, Purpose


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
    """A step of a trial begins. ``trial`` is set where several are measured at the same time."""

    name: str
    trial: str | None = None
    event: Literal["step"] = "step"


@dataclass(frozen=True, kw_only=True)
class IntervalEnded:
    """A second of a phase of the load generator is over, ``t_s`` from the phase's beginning.

    ``rows`` is the number of rows so far. ``kind`` is ``drive`` where clients are driven, and
    ``part`` then names the part of that phase (``warmup``, ``measure``). ``trial`` is set as in
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
class RunAssessed:
    """A sequential run was looked at after ``blocks`` blocks.

    ``closed`` are the comparisons closed since the last look, ``open`` is the number of those that
    need more blocks. The rest is what is still to come: likely seconds, and at most how many
    seconds and trials.
    """

    blocks: int
    closed: tuple[ClosedComparison, ...]
    open: int
    about_s: float
    at_most_s: float
    at_most_trials: int
    event: Literal["look"] = "look"


TrialEvent = StepBegan | IntervalEnded
"""What a trial emits itself."""

Event = TrialBegan | TrialEnded | TrialEvent | ResultWaits | RunAssessed

_EVENT: TypeAdapter[Event] = TypeAdapter(
    Annotated[Event, Field(discriminator="event")], config={"defer_build": True}
)


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain data, without what is not known."""
    return {key: value for key, value in asdict(event).items() if value is not None}


def from_json(document: object) -> Event | None:
    """Return the event of plain data; None where it is none."""
    try:
        return _EVENT.validate_python(document)
    except ValidationError:
        return None
