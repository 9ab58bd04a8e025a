"""Read and write durations such as ``1h30min``, and instants in UTC (ISO 8601, with seconds)."""

import operator
import re
from datetime import UTC, datetime

_UNITS_S = (3600, 60, 1)  # of an hour, a minute, a second
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)min)?(?:(\d+)s)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``45min`` or ``1h30min``; else, or for 0, raise ValueError."""
    matched = _DURATION.fullmatch("".join(text.split()))
    numbers = () if matched is None else map(int, matched.groups(default="0"))
    seconds = sum(map(operator.mul, numbers, _UNITS_S))
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a duration such as 45min or 1h30min")
    return float(seconds)


def duration_in_words(seconds: float) -> str:
    """Return a duration in words, such as ``40 s``, ``12 min`` or ``2 h 05 min``."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def utc_now() -> str:
    """Return the current time."""
    return utc_text(datetime.now(UTC))


def utc_text(instant: datetime) -> str:
    """Return an instant, which has a time zone, as text."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
