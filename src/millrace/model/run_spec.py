"""The expanded experiment of a run, one JSON document (``runs.spec``) with these keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from millrace.levels import Level
from millrace.model.documents import Count, Document, Instant, Items, Number, OpenDocument
from millrace.model.measurements import Direction
from millrace.model.phases import MeasuredPhases, measured_phases
from millrace.model.roles import SERVER

FEWEST_BLOCKS = 3  # of a verdict: fewer do not determine their own spread
MOST_BLOCKS = 1_000_000
MOST_BLOCKS_OF_A_VERDICT = 10_000
BLOCKS_IN_TIME = 100  # at most, where a limit of time is to end a run and not a number of blocks
_MOST_CLIENTS = 1_000_000
LEAST_LOG_SD, MOST_LOG_SD = 1e-9, 100.0  # whose squares and logarithms are ordinary numbers
_MOST_FREEDOM = 1e9
MOST_EARLIER = 20_000

Of = Literal["transaction", "statement", "before", "during", "after", "background"]
Time = Literal["service", "response"]


class MetricDefinition(Document):
    """A figure that a workload's trials are compared by: the sum of the measurements ``numerator``
    over that of ``denominator``, or a ``percentile`` of latencies."""

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
            raise ValueError("a percentile needs the keys of and time")
        return self


class TableDefinition(OpenDocument):
    """A set of tables: ``count`` is their number, or ``{parameter}``."""

    name: str | None = None
    count: int | Annotated[str, Field(pattern=r"^(\d{1,9}|\{\w{1,64}\})$")] | None = None


class PhaseDefinition(OpenDocument):
    """A timed step of the workload."""

    name: str
    kind: str


class WorkloadDefinition(OpenDocument):
    """A workload's definition. What is not named here is for millrace.workloads alone."""

    name: str
    roles: Items[str] = (SERVER,)
    phases: Items[PhaseDefinition] = ()
    metrics: Annotated[Mapping[str, MetricDefinition], Field(min_length=1)]
    tables: Mapping[str, TableDefinition] | None = None

    @property
    def measured(self) -> MeasuredPhases:
        """The phases that figures are about."""
        primary = [metric for metric in self.metrics.values() if metric.primary]
        names = [name for each in primary for name in (*each.numerator, *each.denominator)]
        return measured_phases([(phase.name, phase.kind) for phase in self.phases], names)

    @property
    def texts_of_statements(self) -> Mapping[str, str]:
        """The text of each statement that has one, by its name."""
        written = (self.model_extra or {}).get("statements")
        each = written.items() if isinstance(written, Mapping) else ()
        texts = {name: of.get("sql") for name, of in each if isinstance(of, Mapping)}
        return {name: text for name, text in texts.items() if isinstance(text, str)}


class ConfigurationDefinition(OpenDocument):
    """A configuration's definition; its options are for millrace.servers alone."""

    extends: str | None = None


def layer_names(
    configurations: Mapping[str, ConfigurationDefinition], name: str
) -> Iterator[str | None]:
    """Yield the names of a configuration's layers, then None where they do not end."""
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
    """A factor with its levels, and what levels stand for that are aliases."""

    name: str
    levels: Annotated[Items[Level], Field(min_length=1)]
    aliases: Mapping[str, Level] = {}


class CompareSpec(Document):
    """The compared factor, and the level that is the base."""

    factor: str
    base: Level


class Design(Document):
    """The rule for the number of blocks of a run.

    A ``fixed`` run has ``blocks``. A ``sequential`` one has as many as it takes to decide each
    comparison, but no more than ``blocks`` and than fit into ``max_time_s`` of trials. Trials take
    turns, or those of a group take turns in ``slices``. ``left_out_tests`` are tests of the
    experiment that did not fit into the limit of time.
    """

    kind: Literal["fixed", "sequential"]
    blocks: Annotated[int, Field(ge=0, le=MOST_BLOCKS)]
    max_time_s: Count | None = None
    slices: bool = False
    left_out_tests: Items[str] = ()


class Extension(Document):
    """More blocks for a run: ``blocks`` is the number from then on."""

    blocks: Annotated[int, Field(ge=0, le=MOST_BLOCKS)]
    utc: Instant
    command: str = ""
    design: Design


class Aligned(Document):
    """The treatment that is the candidate with the settings ``name`` as in the base."""

    name: str
    treatment: str


