"""Read and write durations such as ``1h30min``, and instants in UTC (ISO 8601, with seconds)."""

import re
from datetime import UTC, datetime

_UNITS_S = {"h": 3600, "min": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)min)?(?:(\d+)s)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``45min`` or ``1h30min``; else, or for 0, raise ValueError."""
    matched = _DURATION.fullmatch("".join(text.split()))
    seconds = 0 if matched is None else _seconds(matched)
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a duration such as 45min or 1h30min")
    return float(seconds)


def _seconds(matched: re.Match[str]) -> int:
    return sum(
        int(number or 0) * unit_s
        for number, unit_s in zip(matched.groups(), _UNITS_S.values(), strict=True)
    )


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
