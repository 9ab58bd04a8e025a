"""Provide the fixtures that all tests share: their own directories, and real servers.

The cache of unpacked servers is the ordinary one, so that a server is downloaded once. Work and
state are fresh directories that an unprivileged server can reach (pytest's own are 0700), and
nothing may be left in them at the end of the tests.

Several processes may run tests at the same time (pytest-xdist). Each has its own directories and
its own lock of the host, and runs whole modules, so that servers which a module's tests share are
started once.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from millrace.errors import NotServed
from millrace.host import exclusive
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers import install, snapshots
from millrace.servers.instances import lifecycle, ownership
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.signals import ENDING_SIGNALS
from tests import servers

ServerOf = Callable[[str], InstalledServer]
Fitted = Callable[..., FittedOptions]
InstanceOf = Callable[..., AbstractContextManager[Instance]]

MEMORY = Path("/dev/shm")

# The duration of an example depends on how busy the host is.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_configure() -> None:
    """Reset the signals that end a program.

    nohup and a shell's jobs ignore some of them, and every child inherits that."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


@pytest.fixture(scope="session", autouse=True)
def own_places() -> Iterator[Path]:
    """Set a state and a work directory for this session; an instance left there is an error."""
    place = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
    place.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_STATE", str(place / "state"))
        patch.setenv("MILLRACE_WORK", str(place / "work"))
        patch.setenv(exclusive.TESTS_VARIABLE, str(place / "host.lock"))
        patch.delenv("MILLRACE_STORE", raising=False)
        yield place
        left = ownership.running()
        for record in left:
            ownership.release(record)
        work = place / "work"
        directories = [entry.name for entry in work.iterdir()] if work.is_dir() else []
    shutil.rmtree(place)
    assert not left
    assert not directories


@pytest.fixture(scope="session")
def memory() -> Iterator[Path | None]:
    """Return a directory in memory, None where the host has none."""
    if not os.access(MEMORY, os.W_OK):
        yield None
        return
    place = Path(tempfile.mkdtemp(prefix="mr-", dir=MEMORY))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def tmp_path(
    own_places: Path, memory: Path | None, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """Return a directory as pytest's own does, but one that the users of servers can reach.

    Unit tests have theirs in memory, where a commit to a results store waits for no disk, unless
    they are marked ``disk``.
    """
    is_unit = request.path.is_relative_to(Path(__file__).parent / "unit")
    on_disk = memory is None or not is_unit or request.node.get_closest_marker("disk")
    directory = Path(tempfile.mkdtemp(prefix="t-", dir=own_places if on_disk else memory))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def server_of() -> ServerOf:
    """Return a server of the catalogue by name; install it where it is missing.

    Where a suite is no longer available the test is skipped: that is no defect of millrace.
    """

    def server(name: str) -> InstalledServer:
        assert name in servers.NAMES, f"{name} is none of tests/servers.py"
        try:
            return install.install(name)
        except NotServed as error:
            pytest.skip(f"{name} is not served any more: {error.message}")

    return server


@pytest.fixture(scope="session")
def fitted() -> Fitted:
    """Return options, passed as keyword arguments, as if fitted to a server."""

    def make(**options: str | None) -> FittedOptions:
        applied = tuple(Option(name, value, False, "test") for name, value in options.items())
        return FittedOptions("test" if applied else "default", applied)

    return make


@pytest.fixture(scope="session")
def instance_of(server_of: ServerOf, fitted: Fitted, own_places: Path) -> InstanceOf:
    """Start an instance for a ``with``: ``instance_of(name)``, options as keyword arguments.

    Only the first of a build is initialised, the others have copies of its data directory; it is
    killed at the end. Initialising and a clean stop take seconds, and have tests of their own.
    """

    @contextmanager
    def started(name: str, **options: str | None) -> Iterator[Instance]:
        with lifecycle.create(server_of(name), fitted(**options)) as instance:
            _initialise(instance, own_places / "initialised")
            instance.start(limit_s=60)
            try:
                yield instance
            finally:
                instance.kill()

    return started


def _initialise(instance: Instance, kept: Path) -> None:
    """Initialise an instance, or copy a data directory of the same build and layout."""
    options = instance.init_options()
    wanted = snapshots.key(
        instance.server, FittedOptions("test", options), {}, user=instance.runs_as
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_SNAPSHOTS", str(kept))
        made = snapshots.find(wanted)
        if made is None:
            instance.initialise(limit_s=120)
            with suppress(snapshots.NotKept):
                made = snapshots.save(instance, wanted, {}, made_s=0)
        if made is not None:
            instance.restore(made, page_cache="warm")


@pytest.fixture
def child_environment() -> dict[str, str]:
    """Return the environment in which a test's Python process finds our directories and modules."""
    source = Path(__file__).parents[1] / "src"
    return {**os.environ, "PYTHONPATH": str(source)}
