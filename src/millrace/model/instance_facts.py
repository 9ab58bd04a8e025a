"""Facts of a server's instance in a trial; trials record them, analyses read them."""

from collections.abc import Mapping
from typing import Literal

from millrace.model.documents import Count, Document, Items, Number


class CpuIdleFact(Document):
    """The treatment of idle CPUs in a trial, and the ``reason`` for it.

    ``kept_awake_by``: how CPUs were kept awake, None if they could sleep.
    ``shared_cpu``: the CPU that a single client and its server thread shared.
    ``server_cpus``: the CPUs to which the server threads of several clients were pinned.
    ``polled``, ``on_cpus``: whether clients polled and their CPUs; None in a trial of loading.
    ``idle_wakeup_us``, ``awake_wakeup_us``: wake-up latencies of the slowest CPU.
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
    """The optimiser's statistics of a table: their age, and the number of rows in them."""

    age_s: Number
    rows: Count


class ServerStateFact(Document):
    """The deferred work of a server at both ends of the measured part.

    The other fields are facts of its redo log and its tables; see millrace.databases.
    ``collations`` are the collations of the text columns of each table.
    """

    begin: Mapping[str, object] | None = None
    end: Mapping[str, object] | None = None
    since_begin_s: Number | None = None
    log_capacity_bytes: Number | None = None
    statistics: Mapping[str, TableStatistics] | None = None
    collations: Mapping[str, Items[str]] | None = None


class HostTimeFact(Document):
    """Disturbances of the measured time by the host.

    ``suspended_s`` is the time for which the machine was suspended. ``clock_step_s`` is the step of
    the wall clock beyond that; negative if it was set back. ``steal_share`` is the fraction of CPU
    time that the hypervisor gave to others.
    """

    measured_s: Number
    suspended_s: Number
    clock_step_s: Number
    steal_share: Number | None


class FullDiskFact(Document):
    """The behaviour of a server while its disk was full, and afterwards.

    ``trouble``: its first reaction: an error (``error``, with ``error_code``), no response
    (``silence``) or its exit (``end``); None if the client could continue to write.
    ``trouble_s``, ``free_bytes``: the time of writing and the free space at that moment.
    ``reads``, ``reads_answered``: the reads sent and answered while the disk was full.
    ``commits_while_full``: the number of commits while the disk was full.
    ``waiting_s``: how long the last statement had waited when space was freed.
    ``ended``: how the server process exited before it was stopped, if it did.
    ``recovery_s``: the time from freeing space to the next commit, None without a commit.
    ``stop_failed``, ``restart_failed``: why the server could not be stopped or restarted.
    ``committed_rows``: rows whose commit the client saw acknowledged.

    The state of rows after the restart; None if the table could not be read (``unreadable``):
    ``lost_rows``: committed rows that are missing or have another content.
    ``refused_rows``: rows with a change that the server had refused.
    ``unanswered_rows``: rows with a change to which the server had not responded.
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

    ``runs_as``: the user of the server process.
    ``load_average_1min``: the host's load average when the facts were recorded.
    ``limits``: what millrace cannot control or observe on this server.
    ``residency``: where the tables' pages were (``cached``, ``io-bound``, ``between``).
    ``page_cache``: whether restored files were in memory at the start (``warm``) or not (``cold``).
    ``unsettled``: background work that was still running when measuring began.
    ``file_removal_unknown``: why the time of removing files was not measured.
    ``full_disk``: set in a trial that fills a disk.
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
