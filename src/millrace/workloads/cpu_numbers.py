"""Read numbers of CPUs from a text such as ``0,2-3``."""

from __future__ import annotations

import re

WANTED = 'numbers of CPUs such as "0" or "1-3,5", or "" for any'

_RANGES = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")


def cpu_numbers(text: str) -> tuple[int, ...] | None:
    """Return the CPUs that a text names, in order; None, for all CPUs, when it is empty.

    Raises ValueError for a text that is not ``WANTED``, for example one with a range from 3 to 1.
    """
    if not text:
        return None
    if not _RANGES.fullmatch(text):
        raise ValueError(f"{text!r} is not {WANTED}")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers:
            raise ValueError(f"{part} ends before it begins")
        found.update(numbers)
    return tuple(sorted(found))
