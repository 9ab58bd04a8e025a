"""Define models of an attempt's files: its observations, and the seconds of its driven clients.

They have the keys that the analysis reads (``millrace.analysis.explain.decode_observations``,
``steadiness``), with their types; keys that an attempt lacks are absent. They are checked before
observations are stored, and when an archive is imported; afterwards the hash identifies a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from millrace.model.documents import Count, Document, Number, Positive
from millrace.store import checked

_Counts = dict[str, Number | str | None]


class _Missing(Document):
    observer: str = ""
    what: str = ""
    remedy: str | None = None


class _Usage(Document):
    cpu_s: Count | None = None
    user_s: Count | None = None
    system_s: Count | None = None
    runnable_s: Count | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    read_bytes: Count | None = None
    write_bytes: Count | None = None


class _Late(Document):
    late_s: Number | None = None


class _ThreadUsage(_Usage):
    tid: int
    kind: str


class _Threads(_Late):
    process: _Usage | None = None
    threads: list[_ThreadUsage] | None = None


class _CountedState(Document):
    class_: Annotated[str, Field(alias="class")]
    count: Positive
    seconds: Count = 0
    during_sync: Count


class _State(_CountedState):
    syscall: str | None
    wchan: str | None
    target: str | None
    stack: str | None = None


class _SampledThread(Document):
    tid: int
    kind: str
    states: list[_State]


class _StatementState(_CountedState):
    statement: str | None


class _Statements(Document):
    states: list[_StatementState] | None = None


class _States(Document):
    threads: list[_SampledThread] | None = None
    statements: _Statements | None = None


class _Wait(Document):
    state: str
    woken_by: str
    count: Count
    seconds: Count


class _ScheduledThread(Document):
    tid: int
    windows: Count = 0
    blocked_s: Count | None = None
    unknown_s: Count | None = None
    waits: list[_Wait] | None = None

    @model_validator(mode="after")
    def _tells_all_or_less(self) -> _ScheduledThread:
        told = self.model_fields_set
        if "blocked_s" in told and (
            None in (self.blocked_s, self.unknown_s, self.waits) or "windows" not in told
        ):
            raise ValueError("a thread with blocked_s needs unknown_s, windows and waits")
        return self


class _ScheduledStatement(Document):
    statement: str
    on_cpu: Count
    ready: Count


class _Switches(Document):
    seconds: Positive | None = None
    windows: Positive | None = None
    threads: list[_ScheduledThread] | None = None
    statements: list[_ScheduledStatement] | None = None

    @model_validator(mode="after")
    def _has_windows(self) -> _Switches:
        if self.threads and (self.seconds is None or self.windows is None):
            raise ValueError("threads were listened to for no seconds")
        return self


class _Disk(_Late):
    device: str | None = None
    reads: Count | None = None
    writes: Count | None = None
    read_bytes: Count | None = None
    write_bytes: Count | None = None
    flushes: Count | None = None
    read_s: Count | None = None
    write_s: Count | None = None
    flush_s: Count | None = None
    busy_s: Count | None = None


class _Status(_Late):
    deltas: _Counts | None = None
    gauges: _Counts | None = None
    metrics: _Counts | None = None


class _Event(Document):
    name: str
    count: Count
    wait_s: Count


class _Waits(_Late):
    enabled: bool | None = None
    events: list[_Event] | None = None


class _Digest(Document):
    text: str | None = None
    count: Count | None = None
    wait_s: Count
    lock_s: Count | None = None
    cpu_s: Count | None = None
    rows_examined: Count | None = None
    rows_sent: Count | None = None
    rows_affected: Count | None = None
    tmp_tables: Count | None = None
    tmp_disk_tables: Count | None = None
    no_index_used: Count | None = None
    sort_rows: Count | None = None
    errors: Count | None = None


class _Plan(Document):
    sql: str | None = None
    rows: list[dict[str, Number | str | bool | None]] | None = None
    error: str | None = None


class _Frequency(Document):
    mean: Positive | None = None


class _OtherProcess(Document):
    name: str | None = None
    cpu_s: Count | None = None


class _Memory(Document):
    swap_used_bytes: Count | None = None


class _ServerLimits(Document):
    cpus: Count | None = None
    quota_cpus: Count | None = None


class _Host(_Late):
    cpus: Count | None = None
    cpu: dict[str, Number | None] | None = None
    pressure: dict[str, Number | None] | None = None
    other_cpu_s: Number | None = None
    others: list[_OtherProcess] | None = None
    frequency_mhz: _Frequency | None = None
    memory: _Memory | None = None
    server_limits: _ServerLimits | None = None
    disturbed: list[str] | None = None


class _Profile(Document):
    event: str = ""
    frequency_hz: Count | None = None
    call_graph: str = "none"
    with_kernel: bool | None = None
    lost: Count | None = None
    seconds: Count | None = None
    runs: Annotated[int, Field(ge=0)] | None = None
    stacks: dict[str, Annotated[int, Field(gt=0)]] | None = None


class Observations(Document):
    """The observations of an attempt, see ``millrace.collect``."""

    version: int | None = None
    window_s: Positive | None = None
    missing: list[_Missing] | None = None
    threads: _Threads | None = None
    states: _States | None = None
    switches: _Switches | None = None
    disk: _Disk | None = None
    status: _Status | None = None
    waits: _Waits | None = None
    digests: list[_Digest] | None = None
    stages: list[_Event] | None = None
    plans: dict[str, _Plan] | None = None
    host: _Host | None = None
    profile: _Profile | None = None


class _Phase(Document):
    type: Literal["phase"]
    warmup_s: Count | None = None
    duration_s: Count | None = None


class _Interval(Document):
    type: Literal["interval"]
    part: str | None = None
    duration_s: Positive
    transactions: Count
    p50_us: Count | None = None


def check_event(where: str, event: Mapping[str, Any]) -> None:
    """Raise NotARecord for a line of a series whose keys do not match what the analysis reads."""
    kind = event.get("type")
    if isinstance(kind, str) and kind in _EVENTS:
        checked.document(where, _EVENTS[kind], event)


_EVENTS: dict[str, type[Document]] = {"phase": _Phase, "interval": _Interval}
