"""Check the phases of a workload, and fill in the SQL that they send."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from millrace.levels import Level
from millrace.workloads.schema_factors import Part
from millrace.workloads.tables import VALUE, TableSet, fill

_Entry = TypeVar("_Entry")
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]

_OF_A_TABLE = frozenset(("table", "n"))


class Statements(Part):
    """SQL statements that are separated by ``;``.

    ``{factor}`` or ``{parameter}`` stands for a value, and ``by`` names a factor whose level
    chooses the statements. A statement with ``{table}`` or ``{n}`` is sent for each table of the
    set ``tables``.
    """

    by: str | None = None
    sql: str | dict[str, str] | None = None
    tables: str | None = None

    @model_validator(mode="after")
    def _levels_are_named(self) -> Self:
        if isinstance(self.sql, dict) != (self.by is not None):
            raise ValueError("sql is a table of levels exactly when 'by' names a factor")
        if isinstance(self.sql, dict) and "default" not in self.sql:
            raise ValueError("sql lacks 'default', for levels it does not name")
        return self

    def statements(
        self, values: Mapping[str, Level], tables: Mapping[str, TableSet]
    ) -> tuple[str, ...]:
        """Return the statements for a treatment's levels and parameters, and a workload's sets."""
        if self.sql is None:
            return ()
        if isinstance(self.sql, str):
            text = self.sql
        else:
            assert self.by is not None
            text = of_level(self.sql, str(values[self.by]))
        names = () if self.tables is None else tables[self.tables].names(values)
        # Split before values are filled in, so that no value can add a statement.
        return tuple(
            filled
            for statement in map(str.strip, text.split(";"))
            if statement
            for filled in _filled(statement, values, names)
        )

    def unknown(self, values: set[str], factors: set[str], tables: set[str]) -> str | None:
        """Return what is wrong with a name in it, None where every name exists."""
        if self.by is not None and self.by not in factors:
            return f"there is no factor {self.by!r}"
        if self.tables is not None and self.tables not in tables:
            return f"there is no set of tables {self.tables!r}"
        known = values | (_OF_A_TABLE if self.tables is not None else set())
        strange = sorted(set(self._placeholders()) - known)
        return f"unknown {{{strange[0]}}}" if strange else None

    def _placeholders(self) -> Iterator[str]:
        texts = self.sql.values() if isinstance(self.sql, dict) else [self.sql or ""]
        for text in texts:
            yield from VALUE.findall(text)


class Maintenance(Statements):
    """Statements that run in the middle of a phase that drives clients, beside them."""

    sql: str | dict[str, str]


class Phase(Statements):
    """A timed step; one of the kind ``drive`` may have ``maintenance``."""

    name: Name
    kind: Literal[
        "sql", "load_data", "count", "checksum",
        "load_tables", "verify_tables", "warm_tables", "drive", "apply", "compare_tables",
        "fill_disk",
    ]  # fmt: skip
    maintenance: Maintenance | None = None

    @model_validator(mode="after")
    def _keys_fit_kind(self) -> Self:
        if (self.kind == "sql") != (self.sql is not None):
            raise ValueError("phases of kind 'sql', and only these, have sql")
        if self.kind != "sql" and self.tables is not None:
            raise ValueError("'tables' belongs to a phase of kind 'sql'")
        if self.kind != "drive" and self.maintenance is not None:
            raise ValueError("maintenance belongs to a phase of kind 'drive'")
        return self


def of_level(by_level: Mapping[str, _Entry], level: str) -> _Entry:
    """Return the entry for a level, ignoring case, or the one named ``default``."""
    caseless = {name.casefold(): entry for name, entry in by_level.items()}
    return caseless.get(level.casefold(), by_level["default"])


def _filled(statement: str, values: Mapping[str, Level], tables: tuple[str, ...]) -> Iterator[str]:
    """Yield a statement with its values, for each table where it names one."""
    if tables and _OF_A_TABLE & set(VALUE.findall(statement)):
        for number, table in enumerate(tables, 1):
            yield fill(statement, {**values, "table": table, "n": number})
    else:
        yield fill(statement, values)
