"""Provide fixtures for the tests of hostile users and servers."""

from pathlib import Path

import pytest

from tests.unit.servers.conftest import places  # noqa: F401 - a fixture


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a directory like /tmp, to which every user may add files."""
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory
