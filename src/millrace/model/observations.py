"""The observations of one attempt: the document that collectors write and the analysis reads.

Keys that an attempt lacks are absent. Amounts are between the two readings of a
section, in seconds and bytes.
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
    """The resources that threads used; ``runnable_s`` is the time they were ready without a CPU."""

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
    """A section of which the first reading was ``late_s`` after the begin of the window."""

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
    """The device under the data directory, for everyone on the host; its times add up requests.

    ``busy_s`` is the time with at least one. Kernels before 5.5 do not count flushes.
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
    """The growth of a counter, under the server's own ``name`` for it."""

    name: str
    value: Amount


class Counters(Document):
    """The counters of a server that any family may have, named by its family.

    None where the server lacks one. ``handler_reads`` counts rows that the server fetched from its
    engine, ``all_handler_reads`` also those that it tried again or skipped. ``redo_bytes`` is the
    growth of the log's position, ``log_written_bytes`` counts a block as often as it is written.
    ``binary_log_bytes`` is the growth of the log of changes that replicas read.
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
    """The server's counters that grew, and its gauges at the end, by its own names.

    ``counters`` are by neutral ones.
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
    """A wait or a stage that the server timed."""

    name: str
    count: Amount
    wait_s: Amount


class Waits(Section):
    """The server's waits, the longest first; ``why`` it measures none, and unmeasured classes."""

    enabled: bool | None = None
    why: str | None = None
    not_instrumented: Items[str] = ()
    events: Items[TimedEvent] | None = None


DIGEST_COUNTS = (
    "rows_examined", "rows_sent", "rows_affected", "tmp_tables", "tmp_disk_tables",
    "no_index_used", "sort_rows", "errors",
)  # fmt: skip


class Digest(Document):
    """The executions of a statement without its values; None for an uncounted figure.

    ``lock_s`` and ``cpu_s`` are parts of ``wait_s``, the time of all executions.
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
    """The answer to EXPLAIN of a statement: ``rows`` as the server gives them, or ``error``.

    ``steps`` are those of the rows as their family reads them; None where it is not known.
    """

    sql: str | None = None
    rows: Items[PlanRow] | None = None
    error: str | None = None
    steps: Items[PlanStep] | None = None


class Frequency(Document):
    """The clock of the host's CPUs at both ends, in MHz."""

    min: Count | None = None
    max: Count | None = None
    mean: Positive | None = None


class OtherProcess(Document):
    """Another process of the host, with the CPU time of itself and its ended children."""

    name: str | None = None
    pid: int | None = None
    cpu_s: AmountOrNone = None


class Memory(Document):
    """The host's memory at the end."""

    available_bytes: Count | None = None
    swap_used_bytes: Count | None = None


class ServerLimits(Document):
    """The CPUs that the server may use, by affinity and by quota; None: unlimited or unknown."""

    cpus: Count | None = None
    quota_cpus: Count | None = None


class HostCpu(Document):
    """The seconds of all CPUs by state, among them those that the hypervisor gave to others."""

    user_s: SignedAmount = None
    nice_s: SignedAmount = None
    system_s: SignedAmount = None
    idle_s: SignedAmount = None
    iowait_s: SignedAmount = None
    irq_s: SignedAmount = None
    softirq_s: SignedAmount = None
    steal_s: SignedAmount = None


class Pressure(Document):
    """The seconds for which work waited for a resource, ``full`` ones for all processes at once."""

    cpu_some_s: SignedAmount = None
    io_some_s: SignedAmount = None
    io_full_s: SignedAmount = None
    memory_some_s: SignedAmount = None
    memory_full_s: SignedAmount = None


class HostActivity(Section):
    """The host between the marks: the busiest ``others``, and likely disturbances as clauses."""

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
    """CPU samples by folded stack, without ``lost`` ones, of ``runs`` runs in ``seconds``.

    Sampling began ``late_s`` after the window; samples are shares of ``seconds``.
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
    """The observations of an attempt, see ``millrace.collect``; without keys for none.

    ``observers`` names the collectors that observed it to its end. ``engine_status`` and
    ``processlist`` are kept for people: no analysis reads them.
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
        """Return whether nothing was observed, nor anything that was tried is missing."""
        every_attempt_has = {"window_s", "observers", "missing"}
        return not self.missing and self.model_fields_set <= every_attempt_has
