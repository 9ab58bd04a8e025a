"""Read the output of one run of sysbench 0.4 to 1.1: its rate, settings, and errors.

The rate is transactions per second of SQL tests, reads and writes per second of ``fileio``,
operations per second of ``memory``, and events per second (``eps`` in version 1.1) of other tests.
With ``--report-checkpoints`` a run prints several reports, each about the time since the previous
report; the value is that of the last report that is not much shorter than the others.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from millrace.importers.paired import Counts
from millrace.importers.text_output import Output, Unreadable, found_in, refuse_failed, several
from millrace.importers.units import Measure

_HINT = "give the whole output of one run of sysbench, up to its end"

_VERSION = re.compile(r"^sysbench v?(\d[^\s:]*)", re.MULTILINE)
_CHECKPOINT = re.compile(r"^\[ *(\d+)s *\] Checkpoint report:", re.MULTILINE)
_FAILED = re.compile(r"^(?:FATAL|PANIC|ERROR):.*", re.MULTILINE)
_SHORT = 0.1  # share of the longest report: a shorter one is the rest after the last checkpoint

_NUMBER = r"([0-9.eE+-]+|nan|inf)"
_RATES = (
    (
        "transactions/s",
        re.compile(rf"^[ \t]*transactions:[ \t]+(\d+)[ \t]+\({_NUMBER} per sec\.\)"),
    ),
    ("events/s", re.compile(rf"^[ \t]*events/s \(eps\):()[ \t]+{_NUMBER}")),
    ("events/s", re.compile(rf"^[ \t]*events per second:()[ \t]+{_NUMBER}")),
    (
        "operations/s",
        re.compile(rf"^[ \t]*(?:Total operations|Operations performed): (\d+) \( *{_NUMBER} "),
    ),
)
_ERRORS = re.compile(r"^[ \t]*(?:ignored errors|deadlocks|reconnects):[ \t]+(\d+)[ \t]+\(", re.M)
_FILE_RATES = (
    re.compile(r"^[ \t]*(?:reads|writes)/s:[ \t]+([0-9.]+)", re.MULTILINE),
    re.compile(r"^[ \t]*(?:read|write): +IOPS=([0-9.]+)", re.MULTILINE),
)
_TOTAL_TIME = re.compile(r"^[ \t]*(?:total time|time elapsed):[ \t]+([0-9.]+)s", re.MULTILINE)
_TOTAL_EVENTS = re.compile(r"^[ \t]*total number of events:[ \t]+(\d+)", re.MULTILINE)
_SETTINGS = {
    "number of threads": r"^Number of threads:[ \t]*(\d+)",
    "target rate": r"^Target transaction rate:[ \t]*(\S+)",
    "limit of primes": (
        r"^(?:Prime numbers limit|Maximum prime number checked in CPU test):[ \t]*(\d+)"
    ),
    "block size": r"(?i)^[ \t]*block size:?[ \t]+(\S+)",
    "total size": r"^[ \t]*total size:[ \t]*(\S+)",
    "operation": r"^[ \t]*operation:[ \t]*(\S+)",
    "scope": r"^[ \t]*scope:[ \t]*(\S+)",
    "files": r"^(\d+ files, \S+) each",
    "total file size": r"^(\S+) total file size",
    "I/O mode": r"^Using (.+) I/O mode",
    "test": r"^Doing (.+) test",
    "calls of fsync": r"^Periodic FSYNC enabled, calling (.+)",
    "read/write ratio": r"^Read/Write ratio for combined .*:[ \t]*(\S+)",
}
_COMMAND = re.compile(r"^.*\bsysbench\b.* --.*$", re.MULTILINE)
_OPTION = re.compile(r"(?<!\S)--([a-z][a-z0-9_-]*)(?:[= ](?!-)(\S+))?")
_SCRIPT = re.compile(r"(?<!\S)(?:\S*/)?(oltp_\w+|select_random_\w+|bulk_insert|\w+\.lua)(?!\S)")
_INCIDENTAL = frozenset(
    (
        "db-driver", "debug", "db-debug", "histogram", "luajit-cmd", "percentile", "rand-seed",
        "report-interval", "validate", "verbosity",
    )
)  # fmt: skip
"""Options that do not change the load."""
_CONNECTION = ("mysql-", "pgsql-", "db-ps-")
_SAME_OPTION = {
    "num-threads": "threads", "max-time": "time", "max-requests": "events", "tx-rate": "rate",
    "oltp-table-size": "table-size", "oltp-tables-count": "tables",
}  # fmt: skip


@dataclass(frozen=True)
class _Report:
    """One report of a run: the rate as text, its unit, and the duration in s (0 if unknown)."""

    rate: str
    unit: str
    seconds: float
    text: str


def read(text: str) -> Output:
    """Return the rate, the settings and the failures that a run of sysbench reported."""
    refuse_failed(text, _FAILED)
    versions = _VERSION.findall(text)
    if len(versions) > 1:
        raise several("the output", len(versions), "sysbench")
    report, number, n_reports = _last_report(text)
    settings = _settings(text)
    events = _TOTAL_EVENTS.findall(report.text)
    n_errors = _ERRORS.findall(report.text)
    count = re.search(r"^[ \t]*transactions:[ \t]+(\d+)", report.text, re.MULTILINE)
    return Output(
        number=report.rate,
        measure=Measure(report.unit, "higher"),
        settings=settings,
        threads=settings.get("number of threads", ""),
        program=f"sysbench {versions[0]}" if versions else "",
        duration_s=report.seconds,
        events=int(events[-1] if events else count[1] if count else 0),
        counts=Counts(int(count[1]), sum(map(int, n_errors))) if count and n_errors else Counts(),
        note=f"the value is from report {number} of {n_reports}" if n_reports > 1 else "",
    )


def _last_report(text: str) -> tuple[_Report, int, int]:
    """Return the report with the value, its number from 1, and the number of reports."""
    marks = [match.start() for match in _CHECKPOINT.finditer(text)]
    if not marks:
        return _report(text), 1, 1
    bounds = [*marks, len(text)]
    parts = [text[start:end] for start, end in pairwise(bounds)]
    # No line separates the final report from the last checkpoint's.
    *_, last = parts
    if len(starts := [each.start() for each in _SECTION.finditer(last)]) > 1:
        parts[-1:] = [last[: starts[1]], last[starts[1] :]]
    reports = [_report(part) for part in parts]
    longest = max(each.seconds for each in reports)
    number = max(n for n, each in enumerate(reports, 1) if each.seconds >= _SHORT * longest)
    return reports[number - 1], number, len(reports)


_SECTION = re.compile(r"^(?:SQL|General) statistics:|^Throughput:|^File operations:", re.MULTILINE)


def _report(text: str) -> _Report:
    lines = text.splitlines()
    total = _TOTAL_TIME.search(text)
    seconds = float(total[1]) if total else 0.0
    for unit, pattern in _RATES:
        found = [match for line in lines if (match := pattern.match(line))]
        if len(found) > 1:
            raise several("the rates", len(found), "sysbench")
        if found:
            count, rate = found[0].groups()
            return _Report(rate, unit, _seconds(count, rate) or seconds, text)
    for pattern in _FILE_RATES:
        rates = pattern.findall(text)
        if len(rates) > 2:
            raise several("the rates", len(rates) // 2, "sysbench")
        if rates:
            rate = f"{sum(map(_float, rates)):.2f}"
            return _Report(rate, "reads and writes/s", seconds, text)
    events = _TOTAL_EVENTS.search(text)
    if events is not None and seconds > 0:
        return _Report(repr(int(events[1]) / seconds), "events/s", seconds, text)
    raise Unreadable("has no rate (per second) of sysbench", _HINT)


def _seconds(count: str, rate: str) -> float:
    per_s = _float(rate)
    return int(count) / per_s if count and per_s > 0 else 0.0


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _settings(text: str) -> dict[str, str]:
    command = _COMMAND.search(text)
    return found_in(text, _SETTINGS) | (_options(command[0]) if command is not None else {})


def _options(command: str) -> dict[str, str]:
    """Return the options of a command line that change the load, and the name of the test."""
    found = {}
    for spelled, value in _OPTION.findall(command):
        name = spelled.replace("_", "-")
        if name not in _INCIDENTAL and not name.startswith(_CONNECTION):
            found[f"--{_SAME_OPTION.get(name, name)}"] = value or "on"
    if (script := _SCRIPT.search(command)) is not None:
        found["test"] = script[1].removesuffix(".lua")
    return found
