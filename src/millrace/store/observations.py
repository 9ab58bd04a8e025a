"""What was observed in an attempt, as one file beside the store: a JSON object (millrace.observe).

It is kept as it was observed; only the analysis knows what it means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from millrace.store.artefacts import Artefacts
from millrace.store.attempt_files import contents
from millrace.store.records import AttemptResult, StoredAttempt, StoredRun

KIND = "observations"
ROLE = "server"


def as_artefact(result: AttemptResult) -> Iterator[tuple[str, str, bytes]]:
    """The (kind, role, bytes) to be kept for an attempt; nothing where nothing was observed."""
    if result.observations:
        text = json.dumps(result.observations, separators=(",", ":"), ensure_ascii=False)
        yield KIND, ROLE, text.encode("utf-8", "replace")


def parse(content: bytes) -> Mapping[str, Any]:
    """The observations in a file's bytes; ValueError says what is wrong with them."""
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


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
