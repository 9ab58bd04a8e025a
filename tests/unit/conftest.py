"""Mark the tests that slow.txt lists as slow: each takes more than a second of CPU time."""

from __future__ import annotations

from pathlib import Path

import pytest

SLOW = Path(__file__).with_name("slow.txt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the listed tests, with all their parameters."""
    slow = frozenset(SLOW.read_text(encoding="utf-8").split())
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker(pytest.mark.slow)
