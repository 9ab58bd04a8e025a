"""Read the output of one run of mysqlslap (mariadb-slap): the mean time of its repetitions."""

import csv
import io
import re

from millrace.importers.text_output import Output, Unreadable, found_in, refuse_failed, several
from millrace.importers.units import Measure

MEASURE = Measure("s", "lower")
_HINT = "give the whole output of one run of mysqlslap, with or without --csv"

_MEAN = re.compile(r"^\s*Average number of seconds to run all queries: ([0-9.]+) seconds", re.M)
_SETTINGS = {
    "engine": r"^\s*Running for engine (\S+)",
    "number of clients": r"^\s*Number of clients running queries: (\d+)",
    "queries per client": r"^\s*Average number of queries per client: (\d+)",
}
_FAILED = re.compile(r"^\S*(?:mysqlslap|mariadb-slap): .*(?:ERROR|[Ee]rror|Cannot).*", re.MULTILINE)
_CSV_NAMES = ("engine", "load", "mean", "least", "most", "number of clients", "queries per client")


def read(text: str) -> Output:
    """Return the mean time of a run in s, and its settings."""
    refuse_failed(text, _FAILED)
    means: list[str] = _MEAN.findall(text)
    if len(means) > 1:
        raise several("the times", len(means), "mysqlslap")
    if means:
        return _output(means[0], found_in(text, _SETTINGS))
    return _of_csv(text)


def _of_csv(text: str) -> Output:
    """Read the line that ``--csv`` writes for each number of clients."""
    try:
        lines = [line for line in csv.reader(io.StringIO(text)) if line]
    except csv.Error:
        lines = []
    rows = [line for line in lines if _is_row(line)]
    if len(rows) > 1:
        raise several("the times", len(rows), "mysqlslap")
    if not rows:
        raise Unreadable("has no mean time of mysqlslap", _HINT)
    found = dict(zip(_CSV_NAMES, rows[0], strict=False))
    names = ("engine", "load", "number of clients", "queries per client")
    return _output(found["mean"], {name: found[name] for name in names})


def _is_row(line: list[str]) -> bool:
    return (
        len(line) >= len(_CSV_NAMES)
        and all(re.fullmatch(r"\d+\.\d+", cell) for cell in line[2:5])
        and all(re.fullmatch(r"\d+", cell) for cell in line[5:7])
    )


def _output(mean_s: str, settings: dict[str, str]) -> Output:
    return Output(mean_s, MEASURE, settings, threads=settings.get("number of clients", ""))
