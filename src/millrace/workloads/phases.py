"""Check the phases of a workload, and insert values into their SQL."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from millrace.levels import Level
from millrace.workloads.schema_factors import DefinitionPart, texts_of
from millrace.workloads.tables import VALUE, TableSet, fill

_Entry = TypeVar("_Entry")
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]

_OF_A_TABLE = frozenset(("table", "n"))

Sql = str | list[str]
"""Statements: a text of simple statements separated by ``;``, or a list of any statements."""

# Quoted text and comments, in which a semicolon separates nothing; separators; words.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`"""
    r"""|/\*.*?\*/|(?:\#|--(?=\s))[^\n]*|(?P<end>;)|(?P<word>\w+)""",
    re.DOTALL,
)
_ROUTINE = re.compile(
    r"(?:CREATE|ALTER)\b.*?\b(?:PROCEDURE|FUNCTION|TRIGGER|EVENT|PACKAGE)\b|BEGIN\s+NOT\b",
    re.IGNORECASE | re.DOTALL,
)
_COMPOUND = re.compile(r"BEGIN|THEN|LOOP|REPEAT|WHILE", re.IGNORECASE)
_EXECUTED = ("/*!", "/*M!", "/*+")  # comments that servers execute
_CLIENTS_OWN = re.compile(r"\s*(?:DELIMITER\b|\\[A-Za-z.!]|source\s)", re.IGNORECASE)


class Statements(DefinitionPart):
    """SQL statements: a text in which ``;`` separates them, or a list.

    ``{factor}`` and ``{parameter}`` are replaced by values. If ``by`` names a factor, ``sql`` is a
    table, and the factor's level selects the statements. A statement with ``{table}`` or ``{n}`` is
    sent for each table of the set ``tables``.
    """

    by: str | None = None
    sql: Sql | dict[str, Sql] | None = None
    tables: str | None = None

    @model_validator(mode="after")
    def _levels_are_named(self) -> Self:
        if isinstance(self.sql, dict) != (self.by is not None):
            raise ValueError("sql must be a table of levels if 'by' names a factor, and only then")
        if isinstance(self.sql, dict) and "default" not in self.sql:
            raise ValueError("sql needs 'default', for all other levels")
        for sql in self.sql.values() if isinstance(self.sql, dict) else (self.sql or "",):
            if (wrong := _unfit(sql)) is not None:
                raise ValueError(wrong)
        return self

    def statements(
        self, values: Mapping[str, Level], tables: Mapping[str, TableSet]
    ) -> tuple[str, ...]:
        """Return the statements with a treatment's values, for the workload's tables."""
        if self.sql is None:
            return ()
        if isinstance(self.sql, dict):
            assert self.by is not None
            sql = of_level(self.sql, str(values[self.by]))
        else:
            sql = self.sql
        names = () if self.tables is None else tables[self.tables].names(values)
        # Split before values are filled in, so that no value can add a statement.
        listed = split(sql) if isinstance(sql, str) else sql
        return tuple(filled for each in listed for filled in _filled(each, values, names))

    def unknown(self, values: set[str], factors: set[str], tables: set[str]) -> str | None:
        """Return an error message for the first unknown name; None if all names exist."""
        if self.by is not None and self.by not in factors:
            return f"unknown factor {self.by!r}"
        if self.tables is not None and self.tables not in tables:
            return f"unknown set of tables {self.tables!r}"
        known = values | (_OF_A_TABLE if self.tables is not None else set())
        named = {name for text in texts_of(self.sql) for name in VALUE.findall(text)}
        strange = sorted(named - known)
        return f"unknown {{{strange[0]}}}" if strange else None


class Maintenance(Statements):
    """Statements that run in the middle of a drive phase, concurrently with its clients."""

    sql: Sql | dict[str, Sql]


class Phase(Statements):
    """A timed step of a workload; only the kind ``drive`` may have ``maintenance``."""

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
            raise ValueError("'sql' is required in a phase of kind 'sql', and only allowed there")
        if self.kind != "sql" and self.tables is not None:
            raise ValueError("'tables' is allowed only in a phase of kind 'sql'")
        if self.kind != "drive" and self.maintenance is not None:
            raise ValueError("'maintenance' is allowed only in a phase of kind 'drive'")
        return self


def split(text: str) -> list[str]:
    """Split a text into statements at each ``;`` outside of quotes and comments."""
    ends = [found.start() for found in _TOKEN.finditer(text) if found["end"]]
    begins = [0, *(end + 1 for end in ends)]
    parts = [text[begin:end] for begin, end in zip(begins, [*ends, len(text)], strict=True)]
    return [part.strip() for part in parts if _without_comments(part).strip()]


def _without_comments(text: str) -> str:
    def kept(found: re.Match[str]) -> str:
        is_comment = found[0].startswith(("/*", "#", "--")) and not found[0].startswith(_EXECUTED)
        return " " if is_comment else found[0]

    return _TOKEN.sub(kept, text)


def _unfit(sql: Sql) -> str | None:
    """Return why statements cannot be sent as written; None if they can."""
    statements = split(sql) if isinstance(sql, str) else sql
    if not all(_without_comments(each).strip() for each in statements):
        return "sql has an empty statement"
    for statement in statements:
        if _CLIENTS_OWN.match(bare := _without_comments(statement)):
            return (
                f"{bare.split()[0]} is a command of the mysql client, not SQL: remove it, and "
                "write sql as a list of statements, which are not split"
            )
    if isinstance(sql, str) and len(statements) > 1 and any(map(_has_body, statements)):
        return (
            "sql has a routine, whose semicolons would split the statement: write sql as a list of "
            'statements, sql = ["CREATE PROCEDURE ... END"]'
        )
    return None


def _has_body(statement: str) -> bool:
    bare = _without_comments(statement).strip()
    words = (found["word"] for found in _TOKEN.finditer(bare) if found["word"])
    return bool(_ROUTINE.match(bare)) and any(map(_COMPOUND.fullmatch, words))


def of_level(by_level: Mapping[str, _Entry], level: str) -> _Entry:
    """Return the entry for a level, ignoring case; else the entry ``default``."""
    caseless = {name.casefold(): entry for name, entry in by_level.items()}
    return caseless.get(level.casefold(), by_level["default"])


def _filled(statement: str, values: Mapping[str, Level], tables: tuple[str, ...]) -> Iterator[str]:
    """Yield a statement with its values; once for each table if it uses ``{table}`` or ``{n}``."""
    if tables and _OF_A_TABLE & set(VALUE.findall(statement)):
        for number, table in enumerate(tables, 1):
            yield fill(statement, {**values, "table": table, "n": number})
    else:
        yield fill(statement, values)
