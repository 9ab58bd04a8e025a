"""The checked form of a workload: what it offers to vary, its data, phases and metrics.

A definition is plain data (TOML). ``checked`` turns it into typed values or raises InvalidInput
with every mistake. Nothing here knows a particular workload, engine or server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from millrace.errors import InvalidInput, Mistake

Level = str | int | float | bool
_Entry = TypeVar("_Entry")
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]

# Free levels become a part of statements as they are.
_FREE_LEVEL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
FREE_LEVEL = "a letter, then letters, digits and _, at most 64 in all"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class WorkloadFactor(_Part):
    """Something an experiment may vary. ``free`` takes any name, or any value of the default's
    type, because only the server knows which exist (``engine``); names that differ only in case
    are the same there. Otherwise ``choices`` are all there are."""

    default: Level
    choices: list[Level] = []
    free: bool = False

    @model_validator(mode="after")
    def _free_or_choices(self) -> Self:
        if self.free == bool(self.choices):
            raise ValueError("a factor is either free or has choices")
        if self.choices and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is not among the choices")
        if not self.takes(self.default):
            raise ValueError(f"the default {self.default!r} is not {FREE_LEVEL}")
        return self

    def takes(self, level: Level) -> bool:
        """Whether ``level``, of the default's type, may be asked for."""
        if not self.free:
            return level in self.choices
        return not isinstance(level, str) or _FREE_LEVEL.fullmatch(level) is not None


class Parameter(_Part):
    """A value an experiment sets once for all its trials; without ``default`` it must be set."""

    kind: Literal["integer", "number", "text"]
    default: int | float | str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None

    def complaint(self, value: object) -> str | None:
        """What an acceptable value is, when ``value`` is not one; None when it is."""
        types: dict[str, tuple[type, ...]] = {
            "integer": (int,), "number": (int, float), "text": (str,),
        }  # fmt: skip
        article = "an" if self.kind == "integer" else "a"
        wanted = "text in quotes" if self.kind == "text" else f"{article} {self.kind}"
        if self.minimum is not None:
            wanted += f" from {self.minimum}"
        if self.maximum is not None:
            wanted += f" to {self.maximum}"
        if isinstance(value, bool) or not isinstance(value, types[self.kind]):
            return wanted
        if isinstance(value, float) and not isfinite(value):
            return wanted
        if isinstance(value, int | float) and (
            (self.minimum is not None and value < self.minimum)
            or (self.maximum is not None and value > self.maximum)
        ):
            return wanted
        return None


class DataSet(_Part):
    """The data: ``set`` names it to the load generator. ``row_bytes`` is a row's mean length as
    sent; ``table_row_bytes`` what it takes in the table, by engine, with ``default`` for others.
    ``rows_per_s`` is a rough rate for estimates before anything was measured on a host."""

    set: str
    table: str
    row_bytes: int = Field(gt=0)
    table_row_bytes: dict[str, int]
    rows_per_s: int = Field(gt=0)
    columns: list[str] = Field(min_length=1)
    binary_columns: list[str] = []

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if "default" not in self.table_row_bytes:
            raise ValueError("table_row_bytes lacks 'default'")
        if unknown := set(self.binary_columns) - set(self.columns):
            raise ValueError(f"binary_columns that are no columns: {', '.join(sorted(unknown))}")
        return self

    def table_bytes(self, rows: int, engine: str) -> int:
        """Roughly what a table of ``rows`` rows takes on disk in ``engine``."""
        return rows * _of_level(self.table_row_bytes, engine)


class Phase(_Part):
    """A timed step. ``sql`` statements are separated by ``;`` and may hold ``{factor}`` or
    ``{parameter}``; ``by`` names a factor whose level chooses the statements."""

    name: Name
    kind: Literal["sql", "load_data", "count", "checksum"]
    by: str | None = None
    sql: str | dict[str, str] | None = None

    @model_validator(mode="after")
    def _sql_fits_kind(self) -> Self:
        if (self.kind == "sql") != (self.sql is not None):
            raise ValueError("phases of kind 'sql', and only these, have sql")
        if isinstance(self.sql, dict) != (self.by is not None):
            raise ValueError("sql is a table of levels exactly when 'by' names a factor")
        if isinstance(self.sql, dict) and "default" not in self.sql:
            raise ValueError("sql lacks 'default', for levels it does not name")
        return self

    def statements(self, values: Mapping[str, Level]) -> tuple[str, ...]:
        """The phase's statements at one treatment: ``values`` are its levels and the parameters."""
        if self.sql is None:
            return ()
        if isinstance(self.sql, str):
            text = self.sql
        else:
            assert self.by is not None
            text = _of_level(self.sql, str(values[self.by]))
        # Split before anything is filled in, so that no value can add a statement.
        return tuple(
            re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), statement.strip())
            for statement in text.split(";")
            if statement.strip()
        )

    def _placeholders(self) -> Iterator[str]:
        texts = self.sql.values() if isinstance(self.sql, dict) else [self.sql or ""]
        for text in texts:
            yield from re.findall(r"\{(\w+)\}", text)


def _of_level(by_level: Mapping[str, _Entry], level: str) -> _Entry:
    """The entry for a level, whose case does not matter, or the one named ``default``."""
    caseless = {name.casefold(): entry for name, entry in by_level.items()}
    return caseless.get(level.casefold(), by_level["default"])


class Metric(_Part):
    """A figure to compare: the sum of ``numerator`` measurements over that of ``denominator``."""

    title: str
    unit: str
    direction: Literal["higher", "lower"]
    numerator: list[str] = Field(min_length=1)
    denominator: list[str] = []
    primary: bool = False


class Workload(_Part):
    """A workload, checked; every reference in it exists and exactly one metric is primary."""

    name: str
    title: str
    version: int = Field(ge=1)
    roles: list[Name] = Field(min_length=1)
    factors: dict[str, WorkloadFactor] = {}
    parameters: dict[str, Parameter] = {}
    data: DataSet
    phases: list[Phase] = Field(min_length=1)
    metrics: dict[str, Metric]

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        known = {*self.factors, *self.parameters}
        for phase in self.phases:
            if phase.by is not None and phase.by not in self.factors:
                raise ValueError(f"phase {phase.name}: there is no factor {phase.by!r}")
            if unknown := set(phase._placeholders()) - known:
                raise ValueError(f"phase {phase.name}: unknown {{{unknown.pop()}}}")
        timed = {f"{phase.name}_duration_s" for phase in self.phases}
        for name, metric in self.metrics.items():
            for measurement in (*metric.numerator, *metric.denominator):
                if measurement.endswith("_duration_s") and measurement not in timed:
                    raise ValueError(f"metric {name}: no phase yields {measurement}")
        if sum(metric.primary for metric in self.metrics.values()) != 1:
            raise ValueError("exactly one metric is primary")
        return self

    def data_bytes(self, parameters: Mapping[str, Any]) -> int:
        """Length of the data as sent, which memory and redo sizes scale with."""
        return int(parameters["rows"]) * self.data.row_bytes


def checked(definition: Mapping[str, Any]) -> Workload:
    """The typed form of a definition; InvalidInput with every mistake it has."""
    try:
        return Workload.model_validate(dict(definition))
    except ValidationError as error:
        mistakes = [
            Mistake(
                where=".".join(str(part) for part in found["loc"]) or "the workload",
                message=found["msg"].removeprefix("Value error, "),
            )
            for found in error.errors(include_url=False)
        ]
        raise InvalidInput(f"workload {definition.get('name', '?')}", mistakes) from None
