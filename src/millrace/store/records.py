"""Define the records of the results store: plain values that the runner writes.

Units are in the names (``_s``, ``_bytes``); instants are UTC ISO 8601 text with ``Z``. Nothing that
can be derived is stored: rates, ratios and verdicts come from ``millrace.analysis``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from millrace.levels import Level
from millrace.model.documents import Count, Document, Excerpt, Items, Number, Positive, Whole, exact
from millrace.model.host_facts import HostFacts
from millrace.model.instance_facts import InstanceFacts
from millrace.model.observations import Observations
from millrace.model.phases import MeasuredPhases
from millrace.model.roles import MEASURED
from millrace.model.run_spec import Design, Of, RunSpec
from millrace.model.servers import BuildFacts
from millrace.model.steady_limits import SteadyLimits
from millrace.model.trials import Outcome, Purpose

Origin = Literal["local", "imported"]
"""Where a run or a point of a history was measured: here, or elsewhere as a file claims."""

ROUND_FAILED = "pair_failed"
"""The step of a trial that is left out because another one of its round failed."""

_ENVIRONMENT = (
    "kernel.release", "libc", "memory.total_bytes", "frequency.governor", "frequency.turbo",
    "huge_pages.transparent", "filesystem.mount_point", "filesystem.type", "filesystem.source",
    "limits.cpus", "limits.memory_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class HostRecord:
    """All facts of a host, with doctor's findings; ``id`` is a digest of the identifying ones."""

    id: str
    facts: HostFacts

    def environment(self) -> dict[str, object]:
        """Return the facts that a reboot or a setting changes, by name: comparable if equal."""
        return {
            path.replace(".", " ").replace("_", " "): attrgetter(path)(self.facts)
            for path in _ENVIRONMENT
        }


@dataclass(frozen=True)
class RunRecord:
    """One run of an experiment (``spec``, and its TOML text) on one host.

    ``versions`` holds ``millrace``, ``load_generator`` and ``data`` (of the data set's definition).
    ``blocks`` counts the blocks with trials: all of a fixed run, or the started ones. ``origin`` is
    ``imported`` where the run came from a file, so that nothing in it was verified here; the store
    decides it, never a file.
    """

    id: str
    digest: str
    name: str
    title: str
    scale: str
    created_utc: str
    seed: int
    blocks: int
    margin: float
    host: HostRecord
    versions: Mapping[str, str]
    spec: RunSpec
    experiment_text: str
    millrace_command: str = ""
    origin: Origin = field(default="local", compare=False)

    @property
    def design(self) -> Design:
        """The rule that last decided the number of blocks."""
        return self.spec.extensions[-1].design if self.spec.extensions else self.spec.design

    @property
    def phases(self) -> MeasuredPhases:
        """The workload's phases that figures are about."""
        return self.spec.workload.measured

    def environment_changes(self, host: HostRecord, versions: Mapping[str, str]) -> Iterator[str]:
        """Yield what changed since the start: trials of a block share one environment."""
        for name in ("load_generator", "data", "valgrind"):
            before, now = self.versions.get(name), versions.get(name)
            if before != now:
                yield f"the {name.replace('_', ' ')} was {before} and is {now}"
        environment = host.environment()
        for name, was in self.host.environment().items():
            if was != environment[name]:
                yield f"{name} was {was} and is {environment[name]}"


@dataclass(frozen=True)
class TreatmentRecord:
    """A combination of levels; ``position`` is its place in the experiment's own order."""

    id: str
    position: int
    levels: Mapping[str, Level]
    resolved: Mapping[str, Level]


@dataclass(frozen=True)
class TrialRecord:
    """A planned run of a treatment in a block (from 0), at ``position`` in the order.

    Profiled and counted trials have blocks of their own. Neither they nor A/A trials (``aa``,
    one more trial of the base) enter a verdict.
    """

    id: str
    treatment_id: str
    block: int
    position: int
    purpose: Purpose = "measure"


