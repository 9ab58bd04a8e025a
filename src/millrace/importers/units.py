"""Determine the unit of imported values and which direction is better."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from millrace.importers.csv_reader import Sheet
from millrace.model.measurements import Direction

Basis = Literal["option", "file", "unit", "assumed"]

COLUMNS = ("unit", "direction")
_DIRECTIONS: tuple[Direction, ...] = ("higher", "lower")
_TIMES = re.compile(
    "[nuµμmp]?s|([nuµμm]|nano|micro|milli|pico)?-?secs?|(nano|micro|milli|pico)?-?seconds?|"
    "(nano|micro|milli)s|mins?|minutes?|h|hrs?|hours?|days?|jiffies|ticks"  # both signs of micro
)
_INSTRUCTIONS = re.compile(r"instructions?(:\w+)?(\s*(/|per\s)\s*(?P<of>.+))?")
_CLOCKS = re.compile("(cpu |clock |ref[- ])?[kmg]?cycles?|clocks?|tsc")
_SIZES = re.compile("[kmgtp]?i?b|(kilo|mega|giga|kibi|mebi|gibi)?bytes?|allocs?|allocations?")
_FAILURES = re.compile(
    "(.*[ _-])?(errors?|errs?|failures?|failed|retries|retry|aborts?|rollbacks?|timeouts?|"
    "deadlocks?|stalls?|drops?|misses|miss|faults?|conflicts?|restarts?|reconnects?|crashes|switches|lag|"
    "latency|latencies|duration|delay|wait|waits|time)"
    "|failed \\w+|(error|failure|miss|abort|retry) (rate|ratio|count|percentage)|joules?|watts?"
)
_RATES = re.compile(
    "[kmg]?(tps|qps|rps|ops|iops|eps|bps|hz)|[kmgt]bit|[tq]pm(c|-c)?|nopm|qphh?|rpm"
)
_PER_TIME = re.compile(r"(?P<of>.+?)\s*(/|\bper\b|\ba\b)\s*(?P<time>.+)")
_PERIODS = re.compile("s|secs?|seconds?|ms|msecs?|us|µs|μs|mins?|minutes?|h|hours?|days?")
_PER = re.compile(r"\b(?:per|a)\b")
_RATIO_SIGN = re.compile(r"/|\b(?:per|a)\b")
_GOOD_TO_HAVE = re.compile(  # with these words, a higher value of a cost may be better
    r"\b(free|freed|saved|savings?|available|idle|spare|unused|remaining|avoided|headroom|between|"
    r"processed|completed|throughput|efficiency)\b"
)
_OF_SAMPLES = re.compile(  # words for a statistic of several values, not for a unit
    r"\b(p\d+(\.\d+)?|\d+(\.\d+)?(st|nd|rd|th)( percentile)?|percentile|mean|avg|average|median|"
    r"min|max|minimum|maximum|total|sum|cpu|wall|wall-clock|elapsed|real|user|sys|system|q\d+)\b"
)
_BRACKETS = re.compile(r"[(\[](.*?)[)\]]")


@dataclass(frozen=True)
class Better:
    """The better ``direction`` of values, and how it was determined (``basis``)."""

    direction: Direction
    basis: Basis
    unit: str = ""

    def __str__(self) -> str:
        text = f"{self.direction} is better"
        if self.basis == "assumed":
            return f"{text} (assumed: --direction sets it)"
        return f"{text} (unit {self.unit})" if self.unit else text


@dataclass(frozen=True)
class Measure:
    """The ``unit`` of values, empty where unknown, and their better ``direction``, if stated."""

    unit: str = ""
    direction: Direction | None = None

    def better(self, asked: Direction | None = None) -> Better:
        """Return the ``asked`` direction, else the stated one, else the unit's, else higher."""
        if asked is not None:
            return Better(asked, "option", self.unit)
        if self.direction is not None:
            return Better(self.direction, "file", self.unit)
        by_unit = _direction_of(self.unit)
        return Better(by_unit or "higher", "unit" if by_unit else "assumed", self.unit)


def counts_instructions(unit: str) -> bool:
    """Return whether ``unit`` means instruction counts, not instructions per time or cycle."""
    found = _INSTRUCTIONS.fullmatch(unit.strip().lower())
    if found is None:
        return False
    return found["of"] is None or not any(each.fullmatch(found["of"]) for each in (_TIMES, _CLOCKS))


class Measures:
    """Collect ``unit`` and ``direction``, which must be the same in all rows of a series."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._places = {name: sheet.column_if_any(name) for name in COLUMNS}
        self._found: dict[tuple[str, str], str] = {}

    def note(self, line: int, cells: Sequence[str], series: str = "") -> None:
        """Record the unit and direction of a row; report a difference from earlier rows."""
        for name, place in self._places.items():
            if place is None:
                continue
            text, where = cells[place], f"column {name}"
            first = self._found.setdefault((series, name), text)
            if name == "direction" and text not in ("", *_DIRECTIONS):
                self._sheet.mistake(line, where, f"{text!r} is not a direction", "higher or lower")
            elif text != first:
                expected = f"one {name} in all rows" + (" of a series" if series else "")
                self._sheet.mistake(line, where, f"is {text!r} after {first!r}", expected)

    def of(self, series: str = "") -> Measure:
        """Return the unit and direction of a series."""
        stated = self._found.get((series, "direction"))
        direction = next((each for each in _DIRECTIONS if each == stated), None)
        return Measure(self._found.get((series, "unit"), ""), direction)


def _direction_of(unit: str) -> Direction | None:
    """Return the better direction for a unit, None if unknown (``free bytes``, ``ops per watt``).

    Lower is better for times (``ms``, ``ns/op``), costs and failures, higher for rates. Remarks, as
    in ``ms (p95)`` or ``p95 ms``, are ignored.
    """
    if counts_instructions(unit):
        return "lower"
    name = unit.strip().lower().replace("_", " ").replace("i/o", "io")
    if _GOOD_TO_HAVE.search(_RATIO_SIGN.split(name, maxsplit=1)[0]):
        return None
    for text in (_BRACKETS.sub(" ", name), *_BRACKETS.findall(name)):
        whole, plain = (" ".join(each.split()) for each in (text, _OF_SAMPLES.sub(" ", text)))
        # The last word of a ratio is its divisor.
        last = "" if _RATIO_SIGN.search(plain) else plain.rpartition(" ")[2]
        for each in (whole, plain, last):
            if each and (direction := _direction_of_plain(each)) is not None:
                return direction
    return None


def _direction_of_plain(name: str) -> Direction | None:
    if _RATES.fullmatch(name):
        return "higher"
    ratio = _PER_TIME.fullmatch(name)
    if _is_cost(name) and not _PER.search(name):
        return "lower"
    if ratio is None:
        return None
    of, period = ratio["of"], ratio["time"]
    if _FAILURES.fullmatch(of):
        return "lower"
    time = _RATIO_SIGN.split(period, maxsplit=1)[0].strip()
    if _PERIODS.fullmatch(time):
        return None if _TIMES.fullmatch(of) or time != period else "higher"
    return "lower" if _is_cost(of) else None


def _is_cost(name: str) -> bool:
    return any(each.fullmatch(name) for each in (_TIMES, _CLOCKS, _SIZES, _FAILURES))
