"""Format factors and their levels for reports, and parse levels from a command line."""

import re
from collections.abc import Mapping, Sequence

from millrace.shown_text import shown_line

# A value of a factor.
Level = str | int | float | bool

Values = Mapping[str, Level]
"""The values of a workload's factors and parameters in a treatment, by name."""

CLIENTS = "clients"
"""The factor of the number of clients; the instructions of a statement do not depend on it."""

_OPTIONS = "options"
_OPTION = f"{_OPTIONS}."  # the prefix of factors that are options of a server
_NAMING = frozenset(("server", "configuration", "test"))  # factors whose levels are names
# Numbers, sizes and switches, which need the factor's name.
_VALUE = re.compile(
    r"[-+]?\d[\d.,_]*\s*[a-z%]{0,3}|on|off|true|false|yes|no|auto|none|", re.IGNORECASE
)
_SWITCHES = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def split_role(factor: str) -> tuple[str | None, str]:
    """Return the role that a factor is of, and its name without it.

    ``replica.options.log_bin`` is ``options.log_bin`` of the role ``replica``. The role of
    ``server`` is None: all roles share it that have no level of their own.
    """
    role, dot, rest = factor.partition(".")
    return (None, factor) if not dot or role == _OPTIONS else (role, rest)


def levels_of_role(levels: Mapping[str, Level], role: str) -> dict[str, Level]:
    """Return the shared levels, and in their place those of a role's own, without its prefix."""
    split = [(*split_role(factor), level) for factor, level in levels.items()]
    shared = {name: level for of, name, level in split if of is None}
    return shared | {name: level for of, name, level in split if of == role}


def factor_text(factor: str) -> str:
    """Return a factor's name for reports, on one line; a server option has its own name."""
    role, name = split_role(factor)
    text = name.removeprefix(_OPTION)
    return shown_line(text if role is None else f"{role} {text}")


def is_name(factor: str, level: Level) -> bool:
    """Return whether a level is clear without its factor: ``InnoDB`` is, ``8M`` and ``on`` not."""
    role, name = split_role(factor)
    if role is not None or name.startswith(_OPTION) or not isinstance(level, str):
        return False
    return name in _NAMING or _VALUE.fullmatch(level) is None


def level_value(level: Level) -> str:
    """Return a level for a place next to its factor, on one line: ``on``, ``8M``, ``InnoDB``."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return shown_line(str(level))


def level_text(factor: str, level: Level) -> str:
    """Return a level among other factors' levels.

    ``InnoDB``, ``clients 8``, ``option = 8M``; of another role ``replica mysql-8.0.12``.
    """
    role, name = split_role(factor)
    if is_name(name, level):
        return level_value(level) if role is None else f"{shown_line(role)} {level_value(level)}"
    equals = "= " if name.startswith(_OPTION) and not isinstance(level, bool) else ""
    return f"{factor_text(factor)} {equals}{level_value(level) or '(empty)'}"


def level_named(text: str, levels: Sequence[Level]) -> Level | None:
    """Return the one of ``levels`` that ``text`` names, or None; ``on`` and ``1`` are true."""
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
