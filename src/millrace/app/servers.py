"""List, install, add and verify servers; list and remove their snapshots; reserve the host."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import TrialFailed, UserError
from millrace.host.exclusive import host_lock
from millrace.model.events import Notice, OnEvent
from millrace.model.servers import AttachedServer, InstalledServer, Server
from millrace.servers import added, attached, availability, catalogue, install, snapshots
from millrace.servers.attached import AttachedInstance
from millrace.servers.availability import Availability
from millrace.servers.catalogue import Entry
from millrace.servers.install import ServerListing
from millrace.servers.instances import ownership
from millrace.servers.instances.signals import signals_as_errors
from millrace.servers.snapshots import SnapshotListing, kept_data
from millrace.servers.snapshots.kept_data import KeptData
from millrace.servers.verify import VerifyResult, verify

_ANSWER_LIMIT_S = 10.0


@contextmanager
def exclusive_host(purpose: str, on_event: OnEvent) -> Iterator[None]:
    """Reserve the host for the block, after ending the processes of a killed millrace.

    Raise UserError if another millrace process measures. Inside the block, Ctrl-C and SIGTERM raise
    Interrupted, so that the use case can clean up.
    """
    with signals_as_errors(), host_lock(purpose):
        for left in ownership.reap_orphans(on_event):
            on_event(Notice(f"cleaned up after a killed run: {left}"))
        yield


def list_servers(
    on_event: OnEvent, *, ask: bool
) -> list[tuple[ServerListing, Availability | None]]:
    """Return every server and suite; with ``ask``, also its current availability."""
    if ask:
        on_event(Notice("querying every source"))
    answers = availability.ask_all() if ask else {}
    return [
        (row, answers.get(row.name)) for row in (*install.list_servers(), *install.list_suites())
    ]


def find_server(name: str) -> Server | Entry:
    """Return a server on this host, or the catalogue's entry if it is not installed."""
    entry = catalogue.entries().get(name)
    return entry if entry is not None and install.installed(name) is None else install.find(name)


@dataclass(frozen=True)
class Installed:
    """The result of installing a server.

    ``is_new`` is False if it was installed already. A server that the user added (``is_added``)
    needs no installation. ``suite`` is the suite whose newest build this is.
    """

    name: str
    server: InstalledServer | None
    is_new: bool = True
    is_added: bool = False
    suite: str | None = None


def install_servers(names: Sequence[str], on_event: OnEvent) -> Iterator[Installed]:
    """Install servers of the catalogue; a suite's name installs its newest build."""
    wanted = dict.fromkeys(names)
    install.require_known(name for name in wanted if name not in catalogue.suites())
    for name in wanted:
        if name in catalogue.suites():
            with signals_as_errors():
                server = availability.install_newest(catalogue.suites()[name], on_event)
            yield Installed(server.name, server, suite=name)
        elif name not in catalogue.entries():
            yield Installed(name, None, is_added=True)
        else:
            is_new = install.installed(name) is None
            with signals_as_errors():
                server = install.install(name, on_event=on_event)
            yield Installed(name, server, is_new)


def add_server(
    name: str,
    family: str,
    on_event: OnEvent,
    *,
    tarball: str | None,
    sha256: str | None,
    directory: Path | None,
) -> InstalledServer:
    """Add a server from ``tarball`` or ``directory``; exactly one of them is set."""
    with signals_as_errors():
        if tarball is not None:
            return added.add_tarball(name, family, tarball, sha256=sha256, on_event=on_event)
        assert directory is not None
        return added.add_directory(name, family, directory, on_event=on_event)


def remove_servers(names: Sequence[str]) -> Iterator[str]:
    """Remove servers, or none if one cannot be removed; yield each name after its removal."""
    wanted = dict.fromkeys(names)
    for name in wanted:
        install.require_removable(name)
    for name in wanted:
        install.remove(name)
        yield name


def attach_server(server: AttachedServer, ask_password: Callable[[], str]) -> AttachedInstance:
    """Add a running server; ``ask_password`` returns the password if the address has none."""
    if attached.lacks_password(server):
        server = attached.with_password(server, ask_password())
    return AttachedInstance(added.add_attached(server.name, server.family, server.dsn))


def refusal_of(instance: AttachedInstance) -> TrialFailed | None:
    """Return the error with which an attached server refuses a session; None if it accepts it."""
    try:
        instance.connect(limit_s=_ANSWER_LIMIT_S).close()
    except TrialFailed as error:
        return error
    return None


@dataclass(frozen=True)
class Verified:
    """A server, the result of its verification, and its files that changed since installation."""

    server: Server
    result: VerifyResult
    changed: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Return whether the server works and is unchanged since its installation."""
        return self.result.ok and not self.changed


def verify_servers(names: Sequence[str], on_event: OnEvent, *, every: bool) -> list[Verified]:
    """Start, query, load and stop servers: the named ones, or with ``every`` all on this host."""
    if bool(names) == every:
        raise UserError(
            "the servers to verify are missing or ambiguous", hint="give either names or --all"
        )
    if every:
        names = [row.name for row in install.list_servers() if row.state not in install.MISSING]
    servers = [install.find(name) for name in dict.fromkeys(names)]
    verified = []
    with exclusive_host("servers verify", on_event):
        for server in servers:
            on_event(Notice(server.name))
            result = verify(server, lambda text: on_event(Notice(f"  {text}")))
            changed = tuple(server.changed) if isinstance(server, InstalledServer) else ()
            verified.append(Verified(server, result, changed))
    return verified


def list_snapshots() -> list[SnapshotListing]:
    """Return all snapshots, the least recently used first, after removing unfinished ones."""
    snapshots.reap()
    return snapshots.listing()


def list_kept() -> list[KeptData]:
    """Return the data directories that are kept for interrupted trials, which can resume."""
    return [kept for kept in kept_data.all_kept() if kept.is_there()]


def remove_snapshots(names: Sequence[str], *, every: bool) -> Iterator[str]:
    """Remove the named snapshots, or with ``every`` all; yield each name after its removal.

    Data directories that are kept for interrupted trials count as snapshots.
    """
    if bool(names) == every:
        raise UserError(
            "the snapshots to remove are missing or ambiguous", hint="give either names or --all"
        )
    kept = {each.directory.name: each for each in list_kept()}
    all_names = [*(each.name for each in list_snapshots()), *kept]
    for name in all_names if every else dict.fromkeys(names):
        if name in kept:
            kept[name].remove()
        else:
            snapshots.remove(name)
        yield name
