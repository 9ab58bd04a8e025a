"""Read and write an attempt's observations: one JSON object in a file next to the database.

The file keeps the observations unchanged; only the analysis interprets them. Many are answers of a
server, so they are checked before they are stored, and read within limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from millrace import safe_json
from millrace.store import checked
from millrace.store.artefacts import Artefacts
from millrace.store.attempt_files import OF_A_FILE, contents
from millrace.store.observed_documents import Observations
from millrace.store.records import AttemptResult, StoredAttempt, StoredRun

KIND = "observations"


def as_artefacts(result: AttemptResult) -> Iterator[tuple[str, str, bytes]]:
    """Yield the (kind, role, bytes) to store for an attempt: one file for each observed server."""
    for role, observed in result.observations.items():
        if observed:
            yield KIND, role, _content(observed)


def parse(content: bytes) -> Mapping[str, Any]:
    """Return the observations in a file's bytes.

    Raises ValueError, with the reason, for invalid bytes.
    """
    return safe_json.parse_object(content, OF_A_FILE)


def check(content: bytes) -> None:
    """Raise ValueError for a file's bytes that are not observations."""
    checked.document(KIND, Observations, parse(content))


def readable(observed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the observations, or a note on what is missing where they could not be read back.

    A server may have answered anything.
    """
    try:
        check(_content(observed))
    except (ValueError, RecursionError) as error:
        lack = {"observer": "all", "what": f"the observations cannot be stored: {error}"}
        return {"version": observed.get("version"), "missing": [{**lack, "remedy": None}]}
    return observed


def _content(observed: Mapping[str, Any]) -> bytes:
    text = json.dumps(observed, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def read_back(stored: StoredRun, artefacts: Artefacts) -> StoredRun:
    """Return ``stored`` with the observations of its attempts, read from their files."""
    return replace(
        stored,
        attempts=tuple(
            replace(attempt, observations=_of_attempt(attempt, artefacts))
            for attempt in stored.attempts
        ),
    )


def _of_attempt(attempt: StoredAttempt, artefacts: Artefacts) -> Mapping[str, Any]:
    return next(iter(contents(attempt, KIND, artefacts, parse)), {})
