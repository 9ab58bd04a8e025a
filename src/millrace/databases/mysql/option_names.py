"""The forms in which the mysqld line accepts the name of an option.

Dashes or underscores; behind ``skip``, ``disable``, ``enable`` or ``maximum``; and behind
``loose``, which makes a server ignore what it does not know.
"""

from __future__ import annotations

_PREFIXES = ("skip_", "disable_", "enable_", "maximum_")
_LOOSE = "loose_"


def normal(name: str) -> str:
    """With underscores, in lower case."""
    return name.replace("-", "_").lower()


def is_loose(name: str) -> bool:
    """Whether a server is asked to ignore the option if it does not know it."""
    return normal(name).startswith(_LOOSE)


def forms(name: str) -> tuple[str, ...]:
    """The options that a name may be about: itself, and what follows a prefix.

    ``skip_log_bin`` may be an option of that name, or ``log_bin`` switched off.
    """
    name = normal(name).removeprefix(_LOOSE)
    stripped = [name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)]
    return (name, *stripped)
