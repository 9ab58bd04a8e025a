"""Provide the fixtures that all tests share: their own directories, and real servers.

The cache of unpacked servers is the ordinary one, so that a server is downloaded once. Each module
has a state and a work directory of its own, which an unprivileged server can reach (pytest's own
are 0700). Nothing may be left running in them at the end of the module, and they are removed then.

They are in memory, where no test waits for a disk; modules marked ``disk`` have theirs on one. Each
process that runs tests holds less than 1.5 GB of memory in files: the snapshots of a module, whose
size is limited, and the data directories of the instances that run at the same time.

Several processes may run tests at the same time (pytest-xdist). Each has its own lock of the host,
and runs whole modules, so that servers which a module's tests share are started once. All of them
share initialised data directories, without the zeros of their log files, and so do the sessions of
``tests.run``.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

from millrace.databases.mysql import storage
from millrace.errors import NotServed
from millrace.host import exclusive
from millrace.model.servers import FittedOptions, InstalledServer, Option
from millrace.servers import install, snapshots
from millrace.servers.instances import lifecycle, ownership
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.signals import ENDING_SIGNALS
from millrace.trial import client_preparation
from tests import servers, slow
from tests.places import DISK, INITIALISED_VARIABLE, MEMORY, make_place, place_of_initialised

ServerOf = Callable[[str], InstalledServer]
Fitted = Callable[..., FittedOptions]
InstanceOf = Callable[..., AbstractContextManager[Instance]]
Initialise = Callable[[Instance], None]

SNAPSHOTS_LIMIT = "600M"  # of a module of tests
INITIALISED_LIMIT = "600M"  # of all processes that run tests
MIB = 1 << 20

# The duration of an example depends on how busy the host is.
settings.register_profile(
    "busy", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", parent=settings.get_profile("busy"), max_examples=12)
settings.load_profile("busy")


def pytest_configure(config: pytest.Config) -> None:
    """Reset the signals that end a program, and make the directory that all processes share.

    nohup and a shell's jobs ignore some of the signals, and every child inherits that."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    if not hasattr(config, "workerinput"):
        end_left_by_killed_tests(MEMORY, DISK)
        stack = ExitStack()
        stack.enter_context(place_of_initialised())
        config.add_cleanup(stack.close)
        if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
            # Otherwise each process that a test starts compiles all modules again.
            sys.dont_write_bytecode = False
            sys.pycache_prefix = str(config.rootpath / ".pytest_cache/bytecode")
            os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests."""
    parameters = {
        item.nodeid: item.callspec.params.values()
        if hasattr(item, "callspec") and item.get_closest_marker("integration")
        else ()
        for item in items
    }
    found = slow.slow_tests(parameters, slow.listed())
    for item in items:
        if item.nodeid in found:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Keep the modules and tests that were collected out of every garbage collection.

    They live until the end, and to search them takes most of the collector's time."""
    gc.freeze()


def end_left_by_killed_tests(*parents: Path) -> None:
    """End the servers, and remove the directories, of processes of tests that were killed."""
    for place in (each for parent in parents for each in parent.glob("mr-*-*")):
        pid = place.name.split("-")[1]
        if not pid.isdigit() or psutil.pid_exists(int(pid)) or not _is_ours(place):
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MILLRACE_STATE", str(place / "state"))
            patch.setenv("MILLRACE_WORK", str(place / "work"))
            for record in ownership.running():
                ownership.release(record)
        _kill_programs_of(place)
        shutil.rmtree(place, ignore_errors=True)


def _kill_programs_of(place: Path) -> None:
    """Kill what runs from a directory of a killed test: its own servers may have no record."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "".join(process.cmdline()[:1]).startswith(f"{place}/"):
                process.kill()


def _is_ours(place: Path) -> bool:
    try:
        return place.stat().st_uid == os.getuid()
    except FileNotFoundError:  # another pytest that begins now has removed it
        return False


@pytest.fixture(scope="module", autouse=True)
def own_places(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Set a state and a work directory for this module; an instance left there is an error."""
    place = make_place(on_disk=request.node.get_closest_marker("disk") is not None)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MILLRACE_STATE", str(place / "state"))
            patch.setenv("MILLRACE_WORK", str(place / "work"))
            patch.setenv(exclusive.TESTS_VARIABLE, str(place / "host.lock"))
            patch.delenv("MILLRACE_STORE", raising=False)
            if not _is_unit(request.path):
                patch.setenv(snapshots.LIMIT_VARIABLE, SNAPSHOTS_LIMIT)
            yield place
            left = ownership.running()
            for record in left:
                ownership.release(record)
            work = place / "work"
            directories = [entry.name for entry in work.iterdir()] if work.is_dir() else []
    finally:
        shutil.rmtree(place)
    assert not left
    assert not directories


