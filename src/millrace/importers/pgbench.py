"""Read the output of one run of pgbench: its rate, settings, and failures."""

import re

from millrace.importers.paired import Counts
from millrace.importers.text_output import (
    Output,
    Unreadable,
    found_in,
    of_failed_run,
    refuse_failed,
    several,
)
from millrace.importers.units import Measure

MEASURE = Measure("transactions/s", "higher")
_HINT = "give the whole output of one run of pgbench, up to its end"

_NUMBER = r"([0-9.eE+-]+|nan|inf)"
# The rate without the connection time. PostgreSQL 14 and later print only this rate; earlier
# versions print the rate with the connection time before it.
_RATES = tuple(
    re.compile(rf"^tps = {_NUMBER} ?\({which}\)", re.MULTILINE)
    for which in (
        "without initial connection time",
        "excluding connections establishing",
        "including reconnection times",
    )
)
_FAILED = re.compile(
    r"^.*(?:Run was aborted|client \d+ (?:script \d+ )?aborted|connection to .* failed).*",
    re.MULTILINE,
)
_VERSION = re.compile(r"^pgbench \((?:PostgreSQL\) )?(\d[\d.]*\w*)", re.MULTILINE)
_SAME_NAMES = (
    "transaction type", "scaling factor", "partition method", "partitions", "query mode",
    "number of clients", "number of threads", "maximum number of tries", "duration",
)  # fmt: skip
_SETTINGS = {
    **{name: rf"^{name}: *(.+)" for name in _SAME_NAMES},
    "transactions per client": r"^number of transactions per client: *(.+)",
    "latency limit": r"^number of transactions above the (.+ ms) latency limit: *(.+)",
    "script 1": r"^SQL script 1: *(.+)",
    "script 2": r"^SQL script 2: *(.+)",
}
_PROCESSED = re.compile(
    r"^number of transactions actually processed: (\d+)(?:/(\d+))?", re.MULTILINE
)
_COUNTS = {
    "errors": r"^number of failed transactions: (\d+)",
    "retries": r"^number of transactions retried: (\d+)",
    "skipped": r"^number of transactions skipped: (\d+)",
}


def read(text: str) -> Output:
    """Return the rate, the settings and the failures that a run of pgbench reported."""
    refuse_failed(text, _FAILED)
    rate = _rate(text)
    processed = _PROCESSED.search(text)
    if processed is not None and processed[2] and processed[1] != processed[2]:
        early = f"that ended after {processed[1]} of {processed[2]} transactions"
        raise of_failed_run(early)
    settings = found_in(text, _SETTINGS)
    version = _VERSION.search(text)
    counts = {name: int(count) for name, count in found_in(text, _COUNTS).items()}
    return Output(
        number=rate,
        measure=MEASURE,
        settings=settings,
        threads=settings.get("number of clients", ""),
        program=f"pgbench {version[1]}" if version is not None else "",
        counts=Counts(int(processed[1]) if processed is not None else None, **counts),
    )


def _rate(text: str) -> str:
    for pattern in _RATES:
        rates: list[str] = pattern.findall(text)
        if len(rates) > 1:
            raise several("the rates", len(rates), "pgbench")
        if rates:
            return rates[0]
    raise Unreadable("has no rate (tps) of pgbench", _HINT)
