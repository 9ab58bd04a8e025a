"""Read what one run of pgbench prints: its rate, settings, and failures."""

import re

from millrace.importers.text_output import (
    Output,
    Unreadable,
    of_failed_run,
    refuse_failed,
    several,
)
from millrace.importers.units import Measure

MEASURE = Measure("transactions/s", "higher")
_HINT = "keep all that one run of pgbench prints, up to its end, in the file"

_NUMBER = r"([0-9.eE+-]+|nan|inf)"
# Without the connection time, as PostgreSQL 14 and later print it. Earlier versions print both; the
# second is the one without.
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
_SETTINGS = tuple(
    (name, re.compile(rf"^{printed}: *(.+)", re.MULTILINE))
    for name, printed in (
        ("transaction type", "transaction type"),
        ("scaling factor", "scaling factor"),
        ("partition method", "partition method"),
        ("partitions", "partitions"),
        ("query mode", "query mode"),
        ("number of clients", "number of clients"),
        ("number of threads", "number of threads"),
        ("maximum number of tries", "maximum number of tries"),
        ("duration", "duration"),
        ("transactions per client", "number of transactions per client"),
        ("latency limit", r"number of transactions above the (.+ ms) latency limit"),
        ("script 1", "SQL script 1"),
        ("script 2", "SQL script 2"),
    )
)
_PROCESSED = re.compile(
    r"^number of transactions actually processed: (\d+)(?:/(\d+))?", re.MULTILINE
)
_COUNTS = {
    name: re.compile(rf"^number of {printed}: (\d+)", re.MULTILINE)
    for name, printed in (
        ("failed", "failed transactions"),
        ("retried", "transactions retried"),
        ("skipped", "transactions skipped"),
    )
}


def read(text: str) -> Output:
    """Return the rate, the settings and the failures that a run of pgbench printed.

    Raises Unreadable for other text, for several runs, and for a run which failed.
    """
    refuse_failed(text, _FAILED)
    rate = _rate(text)
    processed = _PROCESSED.search(text)
    if processed is not None and processed[2] and processed[1] != processed[2]:
        early = f"that ended early, with {processed[1]} of {processed[2]} transactions"
        raise of_failed_run(early)
    settings = {
        name: found[1].strip()
        for name, pattern in _SETTINGS
        if (found := pattern.search(text)) is not None
    }
    version = _VERSION.search(text)
    counts = {
        name: int(found[1])
        for name, pattern in _COUNTS.items()
        if (found := pattern.search(text)) is not None
    }
    return Output(
        number=rate,
        measure=MEASURE,
        settings=settings,
        threads=settings.get("number of clients", ""),
        program=f"pgbench {version[1]}" if version is not None else "",
        operations=int(processed[1]) if processed is not None else None,
        errors=counts.get("failed"),
        retries=counts.get("retried"),
        skipped=counts.get("skipped"),
    )


def _rate(text: str) -> str:
    for pattern in _RATES:
        rates: list[str] = pattern.findall(text)
        if len(rates) > 1:
            raise several("the rates", len(rates), "pgbench")
        if rates:
            return rates[0]
    raise Unreadable("has no transactions per second of pgbench", _HINT)
