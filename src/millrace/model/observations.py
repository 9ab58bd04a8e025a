"""The observations of an attempt: the document that collectors write and analyses read.

A key is absent if an attempt does not have the value. Amounts are the growth between the two
readings of a section, in seconds and bytes.
"""

from typing import Annotated

from pydantic import Field

from millrace.model.documents import (
    Accrued,
    Amount,
    AmountOrNone,
    Count,
    Document,
    Items,
    Number,
    Positive,
    SignedAmount,
)
from millrace.model.instruction_counts import StoredCounts
from millrace.model.sampled_threads import SchedEvents, States

PlanRow = dict[str, Number | str | bool | None]


class Missing(Document):
    """An observation that a collector could not make, and a hint."""

    observer: str = ""
    what: str = ""
    hint: str | None = None


class Usage(Document):
    """The resources that threads used; ``runnable_s`` is the time they waited for a CPU."""

    cpu_s: AmountOrNone = None
    user_s: AmountOrNone = None
    system_s: AmountOrNone = None
    runnable_s: AmountOrNone = None
    voluntary_switches: AmountOrNone = None
    involuntary_switches: AmountOrNone = None
    minor_faults: AmountOrNone = None
    major_faults: AmountOrNone = None
    read_calls: AmountOrNone = None
    write_calls: AmountOrNone = None
    read_chars: AmountOrNone = None
    written_chars: AmountOrNone = None
    read_bytes: AmountOrNone = None
    write_bytes: AmountOrNone = None


class Section(Document):
    """A section; its first reading was ``late_s`` after the start of the observed window."""

    late_s: Number | None = None


class ThreadUsage(Usage):
    """The resources that one thread used."""

    tid: int
    name: str = ""
    kind: str


class Threads(Section):
    """The resources of the server's process and of its threads, the busiest first."""

    process: Usage | None = None
    threads: Items[ThreadUsage] | None = None


class Disk(Section):
    """The activity of the data directory's device, caused by any process on the host.

    ``read_s``, ``write_s`` and ``flush_s`` are sums over requests; ``busy_s`` is the time with at
    least one request in progress. Kernels before 5.5 do not count flushes.
    """

    device: str | None = None
    reads: AmountOrNone = None
    writes: AmountOrNone = None
    read_bytes: AmountOrNone = None
    write_bytes: AmountOrNone = None
    flushes: AmountOrNone = None
    read_s: AmountOrNone = None
    write_s: AmountOrNone = None
    flush_s: AmountOrNone = None
    busy_s: AmountOrNone = None


class CounterGrowth(Document):
    """The growth of a counter; ``name`` is the server's own name for it."""

    name: str
    value: Amount


class Counters(Document):
    """The counters of a server under names that do not depend on its family.

    A counter is None if the server does not have it. ``handler_reads`` counts rows that the server
    fetched from its engine; ``all_handler_reads`` also counts repeated and skipped rows.
    ``redo_bytes`` is the growth of the log sequence number; ``log_written_bytes`` counts a block
    each time it is written. ``binary_log_bytes`` is the growth of the binary log.
    """

    rows_read: CounterGrowth | None = None
    handler_reads: CounterGrowth | None = None
    all_handler_reads: CounterGrowth | None = None
    row_lock_waits: CounterGrowth | None = None
    row_lock_s: CounterGrowth | None = None
    buffer_pool_misses: CounterGrowth | None = None
    fsyncs: CounterGrowth | None = None
    log_fsyncs: CounterGrowth | None = None
    redo_bytes: CounterGrowth | None = None
    log_written_bytes: CounterGrowth | None = None
    binary_log_bytes: CounterGrowth | None = None
    bytes_sent: CounterGrowth | None = None
    pages_compressed: CounterGrowth | None = None


class Status(Section):
    """The growth of the server's counters, and its gauges at the end, by the server's names.

    ``counters`` has some of them under names that do not depend on the server's family.
    """

    deltas: Annotated[dict[str, Number | str | None] | None, Accrued()] = None
    gauges: dict[str, Number | str | None] | None = None
    metrics: Annotated[dict[str, Number | str | None] | None, Accrued()] = None
    metric_gauges: dict[str, Number | str | None] | None = None
    counters: Counters | None = None

    @property
    def grown(self) -> dict[str, float]:
        """Return status variables and metrics that are numbers, by name."""
        both = {**(self.metrics or {}), **(self.deltas or {})}
        return {name: value for name, value in both.items() if isinstance(value, int | float)}


class TimedEvent(Document):
    """A kind of wait or stage that the server measured."""

    name: str
    count: Amount
    wait_s: Amount


class Waits(Section):
    """The server's waits, the longest first.

    ``why`` is the reason if the server measures no waits; ``not_instrumented`` are the classes that
    it does not measure.
    """

    enabled: bool | None = None
    why: str | None = None
    not_instrumented: Items[str] = ()
    events: Items[TimedEvent] | None = None


DIGEST_COUNTS = (
    "rows_examined", "rows_sent", "rows_affected", "tmp_tables", "tmp_disk_tables",
    "no_index_used", "sort_rows", "errors",
)  # fmt: skip


