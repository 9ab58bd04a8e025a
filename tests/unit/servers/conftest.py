"""Provide places of their own for the tests of servers."""

from pathlib import Path

import pytest


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide an empty cache and state directory."""
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
