"""What is random in a plan: drawn from its seed, the same every time."""

from __future__ import annotations

import hashlib


def drawn(text: str) -> bytes:
    """What a text is sorted by where the order is to be random, and the same every time."""
    return hashlib.sha256(text.encode()).digest()
