"""Derive the effects of a test's statements on rows from a workload's definition.

``sure_rows`` returns the statements that certainly find a row each time. This requires a proof from
the text and the generators: the statement uses one table of the test, its only condition is on a
column that numbers the table's rows (``sequence``), and the key lies within the table's rows. If a
test deletes rows without inserting them again, its other statements are not proven.

``statement_kinds`` classifies statements by the work that a server does for them later. A read
leaves no such work. An insert, or an update of columns without an index, leaves little: the old
row version. Updates of indexed columns and deletes leave index entries that the server removes in
the background, seconds later. Statements of any other form are put into this last class, and so is
each write if a table's definition or a phase may have further effects.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from millrace.levels import Values
from millrace.workloads.schema_factors import Definition, texts_of
from millrace.workloads.tables import VALUE, evaluated

Rows = Literal["read", "changed"]
Kind = Literal["read", "simple write", "other"]

_WHERE = (
    r"\s+WHERE\s+`?(?P<column>\w+)`?\s*(?P<how>=|>=|IN\s*\(|BETWEEN\s)\s*(?P<key>\?|\d+)"
    r"(?:\s*\)|\s+AND\s+(?P<end>\?|\d+))?"
)
_LIMIT = r"(?:\s+LIMIT\s+[1-9]\d*)?"
_SELECT = re.compile(
    rf"SELECT\s[^?]+?\sFROM\s+\{{table\}}(?:{_WHERE})?(?:\s+ORDER\s+BY\s+[\w, ]+?)?{_LIMIT}",
    re.IGNORECASE,
)
_UPDATE = re.compile(
    rf"UPDATE\s+\{{table\}}\s+SET\s+(?P<set>\w+)\s*=\s*"
    rf"(?P<value>\?|(?P=set)\s*[+-]\s*[1-9]\d*){_WHERE}{_LIMIT}",
    re.IGNORECASE,
)
_DELETE = re.compile(rf"DELETE\s+FROM\s+\{{table\}}{_WHERE}{_LIMIT}", re.IGNORECASE)
_KEEPS_ROWS = re.compile(r"(SELECT|INSERT|UPDATE)\b", re.IGNORECASE)
_UPDATES = re.compile(r"UPDATE\b", re.IGNORECASE)

# Repeated parts (such as rows of an INSERT) that take the time of one small statement.
_TERMS_OF_STATEMENT = 10

# A new value of these kinds differs from the old one except with negligible probability.
_NEW_EACH_TIME = ("digits", "text")

_READ = re.compile(
    r"SELECT\b(?!.*\b(?:FOR (?:UPDATE|SHARE)|LOCK IN SHARE MODE|INTO)\b).*", re.IGNORECASE
)
_INSERT = re.compile(r"INSERT INTO \{table\}(?: \([\w, ]+\))? VALUES ?\([^()]*\)", re.IGNORECASE)
_SIMPLE_UPDATE = re.compile(r"UPDATE \{table\} SET (?P<set>[^()]+?) WHERE [^()]+", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:^|,)\s*`?(\w+)`?\s*=")
_DEFINES = re.compile(r"\s*(?:ALTER|CREATE(?!\s+TEMPORARY)|OPTIMIZE)\b", re.IGNORECASE)
_CREATE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
# An index, or what a generated column or a partition is computed from.
_INDEX = re.compile(r"\b(?:KEY|INDEX|UNIQUE|AS|PARTITION)\b", re.IGNORECASE)
_SETS_OTHERS = re.compile(r"\bON\s+UPDATE\b", re.IGNORECASE)


def sure_rows(definition: Definition, values: Values) -> dict[str, Rows]:
    """Return the effects of the chosen test's statements that certainly find a row each time.

    ``values`` has all factors and parameters, including ``test``. Mistakes raise no error.
    """
    test = definition.get("tests", {}).get(str(values.get("test", definition.get("default_test"))))
    if test is None or test.get("client_setup"):
        return {}
    if any(phase["kind"] == "sql" for phase in definition.get("phases", ())):
        return {}  # such a phase may have changed the rows
    tables = definition.get("tables", {})
    table = tables.get(test["tables"]) if "tables" in test else next(iter(tables.values()), None)
    if table is None:
        return {}
    steps = [tuple(step["statements"]) for step in _steps(test)]
    known = _Known(definition, table, values)
    texts = {name: known.text(name) for step in steps for name in step}
    if any(_UPDATES.match(text) and not _UPDATE.fullmatch(text) for text in texts.values()):
        return {}  # an update of another form may move keys
    every = [(name, step) for step in steps for name in step]
    removing = [of for of in every if not _KEEPS_ROWS.match(texts[of[0]])]
    gone = any(not _puts_back(name, step, texts) for name, step in removing)
    found: dict[str, Rows] = {}
    for name, text in texts.items():
        try:
            if (rows := known.rows_of(name, text, gone)) is not None:
                found[name] = rows
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def statement_texts(definition: Definition, test: Definition, values: Values) -> Iterator[str]:
    """Yield the text of each statement of a test, with values inserted, except the table."""
    known = _Known(definition, {}, values)
    for step in _steps(test):
        yield from map(known.text, step["statements"])


def n_statements(statements: Definition, test: Definition) -> float:
    """Return how many statements a test has, in all transactions of a mix together.

    A statement with a repeated part counts one more for each ten repetitions, if fixed.
    """
    names = [name for step in _steps(test) for name in step["statements"]]
    times = [(statements[name].get("terms") or {}).get("times") for name in names]
    return len(names) + sum(each for each in times if isinstance(each, int)) / _TERMS_OF_STATEMENT


def _steps(part: Definition) -> Iterator[Definition]:
    """Yield the steps with statements of a test, a transaction or a loop."""
    for step in part.get("steps", ()):
        if "statements" in step:
            yield step
        yield from _steps(step)
    for kind in part.get("mix", ()):
        yield from _steps(kind)


def _puts_back(name: str, step: tuple[str, ...], texts: Mapping[str, str]) -> bool:
    """Return whether a delete is followed by an insert in the same step, with the same key."""
    later = step[step.index(name) + 1 :]
    is_delete = _DELETE.fullmatch(texts[name]) is not None
    return is_delete and any(texts[each].upper().startswith("INSERT") for each in later)


class _Known:
    """A definition and its values, for the statements of a test on a table."""

    def __init__(self, definition: Definition, table: Definition, values: Values) -> None:
        self._statements = definition.get("statements", {})
        self._generators = definition.get("generators", {})
        self._table, self._values = table, values

    def text(self, name: str) -> str:
        """Return a statement's text with values inserted; empty for an unknown statement."""
        sql = self._statements.get(name, {}).get("sql", "")
        if isinstance(sql, Mapping):
            levels = {str(level).casefold(): text for level, text in sql.items() if level != "by"}
            level = str(self._values.get(str(sql.get("by")))).casefold()
            sql = levels.get(level, levels.get("default", ""))
        filled = VALUE.sub(lambda found: str(self._values.get(found[1], found[0])), str(sql))
        return " ".join(filled.split())

    def rows_of(self, name: str, text: str, gone: bool) -> Rows | None:
        """Return a statement's effect if it certainly finds a row; ``gone``: rows are removed."""
        if "terms" in self._statements[name] or text.upper().count("SELECT") > 1:
            return None
        if match := _SELECT.fullmatch(text):
            return "read" if not gone and self._hits(name, text, match) else None
        if match := _UPDATE.fullmatch(text):
            is_sure = not gone and self._is_new(name, match) and self._hits(name, text, match)
            return "changed" if is_sure else None
        if match := _DELETE.fullmatch(text):
            key = self._generator(name, text, match, "key")
            is_sure = not gone or key.get("kind") == "permutation"
            return "changed" if is_sure and self._hits(name, text, match) else None
        return None

    def _hits(self, name: str, text: str, match: re.Match[str]) -> bool:
        rows = self._number(self._table["rows"])
        if match["column"] is None or rows < 1:
            return rows >= 1
        column: Definition = next(
            (each for each in self._table["columns"] if each["name"] == match["column"]), {}
        )
        if column.get("kind") != "sequence" or self._number(column.get("step", 1)) != 1:
            return False
        is_between = match["how"].upper().startswith("BETWEEN")
        if is_between != (match["end"] is not None):
            return False
        if is_between and not self._reaches(name, text, match):
            return False
        first = self._number(column.get("first", 1))
        low, high = self._range(self._generator(name, text, match, "key"))
        return first <= low and high <= first + rows - 1

    def _range(self, generator: Definition) -> tuple[int, int]:
        """Return the smallest and largest number of a generator; ValueError for other kinds."""
        match generator.get("kind"):
            case "integer" | "permutation":
                return self._number(generator["low"]), self._number(generator["high"])
            case "constant" if type(generator["value"]) is int:
                return generator["value"], generator["value"]
            case "series":
                first = self._number(generator.get("first", 1))
                step = self._number(generator.get("step", 1))
                last = first + step * (self._number(generator["count"]) - 1)
                return min(first, last), max(first, last)
        raise ValueError(f"no range: {generator.get('kind')}")

    def _reaches(self, name: str, text: str, match: re.Match[str]) -> bool:
        """Return whether the end of a range is its beginning plus a non-negative number."""
        end = self._generator(name, text, match, "end")
        if match["key"] != "?" or end.get("kind") != "derived":
            return False
        begin = self._parameters(name)[text.count("?", 0, match.start("key"))]
        is_of_begin = end["from"] == begin and self._number(end.get("times", 1)) == 1
        return is_of_begin and self._number(end.get("plus", 0)) >= 0

    def _is_new(self, name: str, match: re.Match[str]) -> bool:
        """Return whether an update certainly changes the row, but not its key."""
        if match["column"] == match["set"]:
            return False
        if match["value"] != "?":
            return True
        return bool(self._generators[self._parameters(name)[0]]["kind"] in _NEW_EACH_TIME)

    def _generator(self, name: str, text: str, match: re.Match[str], group: str) -> Definition:
        """Return the generator of a value in a condition; a literal number is a constant."""
        if match[group] != "?":
            return {"kind": "constant", "value": int(match[group])}
        at = text.count("?", 0, match.start(group))
        generator: Definition = self._generators[self._parameters(name)[at]]
        return generator

    def _parameters(self, name: str) -> list[str]:
        return list(self._statements[name].get("parameters", ()))

    def _number(self, number: Any) -> int:
        return evaluated(number, self._values)


