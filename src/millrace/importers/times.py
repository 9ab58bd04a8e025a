"""Parse the times of a history's rows, in the formats of common tools, and sort rows by time."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import pairwise

_ISO_IN_TEXT = re.compile(r"(?<!\d)((?:19|20)\d\d-\d\d-\d\d)(?!\d)")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_COMPACT = re.compile(r"(?:19|20)\d{6}")
_MONTH = re.compile(r"((?:19|20)\d\d)[-/.](\d\d?)")
_SEPARATED = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?:[T ,]+(.*))?")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([aApP][mM])?")
_FORMATS = (
    "%a %b %d %H:%M:%S %Y %z",  # git log
    "%a %b %d %H:%M:%S %Y",
    "%a %b %d %H:%M:%S %Z %Y",  # date
    "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%d-%b-%Y", "%b %Y", "%B %Y",
    "%d %b %Y %H:%M", "%d %b %Y %H:%M:%S", "%b %d, %Y %H:%M", "%b %d, %Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d_%H-%M-%S", "%Y-%m-%d_%H-%M", "%Y%m%d-%H%M%S", "%Y%m%d_%H%M%S",
    "%Y-%m-%d-%H-%M-%S", "%Y-%m-%dT%H-%M-%S",
)  # fmt: skip


class Ambiguous(ValueError):
    """An error for dates such as 01/02/2026 whose order of day and month is unknown."""


def times(texts: Sequence[str], *, numbers: bool) -> list[float] | None:
    """Return each text as seconds since 1970 (UTC without an offset); None if one is not a time.

    With ``numbers``, plain numbers in any unit are times too, and so are dates such as 31.01.26,
    which may otherwise be versions. Raise Ambiguous if the order of day and month is unknown and
    changes the order of the rows.
    """
    if not texts:
        return None
    if numbers and all(_NUMBER.fullmatch(text) for text in texts):
        values = [float(text) for text in texts]
        return values if all(map(math.isfinite, values)) else None
    for read in (_instant, _instant_in_text):
        if (found := _all(read, texts)) is not None:
            return found
    of_short_years = "/." if numbers else "/"
    readings = [
        found
        for month_first in (True, False)
        if (found := _all(partial(_separated, month_first, of_short_years), texts))
    ]
    if not readings:
        return None
    monotone = [found for found in readings if is_in_order(found) or is_in_order(found[::-1])]
    likely = monotone if len(monotone) == 1 else readings
    if len({tuple(order(found)) for found in likely}) > 1:
        raise Ambiguous
    return likely[0]


def is_in_order(instants: Sequence[float]) -> bool:
    """Return whether the times never decrease."""
    return all(a <= b for a, b in pairwise(instants))


def order(instants: Sequence[float]) -> list[int]:
    """Return the indices of rows in the order of time.

    Rows of equal times keep their order, or are reversed if all rows are newest first.
    """
    places = list(range(len(instants)))
    newest_first = not is_in_order(instants) and is_in_order(instants[::-1])
    if newest_first:
        places.reverse()
    return sorted(places, key=instants.__getitem__)


def _all(read: Callable[[str], float | None], texts: Sequence[str]) -> list[float] | None:
    found = []
    for text in texts:
        instant = read(text)
        if instant is None:
            return None
        found.append(instant)
    return found


def _instant(text: str) -> float | None:
    try:
        if _COMPACT.fullmatch(text) or not text.isdigit():
            return _seconds(datetime.fromisoformat(text))
    except ValueError:
        pass
    if (month := _MONTH.fullmatch(text)) is not None and 1 <= int(month[2]) <= 12:
        return _seconds(datetime(int(month[1]), int(month[2]), 1))  # noqa: DTZ001
    if (parts := _SEPARATED.fullmatch(text)) is not None and len(parts[1]) == 4:
        return _calendar(int(parts[1]), int(parts[3]), int(parts[4]), parts[5])
    for form in _FORMATS:
        try:
            return _seconds(datetime.strptime(text, form))  # noqa: DTZ007
        except ValueError:
            continue
    try:
        return _seconds(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError):
        return None


def _instant_in_text(text: str) -> float | None:
    """Return the time of the only ISO date in a label such as ``nightly-2026-01-02``, or None."""
    found = _ISO_IN_TEXT.findall(text)
    try:
        return _seconds(datetime.fromisoformat(found[0])) if len(found) == 1 else None
    except ValueError:
        return None


def _separated(month_first: bool, of_short_years: str, text: str) -> float | None:
    """Return the time of a date with the year last, or None; some separators allow short years."""
    parts = _SEPARATED.fullmatch(text)
    if parts is None or len(parts[1]) > 2 or len(parts[4]) not in (2, 4):
        return None
    if len(parts[4]) == 2 and parts[2] not in of_short_years:  # a version, such as 10.4.20
        return None
    year = int(parts[4]) + (2000 if len(parts[4]) == 2 else 0)
    first, second = int(parts[1]), int(parts[3])
    month, day = (first, second) if month_first else (second, first)
    return _calendar(year, month, day, parts[5])


def _calendar(year: int, month: int, day: int, clock: str | None) -> float | None:
    try:
        midnight = _seconds(datetime.combine(date(year, month, day), datetime.min.time()))
    except ValueError:
        return None
    if not clock:
        return midnight
    parts = _CLOCK.fullmatch(clock.strip())
    if parts is None:
        return None
    hour = int(parts[1])
    if parts[5]:
        hour = hour % 12 + (12 if parts[5].lower() == "pm" else 0)
    seconds = float(f"{parts[3] or 0}.{parts[4] or 0}")
    return midnight + timedelta(hours=hour, minutes=int(parts[2]), seconds=seconds).total_seconds()


def _seconds(instant: datetime) -> float:
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