@dataclass(frozen=True)
class Owner:
    """The process of an attempt, identified by ``boot_id``, number and start (/proc/PID/stat)."""

    host_id: str
    boot_id: str
    pid: int
    started_ticks: int


@dataclass(frozen=True)
class StepRecord:
    """A step of an attempt, in seconds from the attempt's start."""

    position: int
    name: str
    started_s: float
    duration_s: float
    outcome: Outcome


@dataclass(frozen=True)
class ServerRecord:
    """A server as observed in a trial, with its own version and its provenance (``build``).

    ``host_variables`` differ on every start (paths, ports) and never count as a difference.
    """

    name: str
    family: str
    version: str
    version_reported: str
    build: BuildFacts
    host_variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptionRecord:
    """A requested option; ``left_out`` is the reason where it was not applied."""

    name: str
    value: str | None
    layer: str
    optional: bool
    left_out: str | None = None


@dataclass(frozen=True)
class InstanceRecord:
    """The role of a server in an attempt, with its requested and effective settings."""

    role: str
    server: ServerRecord
    configuration: str
    options: tuple[OptionRecord, ...]
    effective: Mapping[str, str]
    facts: InstanceFacts = field(default_factory=InstanceFacts)


@dataclass(frozen=True)
class MeasurementRecord:
    """A figure of the instance ``role``; its unit ends its name (``load_duration_s``, ``rows``)."""

    name: str
    value: float
    role: str = "server"


@dataclass(frozen=True)
class ArtefactRecord:
    """A file stored next to the database under its SHA-256: a log, a series, a histogram."""

    kind: str
    sha256: str
    size_bytes: int
    role: str = "server"


@dataclass(frozen=True)
class HistogramRecord:
    """Latencies of one kind of transaction or statement in one phase of an attempt.

    ``of`` may also be a part of the phase: all transactions before, during or after maintenance.
    ``kind`` is ``service`` (from the sending of a request) or ``response`` (from its scheduled
    time). ``encoded`` is an HdrHistogram V2 of nanoseconds in base64, as
    ``millrace.stats.histogram`` reads it; ``count`` and ``sum_s`` are the load generator's own.
    """

    phase: str
    of: Of
    name: str
    kind: Literal["service", "response"]
    encoded: str
    count: int
    sum_s: float


class NewArtefact(NamedTuple):
    """A file to store."""

    kind: str
    role: str
    content: bytes


@dataclass(frozen=True)
class AttemptResult:
    """The result of an attempt, written in one transaction after the trial is over.

    ``failed_step`` and ``reason`` are set when ``outcome`` is not ``finished``; ``log_tail`` is the
    end of the server's own log. ``artefacts`` are the files to store; ``histograms`` and the
    ``observations`` of each role (plain data, see millrace.collect) become one more file each.
    ``is_transient`` marks a failure of the host, after which a later attempt may succeed; it is not
    stored.
    """

    outcome: Outcome
    steps: tuple[StepRecord, ...] = ()
    instances: tuple[InstanceRecord, ...] = ()
    measurements: tuple[MeasurementRecord, ...] = ()
    failed_step: str | None = None
    reason: str | None = None
    log_tail: str | None = None
    artefacts: tuple[NewArtefact, ...] = ()
    histograms: tuple[HistogramRecord, ...] = ()
    observations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_transient: bool = False


class _Part(Excerpt):
    duration_s: Count


class _Maintenance(Excerpt):
    from_s: Count
    parts: Annotated[Items[_Part], Field(min_length=1)]


class DrivenPhase(Excerpt):
    """The times of the phase that drove clients, as far as they were recorded."""

    warmup_s: Count | None = None
    duration_s: Count | None = None
    maintenance: _Maintenance | None = None


class DrivenInterval(Excerpt):
    """A second of the warm-up or the measured ``part``, which ended at ``t_s``."""

    part: str | None = None
    t_s: Count
    duration_s: Positive
    transactions: Count
    p50_us: Count | None = None


