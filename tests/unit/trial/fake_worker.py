"""Run a worker whose servers are fakes: those of the directory that is its only argument."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.model.servers import InstalledServer
from millrace.servers import install
from millrace.trial import worker
from tests.fake_family import family
from tests.fake_family.family import Script
from tests.unit.fake_servers import fakes

SCRIPTS = {
    "fake-1": Script(waits={"wait/io": 1e-4}),
    "fake-2": Script(operation_s=0.002),
    "broken": Script(failures={"start": "no room for the log"}),
}


def find_in(directory: Path) -> Callable[[str], InstalledServer]:
    """Return a function that finds the fake servers of a directory."""

    def find(name: str) -> InstalledServer:
        if name not in SCRIPTS:
            raise UserError(f"there is no server {name}")
        return family.install(name, SCRIPTS[name], directory / name)

    return find


if __name__ == "__main__":
    place = Path(sys.argv[1])
    with pytest.MonkeyPatch.context() as patch, fakes(place, patch):
        patch.setattr(install, "find", find_in(place))
        worker.main()
