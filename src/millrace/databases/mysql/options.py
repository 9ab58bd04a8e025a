"""Parse the options of the mysqld line, and derive the logs that they make a server keep.

The line accepts names with dashes or underscores; behind ``skip``, ``disable``, ``enable`` or
``maximum``; and behind ``loose``, which makes a server ignore an option it does not know.

The syntax of option files is that of the manuals' "Using Option Files": groups in brackets; ``#``
or ``;`` begins a comment line, and ``#`` also one behind a value; values may be quoted and have
escapes.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millrace.databases.base import FileOption, FileOptions, Options, version_key
from millrace.errors import Diagnostic
from millrace.model.servers import Configuration, KnownOptions, Option, option_name
from millrace.quantities import parse_size

# The largest default of a redo log: 2 x 48M, or a capacity of 100M.
DEFAULT_REDO_BYTES = 100 << 20

_PREFIXES = ("skip_", "disable_", "enable_", "maximum_")
_LOOSE = "loose_"

# A path that leads out of the data directory, also inside a list such as innodb_data_file_path's;
# and the options that may have one, since the server only reads a certificate or key there.
_LEADS_AWAY = re.compile(r"(?:^|[;,:=])\s*(?:/|~|\.\.(?:/|$))|/\.\.(?:/|$)")
_ONLY_READ = re.compile(r"(?:admin_|mysqlx_)?(?:ssl|tls)_.*")

_DESCRIBED_OPTION = re.compile(r"^  (?:-\S, )?--([A-Za-z][\w-]*)", re.M)
_TABLE_RULE = re.compile(r"^-{20,} -+$", re.M)
_TABLE_ROW = re.compile(r"([A-Za-z][\w-]*)(?:\s+(\S.*))?")

_GROUP = re.compile(r"\[\s*([^\]]*?)\s*\]\s*(?:[#;].*)?")
_OPTION = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\s*(?:(=)\s*(.*))?")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " ", '"': '"', "'": "'"}


@dataclass(frozen=True, kw_only=True)
class MysqlOptions(Options):
    """The options of MySQL and MariaDB."""

    has_one_log_file_since: tuple[int, ...] | None
    keeps_binary_log_since: tuple[int, ...] | None
    listing_arguments: tuple[str, ...] = ("--verbose", "--help")
    value_refused: str = "Error while setting value"

    def forms(self, name: str) -> tuple[str, ...]:
        return forms(name)

    def is_loose(self, name: str) -> bool:
        return option_name(name).startswith(_LOOSE)

    def leads_away(self, name: str, value: str) -> bool:
        is_only_read = any(_ONLY_READ.fullmatch(form) for form in forms(name))
        return not is_only_read and _LEADS_AWAY.search(value) is not None

    def arguments(self, options: Iterable[Option]) -> list[str]:
        return arguments(options)

    def parse_listing(self, text: str) -> KnownOptions:
        """Parse ``--verbose --help``: all options, then a table of those with defaults."""
        described, table = text, ""
        if (rule := _TABLE_RULE.search(text)) is not None:
            described, table = text[: rule.start()], text[rule.end() :].lstrip("\n")
        names = {option_name(name) for name in _DESCRIBED_OPTION.findall(described)}
        defaults = {}
        for line in table.splitlines():
            row = _TABLE_ROW.fullmatch(line.rstrip())
            if row is None:
                break
            names.add(option_name(row[1]))
            if row[2] != "(No default value)":
                defaults[option_name(row[1])] = row[2] or ""
        return KnownOptions(frozenset(names), defaults)

    def parse_file(self, text: str) -> FileOptions:
        return parse_option_file(text)

    def log_bytes(self, configuration: Configuration, version: str) -> int:
        values = {option.name: option.value or "" for option in configuration.options}
        if "innodb_redo_log_capacity" in values:
            return parse_size(values["innodb_redo_log_capacity"])
        if "innodb_log_file_size" not in values:
            return DEFAULT_REDO_BYTES
        has_one_file = _is_from(version, self.has_one_log_file_since)
        files = 1 if has_one_file else int(values.get("innodb_log_files_in_group", "2"))
        return files * parse_size(values["innodb_log_file_size"])

    def keeps_binary_log(self, configuration: Configuration, version: str) -> bool:
        for option in configuration.options:
            if option.name in ("skip_log_bin", "disable_log_bin"):
                return False
            if option.name == "log_bin":
                return (option.value or "1").lower() not in ("0", "off")
        return _is_from(version, self.keeps_binary_log_since)


def _is_from(version: str, since: tuple[int, ...] | None) -> bool:
    return since is not None and version_key(version) >= since


def forms(name: str) -> tuple[str, ...]:
    """Return the options of a name: itself, and the rest behind a prefix (``skip_log_bin``)."""
    name = option_name(name).removeprefix(_LOOSE)
    stripped = [name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)]
    return (name, *stripped)


def arguments(options: Iterable[Option]) -> list[str]:
    """Return options as arguments of the command line."""
    return [
        f"--{option.name}" if option.value is None else f"--{option.name}={option.value}"
        for option in options
    ]


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
                mistakes.append(_mistake(number, "a group such as [mysqld]"))
            group = found[1].lower() if found is not None else group
        elif (option := _OPTION.fullmatch(_without_comment(line))) is None:
            mistakes.append(_mistake(number, "an option, such as max_connections = 500"))
        elif group is None:
            mistakes.append(_mistake(number, "a group such as [mysqld] above the options"))
        else:
            value = _value(option[3]) if option[2] else None
            options.append(FileOption(group, option[1], value, number))
    return FileOptions(tuple(options), tuple(includes), tuple(mistakes))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and stripped[0] not in "#;":
            yield number, stripped


def _mistake(number: int, expected: str) -> Diagnostic:
    """Name a line by its number alone: it may be of any file, with secrets of the user."""
    return Diagnostic("option file", "this line cannot be read", expected, line=number)


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
