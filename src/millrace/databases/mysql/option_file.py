"""Read option files as servers of the mysqld line read theirs: ``my.cnf``, ``my.ini``.

The syntax is that of the manuals' "Using Option Files": groups in brackets; ``#`` or ``;`` begins a
comment line, and ``#`` also one behind a value; values may be quoted and have escapes.
"""

import re
from collections.abc import Iterator

from millrace.databases.base import FileOption, FileOptions
from millrace.errors import Diagnostic

_GROUP = re.compile(r"\[\s*([^\]]*?)\s*\]\s*(?:[#;].*)?")
_OPTION = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\s*(?:(=)\s*(.*))?")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " ", '"': '"', "'": "'"}


def parse_option_file(text: str) -> FileOptions:
    """Return the options of every group, the includes, and the lines that are neither."""
    options: list[FileOption] = []
    includes: list[tuple[int, str]] = []
    mistakes: list[Diagnostic] = []
    group: str | None = None
    for number, line in _lines(text):
        if line.startswith("!"):
            includes.append((number, line))
        elif line.startswith("["):
            found = _GROUP.fullmatch(line)
            if found is None:
                mistakes.append(_mistake(number, line, "a group such as [mysqld]"))
            group = found[1].lower() if found is not None else group
        elif (option := _OPTION.fullmatch(_without_comment(line))) is None:
            mistakes.append(_mistake(number, line, "an option, such as max_connections = 500"))
        elif group is None:
            mistakes.append(_mistake(number, line, "a group such as [mysqld] above the options"))
        else:
            value = _value(option[3]) if option[2] else None
            options.append(FileOption(group, option[1], value, number))
    return FileOptions(tuple(options), tuple(includes), tuple(mistakes))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and stripped[0] not in "#;":
            yield number, stripped


def _mistake(number: int, line: str, expected: str) -> Diagnostic:
    shown = line if len(line) <= 60 else f"{line[:57]}..."
    return Diagnostic("option file", f"cannot read {shown!r}", expected, line=number)


def _without_comment(line: str) -> str:
    """Return a line without the comment that a ``#`` outside of quotes begins."""
    quote = ""
    escaped = False
    for at, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#":
            return line[:at].rstrip()
    return line


def _value(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        text = text[1:-1]
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), text)