class Ablates(Document):
    """The likely causes that a run takes away.

    They may explain the difference between the treatments ``base`` and ``candidate`` of ``run``.
    Treatments are by their ids in the run that ablates; of ``aligned`` the one of all settings is
    the last. ``left_out`` are likely causes that are not taken away and why, a clause each.
    """

    run: str
    base: str
    candidate: str
    aligned: Items[Aligned]
    left_out: Items[str]

    @property
    def treatments(self) -> dict[str, str]:
        """The ids of aligned treatments, by the names of the settings."""
        return {each.name: each.treatment for each in self.aligned}


class Calibrates(Document):
    """The calibrated experiment, with its ``factor`` at ``base``; ``blocks`` limits a verdict."""

    digest: str
    name: str
    factor: str
    base: Level
    blocks: Annotated[int, Field(ge=2, le=MOST_BLOCKS_OF_A_VERDICT)]
    margin: Annotated[Number, Field(gt=0, lt=1)]


class Bisects(Document):
    """A search of ``members``, from good to bad, for a new level beyond ``margin`` (a fraction).

    The level is that of counted instructions, or of the workload's primary metric where ``by`` is
    None.
    """

    members: Annotated[Items[str], Field(min_length=2, max_length=10_000)]
    workload: str
    confidence: Annotated[Number, Field(gt=0, lt=1)]
    margin: Annotated[Number, Field(gt=0, lt=1)]
    by: Literal["instructions"] | None = None


class EarlierNoise(Document):
    """The noise of a metric in one group of an earlier run, a prior for this run's intervals.

    ``fixed_factors`` are the levels that all treatments of the group share. ``log_sd`` is the
    standard deviation of the log-ratios of two treatments, by what blocks and treatments leave
    unexplained.
    """

    run: str
    metric: str
    fixed_factors: Mapping[str, Level]
    in_slices: bool
    log_sd: Annotated[Number, Field(ge=LEAST_LOG_SD, le=MOST_LOG_SD)]
    degrees_of_freedom: Annotated[Number, Field(ge=1, le=_MOST_FREEDOM)]


class CampaignPart(Document):
    """The purpose for which a campaign made a run: at most one of these is set."""

    tested: Ablates | None = None
    """The likely causes of a difference in another run that it takes away."""
    confirms: str | None = None
    """The change point of a history that it measures again, by its id."""
    calibrates: Calibrates | None = None
    bisects: Bisects | None = None
    counts: Literal["instructions"] | None = None
    """What it counts, without measuring anything else."""


class RunSpec(CampaignPart):
    """The expanded experiment of a run.

    ``extensions`` are what was added later, the oldest first; None where nothing was. ``source`` is
    the experiment's file or run, ``collectors`` names what sampled its trials, ``published`` the
    study whose figures a report sets beside the user's own. ``earlier_noise`` is that of this
    host's runs of the same experiment when this one began.
    """

    workload: WorkloadDefinition
    factors: Annotated[Items[FactorSpec], Field(min_length=1)]
    compare: CompareSpec
    configurations: Mapping[str, ConfigurationDefinition] = {}
    parameters: Mapping[str, Level] = {}
    # It names a file of the package.
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
            raise ValueError("a factor is there twice")
        for name in self.configurations:
            for below in layer_names(self.configurations, name):
                if below is None:
                    raise ValueError(f"configuration {name!r} extends none that it can extend")
        return self

    def layers(self, name: str) -> tuple[ConfigurationDefinition, ...]:
        """Return a configuration and those that it extends, the lowest last."""
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
        """Return the parameters with a treatment's levels over them."""
        return {**self.parameters, **levels}

    @property
    def operations(self) -> int:
        """The number of transactions of each trial; 0 where trials ended by time."""
        return int(self.parameters.get("operations") or 0)

    def ends_by_operations(self, levels: Mapping[str, Level]) -> bool:
        """Return whether a treatment's trials end by a number, the run's or that of its test."""
        values = self.definition_of_test(levels).get("values")
        return bool(self.operations or (isinstance(values, dict) and values.get("operations")))

    def definition_of_test(self, levels: Mapping[str, Level]) -> dict[str, Any]:
        """Return the definition of a treatment's test; empty where the workload has none."""
        workload = self.workload.to_json()
        test = str(self.chosen(levels).get("test", workload.get("default_test")))
        tests = workload.get("tests")
        definition = tests.get(test) if isinstance(tests, dict) else None
        return definition if isinstance(definition, dict) else {}

    def whole_numbers(self) -> dict[str, int]:
        """Return parameters and levels that are whole numbers, each with its largest."""
        counts = [table.count for table in (self.workload.tables or {}).values()]
        named = {count[1:-1]: _MOST_CLIENTS for count in counts if isinstance(count, str)}
        return {
            **named, "clients": _MOST_CLIENTS, "load_threads": _MOST_CLIENTS,
            "operations": 2**63, "rows": 2**63,
        }  # fmt: skip
