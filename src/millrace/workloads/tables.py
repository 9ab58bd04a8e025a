"""Estimate the number and length of rows of a workload's tables, for memory and disk sizes."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator

from millrace.levels import Values
from millrace.workloads.schema_factors import Definition, DefinitionPart, Misplaced

Number = int | float | str | Definition

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
}


# LinkBench: mean number of rows per parent (a node and a type), and the share with any row.
_LINKS = 2.2
_WITH_LINKS = 0.4

_LOG_NORMAL_MEAN = 1.65  # mean / median of log-normal lengths with sigma 1

VALUE = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[\w$]+")
_NO_COLUMNS = {"table", "n", "engine", "table_options"}  # values that do not define columns
_OF_ANOTHER = re.compile(r"\b(?:LIKE|SELECT)\b", re.IGNORECASE)
_CHAR = re.compile(r"(\w+)\s+CHAR\s*\((\d+)\)", re.IGNORECASE)


@dataclass(frozen=True)
class Volume:
    """The approximate content of tables; ``data_bytes`` is the total length of values."""

    tables: int
    rows: int
    data_bytes: int
    index_entries: int


class TableSet(DefinitionPart):
    """A set of tables with the same columns; the load generator defines the format."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    rows: Number
    count: Number = 1
    create: str | dict[str, str]
    columns: list[dict[str, Any]]
    fan_out: dict[str, Any] | None = None
    once: bool = False
    after_load: list[str] | dict[str, Any] = Field(default=[])

    @model_validator(mode="after")
    def _makes_its_tables(self) -> Self:
        for text in self._creates():
            if "table" not in VALUE.findall(text) and self.name not in text:
                raise Misplaced("create", "it must contain {table}, the name of the table")
            if _shows_columns(text):
                self._check_columns(text)
        return self

    def _check_columns(self, create: str) -> None:
        words = set(_WORD.findall(create.casefold()))
        for at, column in enumerate(self.columns):
            name = column.get("name")
            if not isinstance(name, str) or column.get("hidden") or not _WORD.fullmatch(name):
                continue
            if name.casefold() not in words:
                raise Misplaced(f"columns[{at}].name", f"column {name!r} is missing in create")

    def volume(self, values: Values) -> Volume:
        tables = evaluated(self.count, values)
        rows = int(evaluated(self.rows, values) * tables * self._rows_per_parent(values))
        chars = (pair for text in self._creates() for pair in _CHAR.findall(text))
        widths = {name: int(width) for name, width in chars}
        row_bytes = sum(
            max(_column_bytes(column, rows, values), widths.get(str(column["name"]), 0)) + 1
            for column in self.columns
            if not column.get("hidden")
        )
        indexes = len(self.after_load) if isinstance(self.after_load, list) else 1
        return Volume(tables, rows, rows * row_bytes, rows * indexes)

    def _rows_per_parent(self, values: Values) -> float:
        if self.fan_out is None:
            return 1
        if self.fan_out.get("kind") == "links":
            return _WITH_LINKS if self.once else _LINKS
        low, high = (evaluated(self.fan_out[end], values) for end in ("low", "high"))
        return (low + high) / 2

    def names(self, values: Values) -> tuple[str, ...]:
        numbers = range(1, evaluated(self.count, values) + 1)
        return tuple(fill(self.name, {**values, "n": n}) for n in numbers)

    def _creates(self) -> list[str]:
        if isinstance(self.create, str):
            return [self.create]
        return [text for level, text in self.create.items() if level != "by"]


def _shows_columns(create: str) -> bool:
    """Return whether a CREATE TABLE lists its columns, not from a value or another table."""
    return set(VALUE.findall(create)) <= _NO_COLUMNS and not _OF_ANOTHER.search(create)


def fill(text: str, values: Values) -> str:
    """Return a text in which each ``{name}`` is replaced by its value."""
    return VALUE.sub(lambda match: str(values[match[1]]), text)


def evaluated(number: Number, values: Values) -> int:
    """Return the integer of a number, an expression or a choice by a value; else ValueError."""
    if isinstance(number, Mapping):
        level = str(values.get(str(number.get("by")))).casefold()
        levels = {str(name).casefold(): each for name, each in number.items() if name != "by"}
        if (chosen := levels.get(level, levels.get("default"))) is None:
            raise ValueError(f"{number!r} needs an entry for {level!r}, or default")
        return evaluated(chosen, values)
    try:
        if not isinstance(number, str):
            return int(number)
        text = VALUE.sub(lambda match: f"({values[match[1]]})", number)
        return _computed(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, KeyError, ZeroDivisionError, OverflowError, RecursionError):
        raise ValueError(
            f"{number!r} is not an integer expression over the workload's values"
        ) from None


def _computed(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_computed(operand)
        case ast.BinOp(left=left, op=op, right=right):
            result: int = _OPERATORS[type(op)](_computed(left), _computed(right))
            return result
    raise TypeError


def _column_bytes(column: Definition, rows: int, values: Values) -> int:
    def value_of(key: str, otherwise: Number) -> int:
        return evaluated(column.get(key, otherwise), values)

    match column.get("kind", "integer"):
        case "digits":
            return value_of("groups", 1) * (value_of("length", 1) + 1) - 1
        case "text":
            length = value_of("length", 1)
            return (length + value_of("max_length", length)) // 2
        case "motifs":
            return int(value_of("length", 128) * _LOG_NORMAL_MEAN)
        case "constant":
            return len(str(column.get("value", "")))
        case "decimal":
            return len(str(value_of("high", 1))) + 1 + value_of("scale", 0)
        case "integer" | "permutation":
            largest = value_of("high", rows)
        case _:
            largest = max(rows, 1)
    return len(str(largest))
