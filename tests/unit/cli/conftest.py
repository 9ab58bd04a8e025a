"""Provide what tests of several commands share: a store's path, and trials that end at once."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.measured import Carried, carried

Carry = Callable[..., Carried]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def carry(monkeypatch: pytest.MonkeyPatch) -> Carry:
    """Return ``measured.carried`` without its first argument."""
    return functools.partial(carried, monkeypatch)
