"""The samples and scheduler events of threads in an attempt's observations."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from millrace.model.documents import Count, Document, Items, Number, Positive


class CountedState(Document):
    """A sampled state; ``during_sync`` of its samples were taken during a flush of the log."""

    model_config = ConfigDict(populate_by_name=True)

    state_class: Annotated[str, Field(alias="class")]
    count: Positive
    seconds: Count | None = None
    during_sync: Count

    @property
    def weight(self) -> float:
        """Return the time of the samples in seconds, or their number if the time is not known."""
        return float(self.count if self.seconds is None else self.seconds)


class State(CountedState):
    """A sampled state of a thread: its system call and place in the kernel; see ``collect``."""

    syscall: str | None
    wchan: str | None
    target: str | None
    stack: str | None = None


class SampledThread(Document):
    """A thread with its sampled states, the most frequent first.

    ``serves_client`` is true if the thread waited for requests of a measured client.
    """

    tid: int
    name: str = ""
    kind: str
    ticks: Count | None = None
    serves_client: bool = False
    states: Items[State]


class StatementState(CountedState):
    """A sampled state of a thread; ``statement`` is the statement under way, None without one."""

    statement: str | None


class Statements(Document):
    """The sampled states by statement, summed over the ``threads`` that serve clients."""

    threads: Count | None = None
    states: Items[StatementState] | None = None


class States(Document):
    """The sampled states of all threads; ``cpu_s`` is the CPU time of the sampler itself.

    ``statements`` is None if unknown. Sampling began ``late_s`` after the start of the window;
    nothing is scaled for that, because states are used as shares of samples.
    """

    late_s: Number | None = None
    rate_hz: Count | None = None
    ticks: Count | None = None
    cpu_s: Count | None = None
    realtime: bool | None = None
    threads: Items[SampledThread] | None = None
    statements: Statements | None = None


class SchedWait(Document):
    """Waits of one kind: the state in which the thread slept, and the waking thread."""

    state: str
    woken_by: str
    count: Count
    seconds: Count


class ScheduledThread(Document):
    """The waits of a thread, from scheduler events."""

    tid: int
    windows: Count
    blocked_s: Count
    unknown_s: Count
    waits: Items[SchedWait]


class ScheduledStatement(Document):
    """The samples of threads executing a statement: running, and ready but waiting for a CPU."""

    statement: str
    on_cpu: Count
    ready: Count


class SchedEvents(Document):
    """The scheduler events of ``windows`` time windows that lasted ``seconds`` in all."""

    seconds: Positive | None = None
    windows: Positive | None = None
    threads: Items[ScheduledThread] | None = None
    statements: Items[ScheduledStatement] | None = None

    @model_validator(mode="after")
    def _has_windows(self) -> SchedEvents:
        if self.threads and (self.seconds is None or self.windows is None):
            raise ValueError("threads have scheduler events, but seconds or windows is missing")
        return self
