"""Read an attempt's files next to the database: histograms, series and observations."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from millrace.errors import DamagedResult
from millrace.model.observations import Observations
from millrace.model.roles import MEASURED
from millrace.store import histograms, lag, loops, observations, series
from millrace.store.artefacts import Artefacts
from millrace.store.records import StoredAttempt, StoredRun

_Content = TypeVar("_Content")

CHECKS: Mapping[str, Callable[[bytes], object]] = {
    histograms.KIND: histograms.check,
    lag.KIND: lag.parse,
    loops.KIND: loops.parse,
    observations.KIND: observations.parse,
    series.KIND: series.parse,
}
"""Raise ValueError for the bytes of a file, by its kind, that another user may have written."""


def read_back(stored: StoredRun, artefacts: Artefacts, *, observations_too: bool) -> StoredRun:
    """Return ``stored`` with its attempts' files; raise DamagedResult unless all are intact."""
    attempts = (_with_files(attempt, artefacts) for attempt in stored.attempts)
    if observations_too:
        attempts = (_with_observations(attempt, artefacts) for attempt in attempts)
    return replace(stored, attempts=tuple(attempts))


def _with_files(attempt: StoredAttempt, artefacts: Artefacts) -> StoredAttempt:
    of_histograms = _contents(attempt, histograms.KIND, artefacts, histograms.parse)
    of_series = _contents(attempt, series.KIND, artefacts, series.parse)
    return replace(
        attempt,
        histograms=tuple(chain.from_iterable(of_histograms)),
        series=next(iter(of_series), ()),
        lag=next(iter(_contents(attempt, lag.KIND, artefacts, lag.parse)), ()),
        loops=next(iter(_contents(attempt, loops.KIND, artefacts, loops.parse)), ()),
    )


def _with_observations(attempt: StoredAttempt, artefacts: Artefacts) -> StoredAttempt:
    of_measured = tuple(each for each in attempt.artefacts if each.role in MEASURED)
    measured = replace(attempt, artefacts=of_measured)
    files = _contents(measured, observations.KIND, artefacts, observations.parse)
    found = next(iter(files), Observations())
    server = next((each.server for each in attempt.instances if each.role in MEASURED), None)
    if server is not None:
        found = observations.in_neutral_terms(found, server.family)
    return replace(attempt, observations=found)


def _contents(
    attempt: StoredAttempt, kind: str, artefacts: Artefacts, parse: Callable[[bytes], _Content]
) -> list[_Content]:
    """Return what ``parse`` (which may raise ValueError) makes of an attempt's files of a kind."""
    found = []
    for artefact in attempt.artefacts:
        if artefact.kind != kind:
            continue
        try:
            found.append(parse(artefacts.read(artefact.sha256)))
        except ValueError as error:
            raise DamagedResult(
                f"{artefacts.path(artefact.sha256)}: holds no {kind} ({error})"
            ) from error
    return found
