"""Parse and format counts, sizes (``128M`` is binary, as in server options), durations, times."""

import operator
import re
from datetime import UTC, datetime

_SIZE_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_SIZE = re.compile(r"(\d+)([KMGTPE]?)B?", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 20
_LARGEST_BYTES = 1 << 64
_TEN_YEARS_S = 10 * 366 * 24 * 3600
_NO_SECONDS_FROM_S = 600
_DAYS_FROM_MIN = 3 * 24 * 60
_MOST_DAYS = 100_000
_DURATION_UNITS_S = (3600, 60, 1)  # of an hour, a minute, a second
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)min)?(?:(\d+)s)?", re.ASCII)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return text such as ``1 block``, ``5 blocks``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``4096``, ``192K``, ``12G``; ValueError if invalid."""
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise ValueError(f"{text!r} is not a size such as 128M or 12G")
    size_bytes = int(matched[1][:_MOST_DIGITS]) << _SIZE_UNITS[matched[2].upper()]
    if len(matched[1]) > _MOST_DIGITS or size_bytes > _LARGEST_BYTES:
        raise ValueError(f"{_short(text)} is larger than 16E")
    return size_bytes


def exact_size(size_bytes: int) -> str:
    """Return the shortest exact text that ``parse_size`` reads: ``12G``, ``1900M``, ``1000``."""
    if size_bytes == 0:
        return "0"
    unit = max(
        (unit for unit, shift in _SIZE_UNITS.items() if size_bytes % (1 << shift) == 0),
        key=_SIZE_UNITS.__getitem__,
    )
    return f"{size_bytes >> _SIZE_UNITS[unit]}{unit}"


def readable_size(size_bytes: int) -> str:
    """Return a size for display, in decimal units with three digits: ``5.84 GB``."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError("the loop returns at TB")


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``45min`` or ``1h30min``; ValueError if invalid or 0."""
    matched = _DURATION.fullmatch("".join(text.split()))
    numbers = () if matched is None else matched.groups(default="0")
    if any(len(number) > _MOST_DIGITS for number in numbers):
        raise ValueError(f"{_short(text)} is longer than ten years")
    seconds = sum(map(operator.mul, map(int, numbers), _DURATION_UNITS_S))
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a duration such as 45min or 1h30min")
    if seconds > _TEN_YEARS_S:
        raise ValueError(f"{_short(text)} is longer than ten years")
    return float(seconds)


def _short(text: str) -> str:
    return repr(text if len(text) <= 2 * _MOST_DIGITS else f"{text[:_MOST_DIGITS]}...")


def duration_in_words(seconds: float) -> str:
    """Return a duration in words, such as ``90 s``, ``2 min 05 s``, ``12 min``, ``2 h 05 min``.

    Seconds appear below ten minutes, minutes from two minutes on, days from three days on.
    """
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < _NO_SECONDS_FROM_S:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest:02} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    if minutes < _DAYS_FROM_MIN:
        return f"{minutes // 60} h {minutes % 60:02} min"
    days = minutes / (24 * 60)
    return f"{days:,.0f} days" if days < _MOST_DAYS else f"more than {_MOST_DAYS:,} days"


def utc_now() -> str:
    """Return the current time as text in UTC."""
    return utc_text(datetime.now(UTC))


def utc_text(instant: datetime) -> str:
    """Return a time-zone-aware ``instant`` as text in UTC: ``2026-05-01T02:00:00Z``."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