def defines_tables(definition: Definition, values: Values) -> bool:
    """Return whether the chosen test creates or alters tables or indexes."""
    test = definition["tests"][str(values["test"])]
    return any(map(_DEFINES.match, statement_texts(definition, test, values)))


def statement_kinds(definition: Definition, values: Values) -> set[Kind]:
    """Return the kinds of all statements of the chosen test.

    ``values`` has all factors and parameters, including ``test``.
    """
    test = definition["tests"][str(values["test"])]
    if "client_setup" in test:
        return {"other"}
    tables = list(texts_of(definition.get("tables")))
    indexed = {word for text in tables for word in _words_of_indexes(text)}
    is_known = not any(phase["kind"] == "sql" for phase in definition.get("phases", ()))
    is_known = is_known and not any(map(_SETS_OTHERS.search, tables))
    texts = statement_texts(definition, test, values)
    return {_kind(text, indexed, is_known=is_known) for text in texts}


def _kind(text: str, indexed: set[str], *, is_known: bool) -> Kind:
    if _READ.fullmatch(text):
        return "read"
    if not is_known:
        return "other"
    if _INSERT.fullmatch(text):
        return "simple write"
    update = _SIMPLE_UPDATE.fullmatch(text)
    if update and indexed.isdisjoint(map(str.lower, _ASSIGNED.findall(update["set"]))):
        return "simple write"
    return "other"


def _words_of_indexes(text: str) -> Iterator[str]:
    """Yield all words of the index definitions in a statement, including column names.

    An index definition is a part of CREATE TABLE between two commas, or a whole other statement.
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