class Digest(Document):
    """The executions of a normalised statement; a figure is None if the server does not count it.

    ``wait_s`` is the total time of all executions; it includes ``lock_s`` and ``cpu_s``.
    """

    text: str | None = None
    count: AmountOrNone = None
    wait_s: Amount
    lock_s: AmountOrNone = None
    cpu_s: AmountOrNone = None
    rows_examined: AmountOrNone = None
    rows_sent: AmountOrNone = None
    rows_affected: AmountOrNone = None
    tmp_tables: AmountOrNone = None
    tmp_disk_tables: AmountOrNone = None
    no_index_used: AmountOrNone = None
    sort_rows: AmountOrNone = None
    errors: AmountOrNone = None


class PlanStep(Document):
    """A step of a plan, in words that all versions share.

    ``role`` is what part of the statement it belongs to (the query, a materialised table ...),
    ``access`` how the table is read (``ALL``, ``index``, ``range``, ``ref``, ``eq_ref`` ...), by
    ``key``; ``key_parts`` of its columns are compared with values (None: not by equality). An
    index that ``covers`` the columns is read alone. ``work`` is what else the step does.
    """

    role: str
    table: str
    access: str
    key: str = ""
    key_parts: int | None = None
    covers: bool = False
    work: Items[str] = ()


class QueryPlan(Document):
    """The result of EXPLAIN for a statement: the server's ``rows``, or its ``error``.

    ``steps`` are derived from the rows by the server's family; None if that is not possible.
    """

    sql: str | None = None
    rows: Items[PlanRow] | None = None
    error: str | None = None
    steps: Items[PlanStep] | None = None


class Frequency(Document):
    """The clock frequency of the host's CPUs at both ends, in MHz."""

    min: Count | None = None
    max: Count | None = None
    mean: Positive | None = None


class OtherProcess(Document):
    """Another process of the host, with the CPU time of it and its ended children."""

    name: str | None = None
    pid: int | None = None
    cpu_s: AmountOrNone = None


class Memory(Document):
    """The host's memory at the end."""

    available_bytes: Count | None = None
    swap_used_bytes: Count | None = None


class ServerLimits(Document):
    """The number of CPUs for the server, by affinity and by quota; None: unlimited or unknown."""

    cpus: Count | None = None
    quota_cpus: Count | None = None


class HostCpu(Document):
    """The time of all CPUs by state, in seconds; the hypervisor gave ``steal_s`` to others."""

    user_s: SignedAmount = None
    nice_s: SignedAmount = None
    system_s: SignedAmount = None
    idle_s: SignedAmount = None
    iowait_s: SignedAmount = None
    irq_s: SignedAmount = None
    softirq_s: SignedAmount = None
    steal_s: SignedAmount = None


class Pressure(Document):
    """The time (PSI) in which some, or at the same time all (``full``), processes had to wait."""

    cpu_some_s: SignedAmount = None
    io_some_s: SignedAmount = None
    io_full_s: SignedAmount = None
    memory_some_s: SignedAmount = None
    memory_full_s: SignedAmount = None


class HostActivity(Section):
    """The activity of the host: CPU time, the busiest other processes, and likely disturbances."""

    cpus: Count | None = None
    cpu: HostCpu | None = None
    pressure: Pressure | None = None
    other_cpu_s: SignedAmount = None
    others: Items[OtherProcess] | None = None
    frequency_mhz: Frequency | None = None
    memory: Memory | None = None
    server_limits: ServerLimits | None = None
    disturbed: Items[str] | None = None


class ProfileSamples(Document):
    """CPU samples by folded stack, without ``lost`` samples.

    They cover ``runs`` runs that took ``seconds`` in all, so a sample stands for a share of
    ``seconds``. Sampling began ``late_s`` after the start of the window.
    """

    late_s: Number | None = None
    event: str = ""
    frequency_hz: Count | None = None
    call_graph: str = "none"
    with_kernel: bool | None = None
    samples: Count | None = None
    lost: Count | None = None
    seconds: Count | None = None
    runs: Annotated[int, Field(ge=0)] | None = None
    stacks: dict[str, Annotated[int, Field(gt=0)]] | None = None


class Observations(Document):
    """The observations of an attempt (see ``millrace.collect``); empty if nothing was observed.

    ``observers`` are the collectors that observed the attempt until its end. ``engine_status`` and
    ``processlist`` are for human readers; analyses do not use them.
    """

    window_s: Positive | None = None
    observers: Items[str] | None = None
    missing: Items[Missing] | None = None
    threads: Threads | None = None
    states: States | None = None
    switches: SchedEvents | None = None
    disk: Disk | None = None
    status: Status | None = None
    engine_status: object = None
    processlist: object = None
    waits: Waits | None = None
    digests: Items[Digest] | None = None
    stages: Items[TimedEvent] | None = None
    plans: dict[str, QueryPlan] | None = None
    host: HostActivity | None = None
    profile: ProfileSamples | None = None
    instructions: StoredCounts | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was observed, and no collector failed."""
        every_attempt_has = {"window_s", "observers", "missing"}
        return not self.missing and self.model_fields_set <= every_attempt_has
