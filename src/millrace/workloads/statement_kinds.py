"""Classify the statements of a test by the work that they leave a server for later.

A statement that only reads leaves nothing, a row that is inserted or whose columns without an index
are changed little: its old version. Changes of indexed columns and deletes leave entries of indexes
that a server removes in the background, seconds later. A text of any other form counts as one of
those.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from millrace.workloads.sure_rows import statement_texts

Kind = Literal["read", "simple write", "other"]

_READ = re.compile(
    r"SELECT\b(?!.*\b(?:FOR (?:UPDATE|SHARE)|LOCK IN SHARE MODE|INTO)\b).*", re.IGNORECASE
)
_INSERT = re.compile(r"INSERT INTO \{table\}(?: \([\w, ]+\))? VALUES ?\([^()]*\)", re.IGNORECASE)
_UPDATE = re.compile(r"UPDATE \{table\} SET (?P<set>[^()]+?) WHERE [^()]+", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:^|,)\s*`?(\w+)`?\s*=")
_INDEXED = re.compile(r"\b(?:KEY|INDEX|UNIQUE)\b[^()]*\(([^()]*)\)", re.IGNORECASE)


def statement_kinds(definition: Mapping[str, Any], values: Mapping[str, Any]) -> set[Kind]:
    """Return the kinds of all statements of the chosen test.

    ``values`` are those of all factors and parameters, ``test`` included.
    """
    test = definition["tests"][str(values["test"])]
    if "client_setup" in test:
        return {"other"}
    tables = definition.get("tables", {}).values()
    indexed = {column for table in tables for column in _indexed_columns(table)}
    return {_kind(text, indexed) for text in statement_texts(definition, test, values)}


def _kind(text: str, indexed: set[str]) -> Kind:
    if _READ.fullmatch(text):
        return "read"
    if _INSERT.fullmatch(text):
        return "simple write"
    update = _UPDATE.fullmatch(text)
    if update and indexed.isdisjoint(map(str.lower, _ASSIGNED.findall(update["set"]))):
        return "simple write"
    return "other"


def _indexed_columns(part: object) -> Iterator[str]:
    """Yield the columns that any text of a table's definition names in an index."""
    match part:
        case str():
            for columns in _INDEXED.findall(part):
                yield from re.findall(r"\w+", columns.lower())
        case Mapping():
            for each in part.values():
                yield from _indexed_columns(each)
        case list() | tuple():
            for each in part:
                yield from _indexed_columns(each)
