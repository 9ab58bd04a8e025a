"""Classify the statements of a test by the work that they leave a server for later.

A statement that only reads leaves nothing, a row that is inserted or whose columns without an index
are changed little: its old version. Changes of indexed columns and deletes leave entries of indexes
that a server removes in the background, seconds later. A text of any other form counts as one of
those, and so does each write where a table's definition or a phase may have effects of its own.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from millrace.levels import Values
from millrace.workloads.schema_factors import Definition
from millrace.workloads.sure_rows import statement_texts

Kind = Literal["read", "simple write", "other"]

_READ = re.compile(
    r"SELECT\b(?!.*\b(?:FOR (?:UPDATE|SHARE)|LOCK IN SHARE MODE|INTO)\b).*", re.IGNORECASE
)
_INSERT = re.compile(r"INSERT INTO \{table\}(?: \([\w, ]+\))? VALUES ?\([^()]*\)", re.IGNORECASE)
_UPDATE = re.compile(r"UPDATE \{table\} SET (?P<set>[^()]+?) WHERE [^()]+", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:^|,)\s*`?(\w+)`?\s*=")
_DEFINES = re.compile(r"\s*(?:ALTER|CREATE(?!\s+TEMPORARY)|OPTIMIZE)\b", re.IGNORECASE)
_CREATE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
# An index, or what a generated column or a partition is computed from.
_INDEX = re.compile(r"\b(?:KEY|INDEX|UNIQUE|AS|PARTITION)\b", re.IGNORECASE)
_SETS_OTHERS = re.compile(r"\bON\s+UPDATE\b", re.IGNORECASE)


def defines_tables(definition: Definition, values: Values) -> bool:
    """Return whether the chosen test makes or changes tables or indexes; as `statement_kinds`."""
    test = definition["tests"][str(values["test"])]
    return any(map(_DEFINES.match, statement_texts(definition, test, values)))


def statement_kinds(definition: Definition, values: Values) -> set[Kind]:
    """Return the kinds of all statements of the chosen test.

    ``values`` are those of all factors and parameters, ``test`` included.
    """
    test = definition["tests"][str(values["test"])]
    if "client_setup" in test:
        return {"other"}
    tables = list(_texts(list(definition.get("tables", {}).values())))
    indexed = {word for text in tables for word in _words_of_indexes(text)}
    is_known = not any(phase["kind"] == "sql" for phase in definition.get("phases", ()))
    is_known = is_known and not any(map(_SETS_OTHERS.search, tables))
    return {
        _kind(text, indexed, is_known=is_known)
        for text in statement_texts(definition, test, values)
    }


def _kind(text: str, indexed: set[str], *, is_known: bool) -> Kind:
    if _READ.fullmatch(text):
        return "read"
    if not is_known:
        return "other"
    if _INSERT.fullmatch(text):
        return "simple write"
    update = _UPDATE.fullmatch(text)
    if update and indexed.isdisjoint(map(str.lower, _ASSIGNED.findall(update["set"]))):
        return "simple write"
    return "other"


def _words_of_indexes(text: str) -> Iterator[str]:
    """Yield the words, columns among them, of what a text of a table's definition says of indexes.

    That is a part of CREATE TABLE between two commas, or a whole statement of another kind.
    """
    for part in _parts(text) if _CREATE.match(text) else [text]:
        if _INDEX.search(part):
            yield from re.findall(r"\w+", part.lower())


def _parts(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 1:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _texts(part: object) -> Iterator[str]:
    match part:
        case str():
            yield part
        case Mapping():
            yield from _texts(list(part.values()))
        case list() | tuple():
            for each in part:
                yield from _texts(each)
