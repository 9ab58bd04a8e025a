"""Define the progress events of downloads and installations, which the caller displays."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A receiver of progress events."""

    def moved(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        """Report how many bytes of ``what`` have arrived; the total is None if unknown."""

    def say(self, text: str) -> None:
        """Report one sentence that the user should read."""


class Silent:
    """A receiver that ignores all events."""

    def moved(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        """Ignore the event."""

    def say(self, text: str) -> None:
        """Ignore the event."""
