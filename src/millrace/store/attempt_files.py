"""Read an attempt's files next to the database, of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from millrace import safe_json
from millrace.errors import DamagedResult
from millrace.store.artefacts import Artefacts
from millrace.store.records import StoredAttempt

_Content = TypeVar("_Content")

# Far above any real file.
OF_A_FILE = safe_json.Limits(
    size_bytes=64 << 20,
    values=4_000_000,
    depth=64,
    text_chars=8 << 20,
    largest=2**64 - 1,  # counters of servers
)


def contents(
    attempt: StoredAttempt, kind: str, artefacts: Artefacts, parse: Callable[[bytes], _Content]
) -> list[_Content]:
    """Return the contents of the attempt's files of a kind, in their order.

    ``parse`` raises ValueError for invalid bytes. Raises DamagedResult for a file that is missing,
    changed or invalid.
    """
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
