"""What an attempt's files beside the store hold, read in one way whatever kind they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from millrace.errors import HostProblem
from millrace.store.artefacts import Artefacts
from millrace.store.records import StoredAttempt

_Content = TypeVar("_Content")


def contents(
    attempt: StoredAttempt, kind: str, artefacts: Artefacts, parse: Callable[[bytes], _Content]
) -> list[_Content]:
    """What the attempt's files of a kind hold, in their order; ``parse`` raises ValueError for
    bytes that are none. Raises HostProblem for a file that is missing, was changed or is none."""
    found = []
    for artefact in attempt.artefacts:
        if artefact.kind != kind:
            continue
        try:
            found.append(parse(artefacts.read(artefact.sha256)))
        except ValueError as error:
            raise HostProblem(
                f"{artefacts.path(artefact.sha256)}: holds no {kind} ({error})"
            ) from error
    return found
