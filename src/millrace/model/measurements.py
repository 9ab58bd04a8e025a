"""The names of measurements. The unit ends a name; a name without one is a count."""

from __future__ import annotations

DURATION = "_duration_s"


def duration_s(phase: str) -> str:
    """Return the measurement that is the time of a phase."""
    return f"{phase}{DURATION}"


def generator_wait_s(phase: str) -> str:
    """Return the measurement that is how long a loading phase waited for rows to be made."""
    return f"{phase}_generator_wait_s"


def warnings(phase: str) -> str:
    """Return the measurement that counts the server's warnings in a loading phase."""
    return f"{phase}_warnings"
