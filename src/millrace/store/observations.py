"""What was observed in an attempt, as one file beside the store: a JSON object (millrace.collect).

It is kept as it was observed; only the analysis knows what it means. Much of it is answers of a
server, so it is checked before it is kept, and read within limits.
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
ROLE = "server"


def as_artefact(result: AttemptResult) -> Iterator[tuple[str, str, bytes]]:
    """The (kind, role, bytes) to be kept for an attempt; nothing where nothing was observed."""
    if result.observations:
        yield KIND, ROLE, _content(result.observations)


def parse(content: bytes) -> Mapping[str, Any]:
    """The observations in a file's bytes; ValueError says what is wrong with them."""
    return safe_json.parse_object(content, OF_A_FILE)


def check(content: bytes) -> None:
    """Raise ValueError for a file's bytes that are no observations."""
    checked.document(KIND, Observations, parse(content))


def readable(observed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the observations, or ones that say what is missing where they could not be read
    back: a server may have answered anything."""
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
    """``stored`` with the observations of its attempts, read from their files."""
    return replace(
        stored,
        attempts=tuple(
            replace(attempt, observations=_of_attempt(attempt, artefacts))
            for attempt in stored.attempts
        ),
    )


def _of_attempt(attempt: StoredAttempt, artefacts: Artefacts) -> Mapping[str, Any]:
    return next(iter(contents(attempt, KIND, artefacts, parse)), {})
