"""Read and write the files of an attempt: one per kind, next to the database.

Histograms are a JSON list of records, which only analyses decode. The other kinds are JSON lines:
the load generator's series by second (docs/load-spec.md), samples of a replica's lag
(docs/replication.md), and the results of loops. ``observations`` has the file of that kind.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from millrace import safe_json
from millrace.errors import DamagedResult
from millrace.model.documents import EXACT
from millrace.model.observations import Observations
from millrace.model.roles import MEASURED
from millrace.store import checked, observations, records
from millrace.store.artefacts import Artefacts
from millrace.store.checked import NotARecord
from millrace.store.records import StoredAttempt, StoredRun

_Content = TypeVar("_Content")

HISTOGRAMS, LAG, LOOPS, SERIES = "histograms", "lag", "loops", "series"
"""The kinds of files that this module reads."""

_ROLE_OF_HISTOGRAMS = "client"
_HISTOGRAMS = TypeAdapter(tuple[records.HistogramRecord, ...], config=EXACT)
_LONGEST_S = 1e12
_MOST_LINES = 1_000_000
_MOST_LOOPS = 100_000
_EVENTS: Mapping[str, type[records.DrivenPhase | records.DrivenInterval]] = {
    "phase": records.DrivenPhase,
    "interval": records.DrivenInterval,
}


def of_histograms(result: records.AttemptResult) -> Iterator[records.NewArtefact]:
    """Yield the file with an attempt's histograms; nothing if it has none."""
    if result.histograms:
        content = _HISTOGRAMS.dump_json(result.histograms)
        yield records.NewArtefact(HISTOGRAMS, _ROLE_OF_HISTOGRAMS, content)


def parse_histograms(content: bytes) -> tuple[records.HistogramRecord, ...]:
    """Parse a file of histograms; raise ValueError if it is invalid."""
    try:
        return _HISTOGRAMS.validate_json(content)
    except ValidationError as error:
        raise NotARecord(checked.first_problem(error)) from error


def check_histograms(content: bytes) -> None:
    """Raise ValueError if a file of histograms exceeds limits, or has wrong types or values."""
    safe_json.parse(content, checked.OF_A_FILE)
    for each in checked.from_json(tuple[records.HistogramRecord, ...], content):
        if each.count < 0 or not 0 <= each.sum_s <= _LONGEST_S:
            raise NotARecord(f"{each.name}: count is {each.count} and sum_s is {each.sum_s}")


def parse_series(content: bytes) -> tuple[records.DrivenPhase | records.DrivenInterval, ...]:
    """Parse a series; skip events of unknown types, raise ValueError for invalid ones."""
    lines = enumerate(safe_json.parse_lines(content, _MOST_LINES), start=1)
    return tuple(
        checked.document(f"line {number}", kind, line)
        for number, line in lines
        if (kind := _EVENTS.get(str(line.get("type")))) is not None
    )


def parse_lag(content: bytes) -> tuple[records.LagSample, ...]:
    """Parse a file of replication lag samples; raise ValueError if it is invalid."""
    return tuple(map(records.LagSample.model_validate, safe_json.parse_lines(content, _MOST_LINES)))


def parse_loops(content: bytes) -> tuple[records.LoopRecord, ...]:
    """Parse a file of loops; raise ValueError if it is invalid or the numbers have gaps."""
    lines = safe_json.parse_lines(content, _MOST_LOOPS)
    found = tuple(map(records.LoopRecord.model_validate, lines))
    if any(each.loop != number for number, each in enumerate(found, start=1)):
        raise ValueError("loops are not numbered 1, 2, 3, ...")
    return found


CHECKS: Mapping[str, Callable[[bytes], object]] = {
    HISTOGRAMS: check_histograms,
    LAG: parse_lag,
    LOOPS: parse_loops,
    observations.KIND: observations.parse,
    SERIES: parse_series,
}
"""Checks by kind of file; each raises ValueError for an invalid (perhaps malicious) content."""


def read_back(stored: StoredRun, artefacts: Artefacts, *, observations_too: bool) -> StoredRun:
    """Return ``stored`` with its attempts' files; raise DamagedResult unless all are intact."""
    attempts = (_with_files(attempt, artefacts) for attempt in stored.attempts)
    if observations_too:
        attempts = (_with_observations(attempt, artefacts) for attempt in attempts)
    return replace(stored, attempts=tuple(attempts))


def _with_files(attempt: StoredAttempt, artefacts: Artefacts) -> StoredAttempt:
    return replace(
        attempt,
        histograms=tuple(
            chain.from_iterable(_contents(attempt, HISTOGRAMS, artefacts, parse_histograms))
        ),
        series=next(_contents(attempt, SERIES, artefacts, parse_series), ()),
        lag=next(_contents(attempt, LAG, artefacts, parse_lag), ()),
        loops=next(_contents(attempt, LOOPS, artefacts, parse_loops), ()),
    )


def _with_observations(attempt: StoredAttempt, artefacts: Artefacts) -> StoredAttempt:
    of_measured = tuple(each for each in attempt.artefacts if each.role in MEASURED)
    measured = replace(attempt, artefacts=of_measured)
    files = _contents(measured, observations.KIND, artefacts, observations.parse)
    found = next(files, Observations())
    server = next((each.server for each in attempt.instances if each.role in MEASURED), None)
    if server is not None:
        found = observations.in_neutral_terms(found, server.family)
    return replace(attempt, observations=found)


def _contents(
    attempt: StoredAttempt, kind: str, artefacts: Artefacts, parse: Callable[[bytes], _Content]
) -> Iterator[_Content]:
    """Yield the parsed files of one kind; raise DamagedResult if ``parse`` raises ValueError."""
    for artefact in attempt.artefacts:
        if artefact.kind == kind:
            try:
                yield parse(artefacts.read(artefact.sha256))
            except ValueError as error:
                path = artefacts.path(artefact.sha256)
                raise DamagedResult(f"{path}: not a valid {kind} file ({error})") from error
