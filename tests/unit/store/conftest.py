"""Provide a store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened
