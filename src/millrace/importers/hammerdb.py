"""Read the output of one run of HammerDB's TPROC-C: new orders per minute (NOPM)."""

import re

from millrace.importers.text_output import Output, Unreadable, found_in, refuse_failed, several
from millrace.importers.units import Measure

MEASURE = Measure("NOPM", "higher")
_HINT = "give the log of one timed run of TPROC-C, up to its TEST RESULT"

_RESULT = re.compile(r"TEST RESULT : System achieved ([0-9.]+) NOPM from \d+ ")
_FAILED = re.compile(r"^.*(?:FINISHED FAILED|\bError in Virtual User\b).*", re.MULTILINE)
_VERSION = re.compile(r"^HammerDB CLI v(\S+)", re.MULTILINE)
_SETTINGS = {
    "number of virtual users": r"(\d+) Active Virtual Users configured",
    "ramp-up": r"Beginning rampup time of (\d+ minutes?)",
    "duration": r"Timing test period of (\d+) in minutes",
    "warehouses": r"\b(\d+) (?:[Ww]arehouses|Whse)\b",
}


def read(text: str) -> Output:
    """Return the new orders per minute of a run, and its settings."""
    refuse_failed(text, _FAILED)
    results: list[str] = _RESULT.findall(text)
    if len(results) > 1:
        raise several("the results", len(results), "HammerDB")
    if not results:
        raise Unreadable("has no NOPM result of HammerDB", _HINT)
    settings = found_in(text, _SETTINGS)
    users = settings.get("number of virtual users", "")
    version = _VERSION.search(text)
    program = f"HammerDB {version[1]}" if version is not None else ""
    return Output(results[0], MEASURE, settings, threads=users, program=program)
