"""Factors and their levels as reports write them, and levels as they are written on a command
line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from millrace.shown_text import shown_line

# What a factor is set to.
Level = str | int | float | bool

_OPTION = "options."  # begins the names of factors that are options of a server
_NAMING = frozenset(("server", "configuration", "test"))  # factors whose levels are names
# Numbers, sizes and switches, which say nothing by themselves.
_VALUE = re.compile(
    r"[-+]?\d[\d.,_]*\s*[a-z%]{0,3}|on|off|true|false|yes|no|auto|none|", re.IGNORECASE
)
_SWITCHES = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def factor_text(factor: str) -> str:
    """Return a factor as reports call it, on one line: a server option by its own name."""
    return shown_line(factor.removeprefix(_OPTION))


def is_name(factor: str, level: Level) -> bool:
    """Whether a level says what it is without its factor: a server, a configuration, a test, and
    words such as ``InnoDB``; not ``8``, ``8M`` or ``on``, nor any value of a server option."""
    if factor.startswith(_OPTION) or not isinstance(level, str):
        return False
    # Of a replica, say: replica.server.
    return factor.rpartition(".")[2] in _NAMING or _VALUE.fullmatch(level) is None


def level_value(level: Level) -> str:
    """Return a level where its factor stands beside it, on one line: ``on``, ``8M``, ``InnoDB``."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return shown_line(str(level))


def level_text(factor: str, level: Level) -> str:
    """A level to stand among those of other factors: ``InnoDB``, ``clients 8``, ``tls on``,
    ``innodb_buffer_pool_size = 8M``."""
    if is_name(factor, level):
        return level_value(level)
    equals = "= " if factor.startswith(_OPTION) and not isinstance(level, bool) else ""
    return f"{factor_text(factor)} {equals}{level_value(level) or '(empty)'}"


def level_named(text: str, levels: Sequence[Level]) -> Level | None:
    """The one of ``levels`` that ``text`` is; None where it is none of them. A switch may be
    written ``true``, ``on`` or ``1``, and ``false``, ``off`` or ``0``."""
    exactly = [level for level in levels if str(level) == text]
    switch = _SWITCHES.get(text.lower())
    alike = [level for level in levels if isinstance(level, bool) and level is switch]
    return next(iter([*exactly, *alike]), None)


def levels_text(levels: Sequence[Level]) -> str:
    """What may be written for ``levels``: ``1, 16``; ``off, on (or false, true; or 0, 1)``."""
    switches = [level for level in levels if isinstance(level, bool)]
    known = ", ".join(map(level_value, levels))
    if not switches:
        return known
    words = ", ".join(str(level).lower() for level in switches)
    digits = ", ".join(str(int(level)) for level in switches)
    return f"{known} (or {words}; or {digits})"
