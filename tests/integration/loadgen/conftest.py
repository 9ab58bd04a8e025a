"""Provide fixtures for the tests of the protocol."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import talk


@pytest.fixture(scope="session")
def program() -> Path:
    """Return the built example `talk`."""
    return talk.build()


@pytest.fixture(scope="session")
def certificates() -> Iterator[talk.Certificates]:
    """Make certificates in a directory that an unprivileged server can read."""
    place = Path(tempfile.mkdtemp(prefix="mr-tls-", dir="/tmp"))
    place.chmod(0o755)
    yield talk.certificates(place)
    shutil.rmtree(place)
