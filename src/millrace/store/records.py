"""Define the records of the results store: runs, treatments, trials, attempts and their results.

Units are in the names (``_s``, ``_bytes``); times are UTC ISO 8601 text with ``Z``. Derived values
such as rates, ratios and verdicts are not stored: ``millrace.analysis`` computes them.
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
"""The origin of a run or a history's point: measured here, or imported from a file."""

ROUND_FAILED = "pair_failed"
"""The failed step of a trial that is left out because another trial of its round failed."""

_ENVIRONMENT = (
    "kernel.release", "libc", "memory.total_bytes", "frequency.governor", "frequency.turbo",
    "huge_pages.transparent", "filesystem.mount_point", "filesystem.type", "filesystem.source",
    "limits.cpus", "limits.memory_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class HostRecord:
    """The facts of a host, with doctor's findings; ``id`` is a digest of the identifying facts."""

    id: str
    facts: HostFacts

    def environment(self) -> dict[str, object]:
        """Return the facts, by name, that a reboot or setting changes; trials need equal ones."""
        return {
            path.replace(".", " ").replace("_", " "): attrgetter(path)(self.facts)
            for path in _ENVIRONMENT
        }


@dataclass(frozen=True)
class RunRecord:
    """One run of an experiment (``spec``, and its TOML text) on one host.

    ``versions`` has the keys ``millrace``, ``load_generator`` and ``data`` (the data set's
    definition). ``blocks`` is the number of blocks with trials: all planned blocks of a fixed run,
    otherwise the started blocks. ``origin`` is ``imported`` for a run from a file, which nobody
    verified here; the store sets it, never the file.
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
        """The rule for the number of blocks: that of the last extension, if any."""
        return self.spec.extensions[-1].design if self.spec.extensions else self.spec.design

    @property
    def phases(self) -> MeasuredPhases:
        """The measured phases of the workload."""
        return self.spec.workload.measured

    def environment_changes(self, host: HostRecord, versions: Mapping[str, str]) -> Iterator[str]:
        """Yield a text for each difference between the environment at the run's start and now."""
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
    """A combination of levels; ``position`` is its place in the experiment's order.

    ``resolved`` has the levels with aliases replaced.
    """

    id: str
    position: int
    levels: Mapping[str, Level]
    resolved: Mapping[str, Level]


@dataclass(frozen=True)
class TrialRecord:
    """A planned run of a treatment in a block (from 0), at ``position`` in the order.

    Profiled and counted trials have separate blocks. Verdicts use neither these nor A/A trials
    (``aa``: one more trial of the base).
    """

    id: str
    treatment_id: str
    block: int
    position: int
    purpose: Purpose = "measure"


@dataclass(frozen=True)
class Owner:
    """The process that runs an attempt, identified by boot, pid and start time (/proc/PID/stat)."""

    host_id: str
    boot_id: str
    pid: int
    started_ticks: int


@dataclass(frozen=True)
class StepRecord:
    """A step of an attempt; ``started_s`` counts from the attempt's start."""

    position: int
    name: str
    started_s: float
    duration_s: float
    outcome: Outcome


@dataclass(frozen=True)
class ServerRecord:
    """A server as observed in a trial, with the version it reports and its provenance (``build``).

    ``host_variables`` are the variables (paths, ports) that differ on every start; comparisons of
    settings ignore these variables.
    """

    name: str
    family: str
    version: str
    version_reported: str
    build: BuildFacts
    host_variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptionRecord:
    """A requested option; ``left_out`` is the reason if it was not applied, else None."""

    name: str
    value: str | None
    layer: str
    optional: bool
    left_out: str | None = None


@dataclass(frozen=True)
class InstanceRecord:
    """A server in an attempt, with its role and its requested and effective settings."""

    role: str
    server: ServerRecord
    configuration: str
    options: tuple[OptionRecord, ...]
    effective: Mapping[str, str]
    facts: InstanceFacts = field(default_factory=InstanceFacts)


@dataclass(frozen=True)
class MeasurementRecord:
    """A measured value of the server ``role``; its name ends with its unit (``duration_s``)."""

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
    ``kind`` is ``service`` (time since the request was sent) or ``response`` (time since it was
    scheduled). ``encoded`` is an HdrHistogram V2 of nanoseconds in base64
    (``millrace.stats.histogram`` decodes it). The load generator counts ``count`` and ``sum_s``
    independently of the histogram.
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

    ``failed_step`` and ``reason`` are set if ``outcome`` is not ``finished``; ``log_tail`` is the
    end of the server's log. ``artefacts`` are files to store; the store also writes one file with
    the ``histograms``, and one with the ``observations`` of each role (plain data, see
    millrace.collect). ``is_transient`` marks a failure of the host that a later attempt may not
    have; it is not stored.
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
    """The durations of the phase with clients; None for a duration that was not recorded."""

    warmup_s: Count | None = None
    duration_s: Count | None = None
    maintenance: _Maintenance | None = None


class DrivenInterval(Excerpt):
    """One second of load that ended at ``t_s``; ``part`` is the warm-up or the measured part."""

    part: str | None = None
    t_s: Count
    duration_s: Positive
    transactions: Count
    p50_us: Count | None = None


class LagSample(Document):
    """A replica at time ``t_s``; ``lag_s`` is None without a heartbeat."""

    t_s: Count
    written_bytes: int
    received_bytes: int
    applied_bytes: int
    lag_s: Count | None
    reported_lag_s: Number | None


class LoopOperation(Document):
    """The executions of one transaction in a loop; ``encoded`` is a histogram of service times."""

    name: str
    count: Whole
    sum_s: Count
    encoded: str


class LoopRecord(Document):
    """A loop of one trial, by its number from 1: ``trial`` writes it, ``analysis`` reads it.

    ``apparent_bytes`` (file lengths) and ``allocated_bytes`` (without holes) are the size of the
    data directory at the loop's end; None for an attached server. ``restarted_cold``: millrace was
    stopped or killed, and the server was restarted on its files before this loop.
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
    """An attempt that was read from the store; ``outcome`` is None if it runs or its process died.

    ``series`` has the load generator's events by second (docs/load-spec.md), empty without clients.
    ``observations`` are read only on request. ``lag`` has samples of the replica, if there is one;
    ``loops`` has the loops if there were several. ``limits`` of a steady state are not stored: they
    come from this version's knowledge of the server family.
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
        """The facts of the measured server's instance; empty if they were not recorded."""
        server = (each for each in self.instances if each.role in MEASURED)
        return next((each.facts for each in server), InstanceFacts())

    @property
    def measured(self) -> dict[str, float]:
        """The values by name, with the role of another server as prefix: ``source.settled``."""
        return {
            each.name if each.role in MEASURED else f"{each.role}.{each.name}": each.value
            for each in self.measurements
        }


@exact
@dataclass(frozen=True)
class StoredRun:
    """A run with all its treatments, trials and attempts."""

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
    """A run in one line, with its numbers of trials.

    A trial is ``finished`` if any attempt finished, else ``failed`` if any failed, else ``open``.
    """

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
