"""What a download or an installation tells while it works; how it is shown is the caller's."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Whoever wants to follow an installation."""

    def moved(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        """``what`` has this many of its bytes; the total is None where nobody knows it."""

    def say(self, text: str) -> None:
        """One sentence the user should read."""


class Silent:
    """Nobody follows."""

    def moved(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        """Ignored."""

    def say(self, text: str) -> None:
        """Ignored."""