class LagSample(Document):
    """A replica at one moment; ``lag_s`` is None where it had no heartbeat to show."""

    t_s: Count
    written_bytes: int
    received_bytes: int
    applied_bytes: int
    lag_s: Count | None
    reported_lag_s: Number | None


class LoopOperation(Document):
    """A transaction of the workload in a loop; ``encoded`` is a histogram of service times."""

    name: str
    count: Whole
    sum_s: Count
    encoded: str


class LoopRecord(Document):
    """A loop of one trial, by its number from 1: ``trial`` writes it, ``analysis`` reads it.

    The bytes are those of the data directory when it ended, their length and without holes; None
    where the server is an attached one. Before a loop that ``restarted_cold``, the server started
    again on the files that a stopped or killed millrace left.
    """

    loop: int
    transactions: Whole
    errors: Whole
    duration_s: Count
    restarted_cold: bool = False
    apparent_bytes: Whole | None = None
    allocated_bytes: Whole | None = None
    operations: Items[LoopOperation] = ()


@dataclass(frozen=True)
class StoredAttempt:
    """An attempt as read back; ``outcome`` is None while it runs (or when its process died).

    ``series`` are the events of its driven clients second by second (docs/load-spec.md), empty
    where no clients were driven. ``observations`` are read only on request. ``lag`` are samples of
    its replica, if it has one, ``loops`` its loops, if it had several. ``limits`` are those of its
    server, as this millrace knows the family; they are not stored.
    """

    id: int
    trial_id: str
    number: int
    owner: Owner
    started_utc: str
    ended_utc: str | None
    outcome: Outcome | None
    failed_step: str | None
    reason: str | None
    log_tail: str | None
    steps: tuple[StepRecord, ...]
    instances: tuple[InstanceRecord, ...]
    measurements: tuple[MeasurementRecord, ...]
    artefacts: tuple[ArtefactRecord, ...]
    histograms: tuple[HistogramRecord, ...] = ()
    series: tuple[DrivenPhase | DrivenInterval, ...] = ()
    observations: Observations = field(default_factory=Observations)
    lag: tuple[LagSample, ...] = ()
    loops: tuple[LoopRecord, ...] = ()
    limits: Annotated[SteadyLimits, Field(exclude=True)] = field(
        default=SteadyLimits(), compare=False
    )

    @property
    def facts(self) -> InstanceFacts:
        """The facts of its server's instance; none where it was not recorded."""
        server = (each for each in self.instances if each.role in MEASURED)
        return next((each.facts for each in server), InstanceFacts())

    @property
    def measured(self) -> dict[str, float]:
        """The measurements by name, after the role of a server beside: ``source.settled``."""
        return {
            each.name if each.role in MEASURED else f"{each.role}.{each.name}": each.value
            for each in self.measurements
        }


@exact
@dataclass(frozen=True)
class StoredRun:
    """A run with everything stored about it, as the analysis reads it."""

    run: RunRecord
    treatments: tuple[TreatmentRecord, ...]
    trials: tuple[TrialRecord, ...]
    attempts: tuple[StoredAttempt, ...]

    def last_attempts(self) -> dict[str, StoredAttempt]:
        """Return the newest ended attempt (finished or failed) of each trial, by trial id."""
        last: dict[str, StoredAttempt] = {}
        for attempt in self.attempts:
            if attempt.outcome in ("finished", "failed"):
                known = last.get(attempt.trial_id)
                if known is None or attempt.number > known.number:
                    last[attempt.trial_id] = attempt
        return last


@dataclass(frozen=True)
class RunSummary:
    """A run in one line; trials count as finished, else failed, by any attempt, else as open."""

    id: str
    name: str
    title: str
    scale: str
    created_utc: str
    origin: Origin
    digest: str
    seed: int
    blocks: int
    host_id: str
    finished: int
    failed: int
    open: int
