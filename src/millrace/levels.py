"""Format factors and their levels for reports, and parse levels from a command line."""

import re
from collections.abc import Mapping, Sequence

from millrace.shown_text import shown_line

# A value of a factor.
Level = str | int | float | bool

Values = Mapping[str, Level]
"""The values of a workload's factors and parameters in a treatment, by name."""

CLIENTS = "clients"
"""The factor with the number of clients; instructions per statement do not depend on it."""

_OPTIONS = "options"
_OPTION = f"{_OPTIONS}."  # the prefix of factors that are options of a server
_NAMING = frozenset(("server", "configuration", "test"))  # factors whose levels are names
# Numbers, sizes and switches, which need the factor's name.
_VALUE = re.compile(
    r"[-+]?\d[\d.,_]*\s*[a-z%]{0,3}|on|off|true|false|yes|no|auto|none|", re.IGNORECASE
)
_SWITCHES = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def split_role(factor: str) -> tuple[str | None, str]:
    """Return a factor's role and its name without the role.

    For ``replica.options.log_bin``, return ``replica`` and ``options.log_bin``. The role is None
    for a factor without a role prefix: it applies to all roles that do not set it themselves.
    """
    role, dot, rest = factor.partition(".")
    return (None, factor) if not dot or role == _OPTIONS else (role, rest)


def levels_of_role(levels: Mapping[str, Level], role: str) -> dict[str, Level]:
    """Return the levels of a role: its own ones, without the prefix, replace the shared ones."""
    split = [(*split_role(factor), level) for factor, level in levels.items()]
    shared = {name: level for of, name, level in split if of is None}
    return shared | {name: level for of, name, level in split if of == role}


def factor_text(factor: str) -> str:
    """Return a factor's name for reports, on one line, without the prefix of server options."""
    role, name = split_role(factor)
    text = name.removeprefix(_OPTION)
    return shown_line(text if role is None else f"{role} {text}")


def is_name(factor: str, level: Level) -> bool:
    """Return whether a level is clear without its factor: ``InnoDB`` is, ``8M`` is not."""
    role, name = split_role(factor)
    if role is not None or name.startswith(_OPTION) or not isinstance(level, str):
        return False
    return name in _NAMING or _VALUE.fullmatch(level) is None


def level_value(level: Level) -> str:
    """Return a level without its factor's name, on one line: ``on``, ``8M``, ``InnoDB``."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return shown_line(str(level))


def level_text(factor: str, level: Level) -> str:
    """Return a level, with its factor's name unless it is clear without.

    Examples: ``InnoDB``, ``clients 8``, ``option = 8M``, and for a role ``replica mysql-8.0.12``.
    """
    role, name = split_role(factor)
    if is_name(name, level):
        return level_value(level) if role is None else f"{shown_line(role)} {level_value(level)}"
    equals = "= " if name.startswith(_OPTION) and not isinstance(level, bool) else ""
    return f"{factor_text(factor)} {equals}{level_value(level) or '(empty)'}"


def level_named(text: str, levels: Sequence[Level]) -> Level | None:
    """Return the level that ``text`` spells, or None; ``on`` and ``1`` also spell True."""
    exactly = [level for level in levels if str(level) == text]
    switch = _SWITCHES.get(text.lower())
    alike = [level for level in levels if isinstance(level, bool) and level is switch]
    return next(iter([*exactly, *alike]), None)


def without_clients(levels: Mapping[str, Level]) -> dict[str, Level]:
    """Return the levels of all factors but the number of clients."""
    return {name: level for name, level in levels.items() if name != CLIENTS}


def levels_text(levels: Sequence[Level]) -> str:
    """Return the accepted spellings: ``1, 16``, or ``off, on (or false, true; or 0, 1)``."""
    switches = [level for level in levels if isinstance(level, bool)]
    known = ", ".join(map(level_value, levels))
    if not switches:
        return known
    words = ", ".join(str(level).lower() for level in switches)
    digits = ", ".join(str(int(level)) for level in switches)
    return f"{known} (or {words}; or {digits})"
