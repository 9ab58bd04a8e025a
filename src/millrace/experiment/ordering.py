"""Derive the random order of a plan from its seed, the same every time."""

from __future__ import annotations

import hashlib


def drawn(text: str) -> bytes:
    """Return the sort key of a text in a random order that is the same every time."""
    return hashlib.sha256(text.encode()).digest()
