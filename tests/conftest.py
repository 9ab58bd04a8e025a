"""What all tests share: places of their own, and real servers.

The cache of unpacked servers is the ordinary one, so that a server is downloaded once. Work and
state are fresh directories that an unprivileged server can reach (pytest's own are 0700), and
nothing may be left in them when the tests are over.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from millrace.servers import install, instances, processes
from millrace.servers.instances import Instance
from millrace.servers.model import FittedOptions, InstalledServer, Option

ServerOf = Callable[[str], InstalledServer]
InstanceOf = Callable[..., AbstractContextManager[Instance]]


@pytest.fixture(scope="session", autouse=True)
def own_places() -> Iterator[Path]:
    """A state and a work directory for this session; an instance left there is an error."""
    place = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
    place.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_STATE", str(place / "state"))
        patch.setenv("MILLRACE_WORK", str(place / "work"))
        patch.delenv("MILLRACE_STORE", raising=False)
        yield place
        left = processes.running()
        for account in left:
            processes.close_account(account)
        work = place / "work"
        directories = [entry.name for entry in work.iterdir()] if work.is_dir() else []
    shutil.rmtree(place)
    assert not left
    assert not directories


@pytest.fixture(scope="session")
def server_of() -> ServerOf:
    """A server of the catalogue by name; it is installed if need be."""
    return install.install


@pytest.fixture
def instance_of(server_of: ServerOf) -> Iterator[InstanceOf]:
    """Makes started instances that end with the test, at the latest: ``instance_of(name)``, with
    options as keyword arguments."""

    @contextmanager
    def started(name: str, **options: str) -> Iterator[Instance]:
        with instances.create(server_of(name), fitted(**options)) as instance:
            instance.initialise(limit_s=120)
            instance.start(limit_s=60)
            yield instance

    with ExitStack() as stack:

        def make(name: str, **options: str) -> AbstractContextManager[Instance]:
            return started(name, **options)

        yield make
        stack.close()


def fitted(**options: str) -> FittedOptions:
    """Options as if they had been fitted already."""
    applied = tuple(Option(name, value, False, "test") for name, value in options.items())
    return FittedOptions("test" if applied else "default", applied)


def environment_of_tests() -> dict[str, str]:
    """What a child process needs to find the same places and the same modules."""
    source = Path(__file__).parents[1] / "src"
    return {**os.environ, "PYTHONPATH": str(source)}
