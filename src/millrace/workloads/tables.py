"""Estimate the rows and lengths of a workload's table sets, roughly: for memory and disk sizes."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, Field

from millrace.workloads.schema_factors import Part

Number = int | float | str

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
}


_CHAR = re.compile(r"(\w+)\s+CHAR\s*\((\d+)\)", re.IGNORECASE)


@dataclass(frozen=True)
class Volume:
    """The approximate content of tables; ``data_bytes`` is the length of the rows' values."""

    tables: int
    rows: int
    data_bytes: int
    index_entries: int


class TableSet(Part):
    """Tables of one shape; the load generator defines the format."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    rows: Number
    count: Number = 1
    create: str | dict[str, str]
    columns: list[dict[str, Any]]
    after_load: list[str] | dict[str, Any] = Field(default=[])

    def volume(self, values: Mapping[str, Any]) -> Volume:
        """Return the approximate content for these values of factors and parameters."""
        tables = evaluated(self.count, values)
        rows = evaluated(self.rows, values) * tables
        widths = self._widths()
        row_bytes = sum(
            max(_column_bytes(column, rows, values), widths.get(str(column["name"]), 0)) + 1
            for column in self.columns
        )
        indexes = len(self.after_load) if isinstance(self.after_load, list) else 1
        return Volume(tables, rows, rows * row_bytes, rows * indexes)

    def _widths(self) -> dict[str, int]:
        texts = [self.create] if isinstance(self.create, str) else self.create.values()
        return {name: int(width) for text in texts for name, width in _CHAR.findall(text)}


def evaluated(number: Number, values: Mapping[str, Any]) -> int:
    """Return a number, or integer arithmetic over ``{values}``; else raise ValueError."""
    if not isinstance(number, str):
        return int(number)
    text = re.sub(r"\{(\w+)\}", lambda match: f"({values[match[1]]})", number)
    try:
        return _computed(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, KeyError, ZeroDivisionError):
        raise ValueError(f"{number!r} is not arithmetic over values") from None


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


def _column_bytes(column: Mapping[str, Any], rows: int, values: Mapping[str, Any]) -> int:
    """Return the mean length of a column's values as text."""

    def value_of(key: str, otherwise: Number) -> int:
        return evaluated(column.get(key, otherwise), values)

    match column.get("kind", "integer"):
        case "digits":
            return value_of("groups", 1) * (value_of("length", 1) + 1) - 1
        case "text":
            length = value_of("length", 1)
            return (length + value_of("max_length", length)) // 2
        case "constant":
            return len(str(column.get("value", "")))
        case "decimal":
            return len(str(value_of("high", 1))) + 1 + value_of("scale", 0)
        case "integer" | "permutation":
            return len(str(value_of("high", rows)))
    return len(str(max(rows, 1)))
