"""Install servers of the catalogue, and find every known server by name.

<cache>/servers/NAME/        a finished server (see ``assemble``)
<cache>/downloads/NAME/      its downloads, until it is finished
<cache>/clients/             files of the package clients: lists of packages, mvn's plugin
"""

import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from millrace import paths
from millrace.errors import HostError, NotServed, PermanentHostError, UserError, nearest_names
from millrace.model.events import Notice, OnEvent, ignore
from millrace.model.servers import InstalledServer, Server
from millrace.servers import added, assemble, attached, catalogue, manifest, provenance
from millrace.servers.assemble import ServerRequest
from millrace.servers.catalogue import Entry
from millrace.servers.disk import refusals_as_errors
from millrace.servers.locks import exclusive
from millrace.servers.sources.coordinates import Source
from millrace.servers.sources.fetch import fetch, forget, kept_for_next_attempt

# States of servers of the catalogue that are not installed.
MISSING = ("available", "gone")


@dataclass(frozen=True)
class ServerListing:
    """One line of the list of servers."""

    name: str
    family: str
    version: str | None
    state: str  # available, installed, added, attached, gone, damaged or suite
    download_bytes: int | None  # the least to download, if any
    source: str | None  # or why it is damaged; for an attached server, its account
    gone_since: str | None = None  # the day since which no source has it


def install(name: str, *, on_event: OnEvent = ignore) -> InstalledServer:
    """Install a server of the catalogue, unless it is installed already.

    Wait for another process that installs the same server. Raise UserError for a name that is not
    in the catalogue, HostError for a temporary error of this host or its network, and
    PermanentHostError for a server that no source has or that cannot run here. After an error, only
    the downloads are left, for the next attempt.
    """
    entry = catalogue.entries().get(name)
    if entry is None:
        there = added.added(name)
        if isinstance(there, InstalledServer):
            return there
        if there is not None:
            raise UserError(f"{name} is an attached server, so there is nothing to install")
        raise _unknown([name])
    with refusals_as_errors(f"installing {name}"), _lock(name, on_event):
        return installed(name) or _install(entry, on_event)


def require_known(names: Iterable[str]) -> None:
    """Raise UserError that lists the unknown names."""
    known = catalogue.entries()
    unknown = [name for name in names if name not in known and added.added(name) is None]
    if unknown:
        raise _unknown(unknown)


def installed(name: str) -> InstalledServer | None:
    """Return the server of the catalogue if it is installed; otherwise None."""
    directory = _servers_dir() / name
    made = manifest.read(directory) if name in catalogue.entries() else None
    return manifest.server(made, directory) if made is not None else None


def find(name: str) -> Server:
    """Return the server of this name, with the checksums of its current files. Raise UserError."""
    server = installed(name) or added.refreshed(name)
    if isinstance(server, InstalledServer):
        return provenance.as_it_is(server)
    if server is not None:
        return server
    if name in catalogue.entries():
        raise UserError(f"{name} is not installed", hint=f"run `millrace servers install {name}`")
    raise _unknown([name])


def require_removable(name: str) -> None:
    """Raise UserError for a server that is neither installed nor added."""
    if added.is_known(name):
        return
    if name not in catalogue.entries():
        raise _unknown([name])
    if not (_servers_dir() / name).exists():
        raise UserError(
            f"{name} is not installed", hint="`millrace servers list` shows the installed ones"
        )


def remove(name: str) -> None:
    """Remove an installed server, or forget an added or attached one. Raise UserError."""
    if added.forget(name):
        return
    require_removable(name)
    directory = _servers_dir() / name
    with refusals_as_errors(f"removing {name}"), _lock(name, ignore):
        # Renamed first, so that an interrupted removal leaves no partial server behind.
        leaving = directory.with_name(f".{name}.leaving")
        shutil.rmtree(leaving, ignore_errors=True)
        directory.rename(leaving)
        shutil.rmtree(leaving)
        shutil.rmtree(_workspace(name), ignore_errors=True)


def list_servers() -> list[ServerListing]:
    """Return every known server: the catalogue in its order, then the added servers."""
    paths.cache_dir()  # an unsafe directory is one error, not one per server
    from_catalogue = [_listing(entry) for entry in catalogue.entries().values()]
    from_user = []
    for server in added.all_added():
        if isinstance(server, added.Damaged):
            row = _damaged(server.name, "", server.reason)
        elif isinstance(server, InstalledServer):
            source = server.provenance.source
            row = ServerListing(server.name, server.family, server.version, "added", None, source)
        else:
            source = attached.parse_dsn(server).account
            row = ServerListing(server.name, server.family, None, "attached", None, source)
        from_user.append(row)
    return from_catalogue + from_user


def list_suites() -> list[ServerListing]:
    """Return the names that follow a suite, which only ``availability.install_newest`` accepts."""
    return [
        ServerListing(each.name, each.family, None, "suite", None, str(each.package))
        for each in catalogue.suites().values()
    ]


def _listing(entry: Entry) -> ServerListing:
    first = entry.sources[0]
    try:
        here = installed(entry.name)
    except HostError as error:
        return _damaged(entry.name, entry.family, error.message)
    missing = "available" if entry.gone is None else "gone"
    return ServerListing(
        name=entry.name,
        family=entry.family,
        version=here.version if here is not None else entry.version,
        state=missing if here is None else "installed",
        download_bytes=first.size_bytes,
        source=here.provenance.source if here is not None else str(first.coordinate),
        gone_since=entry.gone.isoformat() if entry.gone is not None else None,
    )


def _damaged(name: str, family: str, reason: str) -> ServerListing:
    return ServerListing(name, family, None, "damaged", None, reason)


def _install(entry: Entry, on_event: OnEvent) -> InstalledServer:
    failures: list[HostError] = []
    for source in entry.sources:
        try:
            return _install_from(entry, source, on_event)
        except HostError as error:
            failures.append(error)
            if source is not entry.sources[-1]:
                on_event(Notice(f"{entry.name}: {error.message}; trying the next source"))
    raise _no_source(entry, failures)


def _no_source(entry: Entry, failures: Sequence[HostError]) -> HostError:
    """Return one error with the reason of every source; a transient one if any may pass."""
    if len(failures) == 1:
        return failures[0]
    transient = [each for each in failures if not isinstance(each, PermanentHostError)]
    other = [each for each in failures if not isinstance(each, NotServed)]
    first = (transient or other or failures)[0]
    kind = HostError if transient else PermanentHostError if other else NotServed
    reasons = "\n".join(
        f"  {source.coordinate}: {failure.message}"
        for source, failure in zip(entry.sources, failures, strict=True)
    )
    return kind(f"{entry.name}: no source could provide it\n{reasons}", hint=first.hint)


def _install_from(entry: Entry, source: Source, on_event: OnEvent) -> InstalledServer:
    workspace = _workspace(entry.name)
    with kept_for_next_attempt(workspace):
        arrived = fetch(source, workspace, on_event)
    request = ServerRequest(entry.name, entry.family, arrived.provenance, entry.version)
    server = assemble.assemble(
        _servers_dir() / entry.name, request, arrived, source.parts, on_event
    )
    forget(source, workspace)
    return server


def _unknown(names: Iterable[str]) -> UserError:
    """Return the error for unknown names; for a suite's name, that it is not exact."""
    names = list(names)
    for name in names:
        if name in catalogue.suites():
            return _not_exact(name)
    known = [row.name for row in (*list_servers(), *list_suites())]
    lines = []
    for name in names:
        nearest = nearest_names(name, known)
        hint = f"; the nearest names are {', '.join(nearest)}" if nearest else ""
        lines.append(f"unknown server {name!r}{hint}")
    return UserError(
        "\n".join(lines),
        hint="`millrace servers list` shows all; `millrace servers add` adds any other build",
    )


def _not_exact(name: str) -> UserError:
    suite = catalogue.suites()[name].package.suite
    return UserError(
        f"{name} is not a fixed version: it is the newest build in the Debian suite {suite}, "
        "which changes over time",
        hint=f"run `millrace servers install {name}`, and use the exact name that it prints",
    )


def _lock(name: str, on_event: OnEvent) -> AbstractContextManager[None]:
    return exclusive(_servers_dir() / f".{name}.lock", f"installing {name}", on_event)


def _servers_dir() -> Path:
    return paths.cache_dir() / "servers"


def _workspace(name: str) -> Path:
    return paths.cache_dir() / "downloads" / name