@pytest.fixture(scope="module")
def own_snapshots(own_places: Path) -> Iterator[None]:
    """Keep this module's snapshots in a directory of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_SNAPSHOTS", str(own_places / "snapshots"))
        yield


@pytest.fixture
def tmp_path(own_places: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a directory as pytest's own does, but one that the users of servers can reach.

    Tests marked ``disk`` have theirs on a disk.
    """
    on_disk = request.node.get_closest_marker("disk") is not None
    if on_disk and own_places.is_relative_to(MEMORY):
        directory = make_place(on_disk=True)
    else:
        directory = Path(tempfile.mkdtemp(prefix="t-", dir=own_places))
        directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def _is_unit(path: Path) -> bool:
    return path.is_relative_to(Path(__file__).parent / "unit")


@pytest.fixture(scope="session")
def server_of() -> ServerOf:
    """Return a server of the catalogue by name; install it where it is missing.

    Where a suite is no longer available the test is skipped: that is not a defect of millrace.
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
def instance_of(server_of: ServerOf, fitted: Fitted) -> InstanceOf:
    """Start an instance for a ``with``: ``instance_of(name)``, options as keyword arguments.

    Only the first of a build is initialised, the others have copies of its data directory; it is
    killed at the end. Initialising and a clean stop take seconds, and have tests of their own.
    """

    @contextmanager
    def started(name: str, **options: str | None) -> Iterator[Instance]:
        options = {**servers.quick_start(name), **options}
        with lifecycle.create(server_of(name), fitted(**options)) as instance:
            _initialise(instance)
            instance.start(limit_s=60)
            try:
                yield instance
            finally:
                instance.kill()

    return started


@pytest.fixture(scope="session")
def initialise() -> Initialise:
    """Initialise an instance as ``instance_of`` does, mostly with a copy."""
    return _initialise


@pytest.fixture(scope="module")
def initialised_once() -> Iterator[None]:
    """Initialise only the first server of a build in trials too; the others get copies of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Instance, "initialise", lambda instance, limit_s: _initialise(instance))
        yield


@pytest.fixture(scope="module")
def settled_soon() -> Iterator[None]:
    """Take a server in trials as settled after a fifth of a second, of tests of something else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_preparation, "_POLL_S", 0.1)
        patch.setattr(storage, "_STILL_S", 0.2)
        yield


_initialise_anew = Instance.initialise


def _initialise(instance: Instance) -> None:
    """Initialise an instance, or copy a data directory of the same build and layout."""
    options = instance.init_options()
    wanted = snapshots.key(
        instance.server, FittedOptions("test", options), {}, user=instance.runs_as
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_SNAPSHOTS", os.environ[INITIALISED_VARIABLE])
        patch.setenv(snapshots.LIMIT_VARIABLE, INITIALISED_LIMIT)
        while True:
            if (made := snapshots.find(wanted)) is not None:
                with suppress(snapshots.Unusable):  # another process may have removed it meanwhile
                    snapshots.restore(instance, made, page_cache="cold")
                    return
            _initialise_anew(instance, limit_s=120)
            _make_sparse(instance.data_dir)
            try:
                snapshots.save(instance, wanted, {}, made_s=0)
            except snapshots.NotSaved:
                return


def _make_sparse(directory: Path) -> None:
    """Free the zeros of new log files, most of a data directory, which every copy would have."""
    for file in [each for each in directory.rglob("*") if each.is_file()]:
        if file.stat().st_size > MIB:
            sparse = file.with_name(f"{file.name}.sparse")
            subprocess.run(["cp", "--archive", "--sparse=always", file, sparse], check=True)
            sparse.replace(file)


@pytest.fixture
def child_environment() -> dict[str, str]:
    """Return the environment in which a test's Python process finds our directories and modules."""
    source = Path(__file__).parents[1] / "src"
    return {**os.environ, "PYTHONPATH": str(source)}
