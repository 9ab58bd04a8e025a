"""Durations as people write them: ``45min``, ``1h30min``; and as they read them."""

from __future__ import annotations

import re

_UNITS_S = {"h": 3600, "min": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)min)?(?:(\d+)s)?", re.ASCII)


def parse(text: str) -> float:
    """Seconds of a duration such as ``90s``, ``45min`` or ``1h30min``; ValueError for anything else
    and for nothing at all."""
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


def in_words(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2 h 05 min``."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
