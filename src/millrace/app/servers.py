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
    """Reserve the host: refuse while another millrace measures, and clean up after a killed one.

    Raise UserError when the host is in use, and Interrupted inside the block on Ctrl-C or SIGTERM,
    so that the use case stops in order.
    """
    with signals_as_errors(), host_lock(purpose):
        for left in ownership.reap_orphans(on_event):
            on_event(Notice(f"ended what an earlier run left behind: {left}"))
        yield


def list_servers(
    on_event: OnEvent, *, ask: bool
) -> list[tuple[ServerListing, Availability | None]]:
    """Return every server and suite; with ``ask``, also what its sources answer today."""
    if ask:
        on_event(Notice("querying every source"))
    answers = availability.ask_all() if ask else {}
    return [
        (row, answers.get(row.name)) for row in (*install.list_servers(), *install.list_suites())
    ]


def find_server(name: str) -> Server | Entry:
    """Return a server of this host, or the catalogue's entry of one that is not installed."""
    entry = catalogue.entries().get(name)
    return entry if entry is not None and install.installed(name) is None else install.find(name)


@dataclass(frozen=True)
class Installed:
    """A named server: ``is_added`` ones need no installation; of a ``suite``, the newest build."""

    name: str
    server: InstalledServer | None
    is_new: bool = True
    is_added: bool = False
    suite: str | None = None


def install_servers(names: Sequence[str], on_event: OnEvent) -> Iterator[Installed]:
    """Install servers of the catalogue, one after another; names may be those of suites."""
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
    """Add a server from an archive or from a directory; exactly one of the two is set."""
    with signals_as_errors():
        if tarball is not None:
            return added.add_tarball(name, family, tarball, sha256=sha256, on_event=on_event)
        assert directory is not None
        return added.add_directory(name, family, directory, on_event=on_event)


def remove_servers(names: Sequence[str]) -> Iterator[str]:
    """Remove servers, none where one cannot be; yield each name when it is removed."""
    wanted = dict.fromkeys(names)
    for name in wanted:
        install.require_removable(name)
    for name in wanted:
        install.remove(name)
        yield name


def attach_server(server: AttachedServer, ask_password: Callable[[], str]) -> AttachedInstance:
    """Add a running server, with the user's password where its address has none."""
    if attached.lacks_password(server):
        server = attached.with_password(server, ask_password())
    return AttachedInstance(added.add_attached(server.name, server.family, server.dsn))


def refusal_of(instance: AttachedInstance) -> TrialFailed | None:
    """Return why an attached server opens no session now; None where it does."""
    try:
        instance.connect(limit_s=_ANSWER_LIMIT_S).close()
    except TrialFailed as error:
        return error
    return None


@dataclass(frozen=True)
class Verified:
    """A server, the result of its verification, and its files changed since the installation."""

    server: Server
    result: VerifyResult
    changed: tuple[str, ...]

    @property
    def is_ok(self) -> bool:
        """Return whether the server works and is unchanged since its installation."""
        return self.result.ok and not self.changed


def verify_servers(names: Sequence[str], on_event: OnEvent, *, every: bool) -> list[Verified]:
    """Boot, query, load and stop servers: the named ones, or with ``every`` all on this host."""
    if bool(names) == every:
        raise UserError("give the names of servers, or --all")
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
    """Return all snapshots, the least recently used first; remove leftovers of dead processes."""
    snapshots.reap()
    return snapshots.listing()


def list_kept() -> list[KeptData]:
    """Return the data directories of trials that did not end, each of which waits to go on."""
    return [kept for kept in kept_data.all_kept() if kept.is_there()]


def remove_snapshots(names: Sequence[str], *, every: bool) -> Iterator[str]:
    """Remove the named snapshots, or with ``every`` all; yield each name when it is removed.

    Kept data directories of trials count as snapshots.
    """
    if bool(names) == every:
        raise UserError("give the names of snapshots, or --all")
    kept = {each.directory.name: each for each in list_kept()}
    all_names = [*(each.name for each in list_snapshots()), *kept]
    for name in all_names if every else dict.fromkeys(names):
        if name in kept:
            kept[name].remove()
        else:
            snapshots.remove(name)
        yield name
