"""Parse the options of the mysqld line, and derive the logs that they make a server keep.

The line accepts names with dashes or underscores; behind ``skip``, ``disable``, ``enable`` or
``maximum``; and behind ``loose``, which makes a server ignore an option it does not know.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millrace.databases.base import FileOptions, Replacement, Successor, version_key
from millrace.databases.mysql.option_file import parse_option_file
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


@dataclass(frozen=True)
class MysqlOptions:
    """The options of a family: see ``databases.base.Options``."""

    administrative: frozenset[str]
    init_options: frozenset[str]
    runtime_only: tuple[str, ...]
    replacements: tuple[Replacement, ...]
    successors: tuple[Successor, ...]
    has_one_log_file_since: tuple[int, ...] | None
    keeps_binary_log_since: tuple[int, ...] | None
    file_groups: tuple[str, ...]
    own_files: frozenset[str]
    memory: frozenset[str]
    needs_others: tuple[str, ...]
    read_only: frozenset[str]
    needs: Mapping[str, Mapping[str, str]]
    secrets: tuple[str, ...]
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
