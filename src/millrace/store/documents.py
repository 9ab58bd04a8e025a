"""Models of the JSON documents inside records, checked where a record comes from a store or a file.

Reports and analyses read these documents by key. A model holds the keys that they read, with their
types; other keys may have any value. What a model refuses raises pydantic's ValidationError, a
ValueError.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from millrace.levels import Level

MOST_BLOCKS = 1_000_000
MOST_BLOCKS_OF_A_VERDICT = 10_000
_MOST_CLIENTS = 1_000_000


_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z")


def instant(text: str) -> str:
    """Return a text that is an instant in UTC; raise ValueError for any other."""
    if _INSTANT.fullmatch(text) is None:  # other forms of ISO 8601 do not sort as text
        raise ValueError("not an instant in UTC such as 2026-01-31T23:59:59Z")
    datetime.fromisoformat(text)
    return text


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is expected")
    return value


Instant = Annotated[str, Field(min_length=20, max_length=32), AfterValidator(instant)]
Number = Annotated[int | float, BeforeValidator(_number)]
Count = Annotated[int | float, BeforeValidator(_number), Field(ge=0)]
Positive = Annotated[int | float, BeforeValidator(_number), Field(gt=0)]


class Document(BaseModel):
    """Keys that are read; strings are no numbers here, and there is no other leniency."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class _Whole(Document):
    """A document that becomes a record as it is, so that it has no other keys."""

    model_config = ConfigDict(extra="forbid")


# A run's ``spec``.


class _Metric(Document):
    title: str
    unit: str
    direction: Literal["higher", "lower"]
    numerator: list[str] = []
    denominator: list[str] = []
    primary: bool = False
    percentile: Annotated[Number, Field(gt=0, le=100)] | None = None
    of: Literal["transaction", "statement"] | None = None
    time: Literal["service", "response"] | None = None

    @model_validator(mode="after")
    def _of_something(self) -> _Metric:
        if self.percentile is not None and (self.of is None or self.time is None):
            raise ValueError("a percentile needs the keys of and time")
        return self


class _Table(Document):
    name: str | None = None
    count: int | Annotated[str, Field(pattern=r"^(\d{1,9}|\{\w{1,64}\})$")] | None = None


class _Phase(Document):
    name: str
    kind: str


class _Workload(Document):
    name: str
    phases: list[_Phase] = []
    metrics: Annotated[dict[str, _Metric], Field(min_length=1)]
    tables: dict[str, _Table] | None = None


class _Configuration(Document):
    extends: str | None = None


class _Factor(Document):
    name: str
    levels: Annotated[list[Level], Field(min_length=1)]
    aliases: dict[str, Level] = {}


class _Compare(Document):
    factor: str
    base: Level


class _Design(_Whole):
    kind: Literal["fixed", "sequential"]
    blocks: Annotated[int, Field(ge=0, le=MOST_BLOCKS)]
    max_time_s: Count | None = None
    side_by_side: bool = False


class _Extension(Document):
    blocks: Annotated[int, Field(ge=0, le=MOST_BLOCKS)]
    utc: Instant
    command: str = ""
    design: _Design | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_a_design_or_no_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "design" in value and value["design"] is None:
            raise ValueError("design is null")
        return value


class _Aligned(Document):
    name: str
    treatment: str


class _Tested(Document):
    run: str
    base: str
    candidate: str
    aligned: list[_Aligned]
    left_out: list[str]


class _Calibrates(_Whole):
    digest: str
    name: str
    factor: str
    base: Level
    blocks: Annotated[int, Field(ge=2, le=MOST_BLOCKS_OF_A_VERDICT)]
    margin: Annotated[Number, Field(gt=0, lt=1)]


class _Bisects(_Whole):
    members: Annotated[list[str], Field(min_length=2, max_length=10_000)]
    workload: str
    confidence: Annotated[Number, Field(gt=0, lt=1)]
    margin: Annotated[Number, Field(gt=0, lt=1)]


class Spec(Document):
    """The expanded experiment of a run, see ``records.RunRecord``."""

    workload: _Workload
    factors: Annotated[list[_Factor], Field(min_length=1)]
    compare: _Compare
    configurations: dict[str, _Configuration] = {}
    parameters: dict[str, Any] = {}
    # It names a file of the package.
    published: Annotated[str, Field(pattern=r"^\w[\w-]{0,63}$")] | None = None
    design: _Design | None = None
    extensions: list[_Extension] | None = None
    tested: _Tested | None = None
    confirms: str | None = None
    calibrates: _Calibrates | None = None
    bisects: _Bisects | None = None

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Spec:
        names = [factor.name for factor in self.factors]
        if self.compare.factor not in names:
            raise ValueError(f"compare.factor {self.compare.factor!r} is no factor")
        if len(set(names)) < len(names):
            raise ValueError("a factor is there twice")
        for name in self.configurations:
            self._layers(name)
        return self

    def _layers(self, name: str) -> None:
        met: set[str] = set()
        below: str | None = name
        while below is not None:
            if below not in self.configurations or below in met:
                raise ValueError(f"configuration {name!r} extends none that it can extend")
            met.add(below)
            below = self.configurations[below].extends

    @property
    def factor_names(self) -> list[str]:
        """The factors' names, in the experiment's order."""
        return [factor.name for factor in self.factors]

    def whole_numbers(self) -> dict[str, int]:
        """Return parameters and levels that are whole numbers, each with its largest."""
        counts = [table.count for table in (self.workload.tables or {}).values()]
        named = {count[1:-1]: _MOST_CLIENTS for count in counts if isinstance(count, str)}
        return {
            **named, "clients": _MOST_CLIENTS, "load_threads": _MOST_CLIENTS,
            "operations": 2**63, "rows": 2**63,
        }  # fmt: skip


# Facts of an instance and of the host, which the runner recorded.


class _CpuWakeup(Document):
    reason: str
    kept_awake_by: dict[str, Any] | None = None
    shared_cpu: int | None = None
    polled: bool | None = None
    on_cpus: list[int] | None = None


class _Together(Document):
    measured_from_s: Number
    measured_to_s: Number

    @model_validator(mode="after")
    def _lasts(self) -> _Together:
        if self.measured_to_s <= self.measured_from_s:
            raise ValueError("ends before it begins")
        return self


class _Statistics(Document):
    age_s: Number
    rows: Count


class _ServerState(Document):
    begin: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    statistics: dict[str, _Statistics] | None = None


class _HostTime(Document):
    measured_s: Number
    suspended_s: Number
    clock_step_s: Number
    steal_share: Number | None


class InstanceFacts(Document):
    """Facts of a server's instance in a trial."""

    limits: list[str] | None = None
    load_method: str | None = None
    load_method_reason: str | None = None
    residency: str | None = None
    residency_why: str | None = None
    template_not_kept: str | None = None
    unsettled: list[str] | None = None
    cpu_wakeup: _CpuWakeup | None = None
    side_by_side: _Together | None = None
    state: _ServerState | None = None
    host_time: _HostTime | None = None


class _Artefact(Document):
    coordinate: str
    sha256: str | None = None


class Build(Document):
    """The provenance of a server's build."""

    program_sha256: str | None = None
    build_id: str | None = None
    artefacts: list[_Artefact] | None = None


class _Finding(Document):
    check: str
    status: str
    observed: str
    why: str
    remedy: str | None = None


class HostFacts(Document):
    """Facts of a host, with the findings of ``millrace doctor``."""

    findings: list[_Finding] | None = None
