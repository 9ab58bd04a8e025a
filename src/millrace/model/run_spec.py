"""The stored specification of a run: its expanded experiment, a JSON document (``runs.spec``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from millrace.levels import Level
from millrace.model.documents import Count, Document, Instant, Items, Number, OpenDocument
from millrace.model.measurements import Direction
from millrace.model.phases import MeasuredPhases, measured_phases
from millrace.model.roles import SERVER

FEWEST_BLOCKS = 3  # for a verdict: the spread of fewer blocks is not known
MOST_BLOCKS = 1_000_000
MOST_BLOCKS_OF_A_VERDICT = 10_000
BLOCKS_IN_TIME = 100  # the maximum for a run that a time limit ends, not a number of blocks
_MOST_CLIENTS = 1_000_000
LEAST_LOG_SD, MOST_LOG_SD = 1e-9, 100.0  # squares and logarithms in this range do not overflow
_MOST_FREEDOM = 1e9
MOST_EARLIER = 20_000

Of = Literal["transaction", "statement", "before", "during", "after", "background"]
Time = Literal["service", "response"]


class MetricDefinition(Document):
    """A metric by which trials are compared.

    It is the sum of the measurements ``numerator`` divided by that of ``denominator``, or a
    ``percentile`` of latencies.
    """

    title: str
    unit: str
    direction: Direction
    numerator: Items[str] = ()
    denominator: Items[str] = ()
    primary: bool = False
    percentile: Annotated[Number, Field(gt=0, le=100)] | None = None
    of: Of | None = None
    time: Time | None = None

    @model_validator(mode="after")
    def _of_something(self) -> MetricDefinition:
        if self.percentile is not None and (self.of is None or self.time is None):
            raise ValueError("a percentile needs the keys 'of' and 'time'")
        return self


class TableDefinition(OpenDocument):
    """A set of tables; ``count`` is the number of tables, or ``{parameter}``."""

    name: str | None = None
    count: int | Annotated[str, Field(pattern=r"^(\d{1,9}|\{\w{1,64}\})$")] | None = None


class PhaseDefinition(OpenDocument):
    """A timed step of the workload."""

    name: str
    kind: str


class WorkloadDefinition(OpenDocument):
    """A workload's definition; all other keys are read only by ``millrace.workloads``."""

    name: str
    roles: Items[str] = (SERVER,)
    phases: Items[PhaseDefinition] = ()
    metrics: Annotated[Mapping[str, MetricDefinition], Field(min_length=1)]
    tables: Mapping[str, TableDefinition] | None = None

    @property
    def measured(self) -> MeasuredPhases:
        """The measured phases."""
        primary = [metric for metric in self.metrics.values() if metric.primary]
        names = [name for each in primary for name in (*each.numerator, *each.denominator)]
        return measured_phases([(phase.name, phase.kind) for phase in self.phases], names)

    @property
    def texts_of_statements(self) -> Mapping[str, str]:
        """The SQL of statements by name, without statements whose SQL depends on a factor."""
        written = (self.model_extra or {}).get("statements")
        each = written.items() if isinstance(written, Mapping) else ()
        texts = {name: of.get("sql") for name, of in each if isinstance(of, Mapping)}
        return {name: text for name, text in texts.items() if isinstance(text, str)}


class ConfigurationDefinition(OpenDocument):
    """A configuration's definition; its options are read only by ``millrace.servers``."""

    extends: str | None = None


def layer_names(
    configurations: Mapping[str, ConfigurationDefinition], name: str
) -> Iterator[str | None]:
    """Yield the names of a configuration's layers; a last None marks a cycle or unknown name."""
    met: set[str] = set()
    below: str | None = name
    while below is not None:
        if below not in configurations or below in met:
            yield None
            return
        met.add(below)
        yield below
        below = configurations[below].extends


class FactorSpec(Document):
    """A factor with its levels; ``aliases`` maps an alias to the level that it stands for."""

    name: str
    levels: Annotated[Items[Level], Field(min_length=1)]
    aliases: Mapping[str, Level] = {}


class CompareSpec(Document):
    """The compared factor and its base level."""

    factor: str
    base: Level


class Design(Document):
    """The rule for the number of blocks of a run.

    A ``fixed`` run has exactly ``blocks``. A ``sequential`` run ends when each comparison has its
    verdict, after at most ``blocks`` and ``max_time_s`` of trials. With ``slices``, the servers of
    a group take turns in slices; otherwise whole trials are interleaved. ``left_out_tests`` are
    tests of the experiment that did not fit into the time limit.
    """

    kind: Literal["fixed", "sequential"]
    blocks: Annotated[int, Field(ge=0, le=MOST_BLOCKS)]
    max_time_s: Count | None = None
    slices: bool = False
    left_out_tests: Items[str] = ()


class Extension(Document):
    """An extension of a run; ``blocks`` is its new total number of blocks."""

    blocks: Annotated[int, Field(ge=0, le=MOST_BLOCKS)]
    utc: Instant
    command: str = ""
    design: Design


class Aligned(Document):
    """The treatment with the candidate's levels, but the settings ``name`` of the base."""

    name: str
    treatment: str


class Ablates(Document):
    """An ablation of likely causes of the difference between two treatments of ``run``.

    ``base``, ``candidate``: the ids of these treatments in the ablation's own run.
    ``aligned``: the treatments with settings of the base; the one with all settings is the last.
    ``left_out``: the likely causes that are not tested, each with the reason.
    """

    run: str
    base: str
    candidate: str
    aligned: Items[Aligned]
    left_out: Items[str]

    @property
    def treatments(self) -> dict[str, str]:
        """The ids of aligned treatments by the names of the settings."""
        return {each.name: each.treatment for each in self.aligned}


