"""The second-by-second series of an attempt's driven clients: one file of JSON lines beside the
store, the load generator's own events (docs/load-spec.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millrace.store.artefacts import Artefacts
from millrace.store.attempt_files import contents
from millrace.store.records import StoredAttempt, StoredRun

KIND = "series"


def parse(content: bytes) -> tuple[Mapping[str, Any], ...]:
    """The events in a file's bytes; ValueError says what is wrong with them."""
    events = tuple(json.loads(line) for line in content.splitlines())
    if not all(isinstance(event, dict) for event in events):
        raise ValueError("a line is not a JSON object")
    return events


def read_back(stored: StoredRun, artefacts: Artefacts) -> StoredRun:
    """``stored`` with the series of its attempts, read from their files."""
    return replace(
        stored,
        attempts=tuple(
            replace(attempt, series=_of_attempt(attempt, artefacts)) for attempt in stored.attempts
        ),
    )


def _of_attempt(attempt: StoredAttempt, artefacts: Artefacts) -> tuple[Mapping[str, Any], ...]:
    return next(iter(contents(attempt, KIND, artefacts, parse)), ())
