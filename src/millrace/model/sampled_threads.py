"""The samples and scheduler events of threads in an attempt's observations."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from millrace.model.documents import Count, Document, Items, Number, Positive


class CountedState(Document):
    """A sampled state; ``during_sync`` of its samples fell into a flush of the server's log."""

    model_config = ConfigDict(populate_by_name=True)

    state_class: Annotated[str, Field(alias="class")]
    count: Positive
    seconds: Count | None = None
    during_sync: Count

    @property
    def weight(self) -> float:
        """Return the seconds that the samples stand for; their number where that was not kept."""
        return float(self.count if self.seconds is None else self.seconds)


class State(CountedState):
    """A sampled state of a thread: where in the kernel it was; see ``collect``."""

    syscall: str | None
    wchan: str | None
    target: str | None
    stack: str | None = None


class SampledThread(Document):
    """A thread with its sampled states, the most frequent first.

    ``serves_client`` is true where it waited for a measured client's requests.
    """

    tid: int
    name: str = ""
    kind: str
    ticks: Count | None = None
    serves_client: bool = False
    states: Items[State]


class StatementState(CountedState):
    """A sampled state of a thread while its client had a statement under way; None: it had none."""

    statement: str | None


class Statements(Document):
    """The sampled states by statement, summed over the ``threads`` that serve clients."""

    threads: Count | None = None
    states: Items[StatementState] | None = None


class States(Document):
    """The threads' states; ``cpu_s`` is the sampler's. ``statements`` is None where unknown.

    Sampling began ``late_s`` after the window. States are shares of samples, so nothing is scaled.
    """

    late_s: Number | None = None
    rate_hz: Count | None = None
    ticks: Count | None = None
    cpu_s: Count | None = None
    realtime: bool | None = None
    threads: Items[SampledThread] | None = None
    statements: Statements | None = None


class SchedWait(Document):
    """Waits of a kind: how the thread slept, and who woke it."""

    state: str
    woken_by: str
    count: Count
    seconds: Count


class ScheduledThread(Document):
    """The waits of a thread by the scheduler's events."""

    tid: int
    windows: Count
    blocked_s: Count
    unknown_s: Count
    waits: Items[SchedWait]


class ScheduledStatement(Document):
    """The samples of a statement's thread ``on_cpu``, and ``ready`` without a CPU."""

    statement: str
    on_cpu: Count
    ready: Count


class SchedEvents(Document):
    """The scheduler's events, of ``windows`` that lasted ``seconds`` in all."""

    seconds: Positive | None = None
    windows: Positive | None = None
    threads: Items[ScheduledThread] | None = None
    statements: Items[ScheduledStatement] | None = None

    @model_validator(mode="after")
    def _has_windows(self) -> SchedEvents:
        if self.threads and (self.seconds is None or self.windows is None):
            raise ValueError("threads were listened to for no seconds")
        return self
