"""Facts of a server's instance in a trial, which the trial records and analyses read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from millrace.model.documents import Count, Document, Items, Number


class CpuIdleFact(Document):
    """The treatment of idle CPUs in a trial, and its reason.

    ``kept_awake_by`` says how CPUs were kept awake, None where they could sleep. ``shared_cpu`` is
    the CPU that the only client shares with the server's thread. The threads that serve several
    clients were pinned to ``server_cpus``. ``polled`` and ``on_cpus`` are of the clients, None
    where tables were loaded. Wake-ups are the slowest CPU's, in microseconds.
    """

    reason: str
    disable_idle_states: bool | None = None
    busy_poll: bool | None = None
    kept_awake_by: Mapping[str, object] | None = None
    shared_cpu: int | None = None
    client_cpus: Items[int] | None = None
    server_cpus: Items[int] | None = None
    polled: bool | None = None
    on_cpus: Items[int] | None = None
    idle_wakeup_us: Number | None = None
    awake_wakeup_us: Number | None = None


class TableStatistics(Document):
    """The optimiser's statistics of a table: their age, and the rows that they know of."""

    age_s: Number
    rows: Count


class ServerStateFact(Document):
    """The work that the server had put off at both ends of the measured part.

    It comes with what the server knows of its redo log and its tables; see millrace.databases.
    ``collations`` are those of each table's columns of text.
    """

    begin: Mapping[str, object] | None = None
    end: Mapping[str, object] | None = None
    since_begin_s: Number | None = None
    log_capacity_bytes: Number | None = None
    statistics: Mapping[str, TableStatistics] | None = None
    collations: Mapping[str, Items[str]] | None = None


class HostTimeFact(Document):
    """Disturbances of the measured part's time by the host.

    ``suspended_s`` is what the machine slept; ``clock_step_s`` what the wall clock went further
    than that (below 0: back); ``steal_share`` the share of the CPUs' time that was stolen.
    """

    measured_s: Number
    suspended_s: Number
    clock_step_s: Number
    steal_share: Number | None


class FullDiskFact(Document):
    """The behaviour of a server while its disk was full, and afterwards.

    Its first trouble was an error (``error``, with ``error_code``), no answer (``silence``), or its
    end (``end``); None: the client could write on. It came after ``trouble_s`` of writing, with
    ``free_bytes`` left. Until space returned, ``reads_answered`` of
    ``reads`` were, ``commits_while_full`` transactions were committed, and the last statement had
    waited for ``waiting_s`` then. ``ended`` says how the process ended before it was stopped.
    ``recovery_s`` is the time from the return of space to the next commit, None where there was
    none. ``stop_failed`` and ``restart_failed`` say why the server could not be stopped or started.

    The client had acknowledgements for ``committed_rows``. After the restart, ``lost_rows`` of them
    were missing or had another content, ``refused_rows`` had a change that the server had refused,
    and ``unanswered_rows`` one that it had never answered; None where ``unreadable`` says why.
    """

    trouble: Literal["error", "silence", "end"] | None
    trouble_s: Count
    error_code: str | None
    error: str | None
    free_bytes: Count
    reads: Count
    reads_answered: Count
    commits_while_full: Count
    waiting_s: Count | None
    ended: str | None
    recovery_s: Count | None
    recovery_limit_s: Count
    stop_failed: str | None
    restart_s: Count | None
    restart_failed: str | None
    committed_rows: Count
    lost_rows: Count | None
    refused_rows: Count | None
    unanswered_rows: Count | None
    unreadable: str | None


class InstanceFacts(Document):
    """Facts of a server's instance in a trial.

    ``runs_as`` is the user of its process, ``load_average_1min`` the host's when it was recorded.
    ``limits`` say what cannot be controlled or observed there. ``residency`` is where the tables'
    pages were (``cached``, ``io-bound``, ``between``). ``page_cache`` says whether restored files
    were in memory when the server started (``cold``, ``warm``). ``file_removal_unknown`` is why
    the time of removing files was not measured. ``unsettled`` is what the server still did when it
    was measured. ``full_disk`` is of a trial that filled its disk.
    """

    runs_as: str | None = None
    load_average_1min: Number | None = None
    limits: Items[str] | None = None
    load_method: str | None = None
    load_method_reason: str | None = None
    residency: str | None = None
    residency_why: str | None = None
    snapshot: str | None = None
    snapshot_restored_by: str | None = None
    snapshot_not_kept: str | None = None
    page_cache: str | None = None
    unsettled: Items[str] | None = None
    cpu_idle: CpuIdleFact | None = None
    file_removal_unknown: str | None = None
    state: ServerStateFact | None = None
    host_time: HostTimeFact | None = None
    full_disk: FullDiskFact | None = None