class Calibrates(Document):
    """The calibrated experiment; ``blocks`` is the maximum number of blocks for a verdict."""

    digest: str
    name: str
    factor: str
    base: Level
    blocks: Annotated[int, Field(ge=2, le=MOST_BLOCKS_OF_A_VERDICT)]
    margin: Annotated[Number, Field(gt=0, lt=1)]


class Bisects(Document):
    """A search in ``members``, from good to bad, for a change larger than ``margin`` (a fraction).

    The change is one of counted instructions, or of the workload's primary metric if ``by`` is
    None.
    """

    members: Annotated[Items[str], Field(min_length=2, max_length=10_000)]
    workload: str
    confidence: Annotated[Number, Field(gt=0, lt=1)]
    margin: Annotated[Number, Field(gt=0, lt=1)]
    by: Literal["instructions"] | None = None


class EarlierNoise(Document):
    """The noise of a metric in one group of an earlier run: a prior for this run's intervals.

    ``fixed_factors`` are the levels that all treatments of the group share. ``log_sd`` is the
    standard deviation of the log-ratios of two treatments, from the residuals after effects of
    blocks and treatments.
    """

    run: str
    metric: str
    fixed_factors: Mapping[str, Level]
    in_slices: bool
    log_sd: Annotated[Number, Field(ge=LEAST_LOG_SD, le=MOST_LOG_SD)]
    degrees_of_freedom: Annotated[Number, Field(ge=1, le=_MOST_FREEDOM)]


class CampaignPart(Document):
    """The purpose of a run that a campaign created: at most one field is set."""

    tested: Ablates | None = None
    """The ablation that the run executes."""
    confirms: str | None = None
    """The id of the history's change point that the run confirms."""
    calibrates: Calibrates | None = None
    bisects: Bisects | None = None
    counts: Literal["instructions"] | None = None
    """What the run counts; it measures nothing else."""


class RunSpec(CampaignPart):
    """The expanded experiment of a run.

    ``extensions``: later extensions, the oldest first; None without any.
    ``source``: the experiment's file, or the run from which it was derived.
    ``collectors``: the names of the collectors that sampled trials.
    ``published``: the published study with which a report compares the results.
    ``earlier_noise``: the noise of this host's runs of the experiment when this run began.
    """

    workload: WorkloadDefinition
    factors: Annotated[Items[FactorSpec], Field(min_length=1)]
    compare: CompareSpec
    configurations: Mapping[str, ConfigurationDefinition] = {}
    parameters: Mapping[str, Level] = {}
    # The name of a file of the package.
    published: Annotated[str, Field(pattern=r"^\w[\w-]{0,63}$")] | None = None
    source: str = ""
    collectors: Items[str] | None = None
    design: Design
    extensions: Items[Extension] | None = None
    earlier_noise: Annotated[Items[EarlierNoise], Field(max_length=MOST_EARLIER)] = ()

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> RunSpec:
        names = self.factor_names
        if self.compare.factor not in names:
            raise ValueError(f"compare.factor {self.compare.factor!r} is not a factor")
        if len(set(names)) < len(names):
            raise ValueError("a factor is listed twice")
        for name in self.configurations:
            for below in layer_names(self.configurations, name):
                if below is None:
                    said = "extends an unknown configuration, or itself"
                    raise ValueError(f"configuration {name!r} {said}")
        return self

    def layers(self, name: str) -> tuple[ConfigurationDefinition, ...]:
        """Return a configuration and the configurations that it extends, the lowest last."""
        names = layer_names(self.configurations, name)
        return tuple(self.configurations[below] for below in names if below is not None)

    @property
    def factor_names(self) -> list[str]:
        """The factors' names, in the experiment's order."""
        return [factor.name for factor in self.factors]

    @property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """The factors' levels, by name, in the experiment's order."""
        return {factor.name: factor.levels for factor in self.factors}

    def chosen(self, levels: Mapping[str, Level]) -> dict[str, Level]:
        """Return the parameters, overridden by a treatment's levels."""
        return {**self.parameters, **levels}

    @property
    def operations(self) -> int:
        """The number of transactions of each trial; 0 if trials end by time."""
        return int(self.parameters.get("operations") or 0)

    def ends_by_operations(self, levels: Mapping[str, Level]) -> bool:
        """Return whether a treatment's trials end after a number of transactions."""
        values = self.definition_of_test(levels).get("values")
        return bool(self.operations or (isinstance(values, dict) and values.get("operations")))

    def definition_of_test(self, levels: Mapping[str, Level]) -> dict[str, Any]:
        """Return the definition of a treatment's test; empty if the workload has no tests."""
        workload = self.workload.to_json()
        test = str(self.chosen(levels).get("test", workload.get("default_test")))
        tests = workload.get("tests")
        definition = tests.get(test) if isinstance(tests, dict) else None
        return definition if isinstance(definition, dict) else {}

    def whole_numbers(self) -> dict[str, int]:
        """Return the largest value of each parameter and factor that must be a whole number."""
        counts = [table.count for table in (self.workload.tables or {}).values()]
        named = {count[1:-1]: _MOST_CLIENTS for count in counts if isinstance(count, str)}
        return {
            **named, "clients": _MOST_CLIENTS, "load_threads": _MOST_CLIENTS,
            "operations": 2**63, "rows": 2**63,
        }  # fmt: skip
