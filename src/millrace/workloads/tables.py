"""Table sets of a workload, as far as an estimate needs them: how many rows, how long.

The load generator makes the rows and is the authority on their meaning; what is computed here is
rough on purpose, and decides memory sizes that scale with the data and the disk that is asked for.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, Field

from millrace.workloads.offers import Part

Number = int | float | str

# InnoDB, per row: header, transaction and roll pointers, and pages filled to 15/16.
_ROW_OVERHEAD_BYTES = 30
_PAGE_FILL = 15 / 16
# A secondary index entry with its primary key, in pages filled by random inserts or sorted builds.
_INDEX_ENTRY_BYTES = 25

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Volume:
    """Rows of all tables of a set; their length as text, and what they take on disk, roughly."""

    rows: int
    sent_bytes: int
    disk_bytes: int


class TableSet(Part):
    """Tables of one shape; see the load generator's definition of it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    rows: Number
    count: Number = 1
    columns: list[dict[str, Any]]
    after_load: list[str] | dict[str, Any] = Field(default=[])

    def volume(self, values: Mapping[str, Any]) -> Volume:
        """How much it is when factors and parameters have these values."""
        rows = evaluated(self.rows, values) * evaluated(self.count, values)
        row_bytes = sum(_column_bytes(column, rows, values) + 1 for column in self.columns)
        indexes = len(self.after_load) if isinstance(self.after_load, list) else 1
        stored = (row_bytes + _ROW_OVERHEAD_BYTES + indexes * _INDEX_ENTRY_BYTES) / _PAGE_FILL
        return Volume(rows, rows * row_bytes, int(rows * stored))


def evaluated(number: Number, values: Mapping[str, Any]) -> int:
    """A number, or integer arithmetic over ``{values}``. Raises ValueError for anything else."""
    if not isinstance(number, str):
        return int(number)
    text = re.sub(r"\{(\w+)\}", lambda match: f"({values[match[1]]})", number)
    try:
        return int(_computed(ast.parse(text, mode="eval").body))
    except (SyntaxError, TypeError, KeyError, ZeroDivisionError):
        raise ValueError(f"{number!r} is not arithmetic over values") from None


def _computed(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_computed(operand)
        case ast.BinOp(left=left, op=op, right=right):
            result: int | float = _OPERATORS[type(op)](_computed(left), _computed(right))
            return result
    raise TypeError


def _column_bytes(column: Mapping[str, Any], rows: int, values: Mapping[str, Any]) -> int:
    """The mean length of a column's values as text."""

    def given(key: str, otherwise: Number) -> int:
        return evaluated(column.get(key, otherwise), values)

    match column.get("kind", "integer"):
        case "digits":
            return given("groups", 1) * (given("length", 1) + 1) - 1
        case "text":
            length = given("length", 1)
            return (length + given("max_length", length)) // 2
        case "constant":
            return len(str(column.get("value", "")))
        case "decimal":
            return len(str(given("high", 1))) + 1 + given("scale", 0)
        case "integer" | "permutation":
            return len(str(given("high", rows)))
    return len(str(max(rows, 1)))
