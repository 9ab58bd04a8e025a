"""Provide directories for snapshots, and a server to take them of."""

from pathlib import Path

import pytest

from millrace.model.servers import InstalledServer
from millrace.servers import snapshots
from tests.support import small_servers


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MILLRACE_WORK", str(tmp_path / "work"))
    monkeypatch.delenv("MILLRACE_SNAPSHOTS", raising=False)
    monkeypatch.delenv(snapshots.LIMIT_VARIABLE, raising=False)


@pytest.fixture(scope="module")
def small(own_places: Path) -> InstalledServer:
    """Return a server that never runs here: only its data directory matters."""
    return small_servers.installed(small_servers.tree(own_places / "small/tree"))
