"""Facts of a server's instance in a trial, which the trial records and analyses read."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import AliasChoices, Field, model_validator

from millrace.model.documents import Count, Items, Number, OpenDocument


class CpuIdleFact(OpenDocument):
    """What was done about idle CPUs, and why.

    ``kept_awake_by`` says how CPUs were kept awake, None where they could sleep. ``shared_cpu`` is
    the CPU that the only client shares with the server's thread. ``polled`` and ``on_cpus`` are of
    the clients, None where tables were loaded. Wake-ups are the slowest CPU's, in microseconds.
    """

    reason: str
    kept_awake_by: Mapping[str, object] | None = None
    shared_cpu: int | None = None
    client_cpus: Items[int] | None = None
    polled: bool | None = None
    on_cpus: Items[int] | None = None
    idle_wakeup_us: Number | None = None
    awake_wakeup_us: Number | None = None


class ConcurrentFact(OpenDocument):
    """When a trial that ran at the same time as another was measured, in seconds of the monotonic
    clock that all processes of a host share; ``side`` is its half of the CPUs, ``cpus`` these."""

    side: int = 0
    cpus: Items[int] = ()
    measured_from_s: Number
    measured_to_s: Number

    @model_validator(mode="after")
    def _lasts(self) -> ConcurrentFact:
        if self.measured_to_s <= self.measured_from_s:
            raise ValueError("ends before it begins")
        return self


class TableStatistics(OpenDocument):
    """The optimiser's statistics of a table: their age, and the rows that they know of."""

    age_s: Number
    rows: Count


class ServerStateFact(OpenDocument):
    """What the server had put off at the ``begin`` and the ``end`` of the measured part, and what
    it knows of its redo log and its tables; see millrace.databases."""

    begin: Mapping[str, object] | None = None
    end: Mapping[str, object] | None = None
    since_begin_s: Number | None = None
    log_capacity_bytes: Number | None = None
    statistics: Mapping[str, TableStatistics] | None = None


class HostTimeFact(OpenDocument):
    """What the host did to the time of the measured part.

    ``suspended_s`` is what the machine slept; ``clock_step_s`` what the wall clock went further
    than that (below 0: back); ``steal_share`` the share of the CPUs' time that was stolen.
    """

    measured_s: Number
    suspended_s: Number
    clock_step_s: Number
    steal_share: Number | None


class InstanceFacts(OpenDocument):
    """Facts of a server's instance in a trial.

    ``limits`` say what cannot be controlled or observed there. ``residency`` is where the tables'
    pages were (``cached``, ``io-bound``, ``between``). ``unsettled`` is what the server still did
    when it was measured. Names that earlier stores have are read too.
    """

    limits: Items[str] | None = None
    load_method: str | None = None
    load_method_reason: str | None = None
    residency: str | None = None
    residency_why: str | None = None
    snapshot: str | None = Field(
        default=None, validation_alias=AliasChoices("snapshot", "template")
    )
    snapshot_restored_by: str | None = Field(
        default=None, validation_alias=AliasChoices("snapshot_restored_by", "template_restored_by")
    )
    snapshot_not_kept: str | None = Field(
        default=None, validation_alias=AliasChoices("snapshot_not_kept", "template_not_kept")
    )
    unsettled: Items[str] | None = None
    cpu_idle: CpuIdleFact | None = Field(
        default=None, validation_alias=AliasChoices("cpu_idle", "cpu_wakeup")
    )
    concurrent: ConcurrentFact | None = Field(
        default=None, validation_alias=AliasChoices("concurrent", "side_by_side")
    )
    state: ServerStateFact | None = None
    host_time: HostTimeFact | None = None
