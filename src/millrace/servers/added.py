"""Manage servers that the user added: a tarball, a Debian package, a build tree, a running server.

<state>/servers/NAME/server.json     an archive's server (in tree/ next to it) or a directory's
<state>/servers/NAME/attached.json   an attached server; holds a password, mode 0600
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millrace import databases, paths, safe_json
from millrace.databases.base import Incomplete
from millrace.errors import HostError, UserError
from millrace.model.events import OnEvent, ignore
from millrace.model.servers import AttachedServer, InstalledServer, Provenance, Server
from millrace.servers import assemble, attached, catalogue, manifest, provenance
from millrace.servers.assemble import ServerRequest
from millrace.servers.disk import refusals_as_errors
from millrace.servers.download import WrongChecksum
from millrace.servers.locks import exclusive
from millrace.servers.sources.coordinates import ArchivePart, Deb, Directory
from millrace.servers.sources.fetch import fetch_package, fetch_tarball, kept_for_next_attempt, room
from millrace.servers.unpack import Unusable
from millrace.servers.web import without_secrets
from millrace.shared_directories import refuse_file_of_others

_ATTACHED = "attached.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+~-]{0,63}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class Damaged:
    """A server whose record cannot be read, with the reason."""

    name: str
    reason: str


def add_tarball(
    name: str, family: str, location: str, *, sha256: str | None = None, on_event: OnEvent = ignore
) -> InstalledServer:
    """Add a server from an archive at a URL or path. Raise UserError, HostError."""
    if sha256 is not None and _SHA256.fullmatch(sha256) is None:
        raise UserError(
            f"{sha256!r} is not a SHA-256 checksum, which has 64 hexadecimal digits",
            hint="copy the whole checksum from the publisher's page",
        )
    final = _directory(name)
    workspace = room("downloads") / f"added-{name}"
    with (
        _adding(name, family, on_event),
        _errors_naming_archive(location, assemble.draft_of(final) / "tree"),
    ):
        with kept_for_next_attempt(workspace):
            arrived = fetch_tarball(location, sha256, workspace, on_event)
        try:
            request = ServerRequest(name, family, arrived.provenance)
            return assemble.assemble(final, request, arrived, (ArchivePart(),), on_event)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def add_package(
    name: str, family: str, package: Deb, *, on_event: OnEvent = ignore
) -> InstalledServer:
    """Add a server from a Debian package, which apt verifies. Raise UserError, HostError."""
    assert package.version is not None
    workspace = room("downloads") / f"added-{name}"
    with _adding(name, family, on_event):
        with kept_for_next_attempt(workspace):
            arrived = fetch_package(package, workspace, on_event)
        try:
            release = catalogue.package_release(package.version)
            request = ServerRequest(name, family, arrived.provenance, release)
            return assemble.assemble(_directory(name), request, arrived, (ArchivePart(),), on_event)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def add_directory(
    name: str, family: str, directory: Path, *, on_event: OnEvent = ignore
) -> InstalledServer:
    """Add a server that is used in place: an installation or a build tree. Raise UserError."""
    directory = directory.expanduser().absolute()
    if not directory.is_dir():
        raise UserError(f"no directory {directory}")
    origin = Provenance(source=str(Directory(str(directory))), artefacts=())
    request = ServerRequest(name, family, origin)
    with _adding(name, family, on_event):
        return _describe(request, directory, on_event)


def add_attached(name: str, family: str, dsn: str) -> AttachedServer:
    """Add a running server without connecting. Raise UserError without any password in it."""
    server = AttachedServer(name=name, family=family, dsn=dsn)
    attached.parse_dsn(server)
    with _adding(name, family, ignore), assemble.workplace(_directory(name)) as place:
        descriptor = os.open(place / _ATTACHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"name": name, "family": family, "dsn": dsn}, file)
    return server


def added(name: str) -> Server | None:
    """Return the server that the user added as ``name``. Raise HostError for a damaged record."""
    if _NAME.fullmatch(name) is None:
        return None
    directory = _directory(name)
    made = manifest.read(directory)
    if made is not None:
        return manifest.server(made, directory)
    try:
        refuse_file_of_others(directory / _ATTACHED)
        document = safe_json.read(directory / _ATTACHED)
        if not all(isinstance(value, str) for value in dict(document).values()):
            raise TypeError
        return AttachedServer(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise HostError(
            f"{directory / _ATTACHED} cannot be read: {reason}",
            hint=f"run `millrace servers remove {name}` as its owner, and add it again",
        ) from error


def refreshed(name: str) -> Server | None:
    """Return the server as ``added`` does; update the record of a changed build tree.

    Raise UserError.
    """
    server = added(name)
    if not isinstance(server, InstalledServer) or not server.provenance.source.startswith("dir:"):
        return server
    if not provenance.as_it_is(server).changed:
        return server
    directory = Path(server.provenance.source.removeprefix("dir:"))
    request = ServerRequest(
        name, server.family, Provenance(source=str(Directory(str(directory))), artefacts=())
    )
    with (
        refusals_as_errors(f"describing {name} anew"),
        exclusive(_lock(name), f"adding {name}", ignore),
    ):
        return _describe(request, directory, ignore)


def all_added() -> list[Server | Damaged]:
    """Return every server that the user added, sorted by name."""
    directory = _servers_dir()
    names = sorted(each.name for each in directory.iterdir()) if directory.is_dir() else []
    return [server for name in names if (server := _added_or_damaged(name)) is not None]


def _added_or_damaged(name: str) -> Server | Damaged | None:
    try:
        server = added(name)
        if isinstance(server, AttachedServer):
            attached.parse_dsn(server)
        elif server is not None:
            databases.get(server.family)
    except (HostError, UserError) as error:
        return Damaged(name, error.message)
    return server


def is_known(name: str) -> bool:
    """Return whether a server was added under this name; its record may be damaged."""
    return _NAME.fullmatch(name) is not None and _directory(name).is_dir()


def forget(name: str) -> bool:
    """Remove the record of an added server, not its own files; return False if there is none."""
    if not is_known(name):
        return False
    with refusals_as_errors(f"removing {name}"), exclusive(_lock(name), f"adding {name}", ignore):
        shutil.rmtree(_directory(name))
    return True


def _describe(request: ServerRequest, directory: Path, on_event: OnEvent) -> InstalledServer:
    final = _directory(request.name)
    with assemble.workplace(final) as place:
        made = assemble.finish(place, directory, request, (), on_event)
        shutil.rmtree(final, ignore_errors=True)
    return manifest.server(made, final)


@contextmanager
def _adding(name: str, family: str, on_event: OnEvent) -> Iterator[None]:
    """Check that the name is valid and unused, and lock it while a server is added."""
    if _NAME.fullmatch(name) is None:
        raise UserError(
            f"{name!r} is not a valid server name",
            hint="use lower-case letters, digits, and . - _ + ~",
        )
    databases.get(family)
    if name in catalogue.entries() or name in catalogue.suites():
        raise UserError(f"the catalogue already has a server {name}", hint="choose another name")
    with refusals_as_errors(f"adding {name}"), exclusive(_lock(name), f"adding {name}", on_event):
        if _directory(name).exists():
            raise UserError(
                f"a server {name} already exists",
                hint=f"choose another name, or run `millrace servers remove {name}`",
            )
        yield


@contextmanager
def _errors_naming_archive(location: str, tree: Path) -> Iterator[None]:
    """Raise errors about an archive as UserError, with ``location`` in place of ``tree``.

    ``tree`` is a temporary directory, which the user cannot look at.
    """
    shown = without_secrets(location) if "://" in location else location
    try:
        yield
    except (HostError, UserError) as error:
        message = error.message
        for each in (tree, tree.resolve()):
            message = message.replace(str(each), shown)
        match error:
            case Unusable():
                raise UserError(message, hint=error.hint) from error
            case WrongChecksum():
                hint = (
                    "check --sha256 against the publisher's checksum, or download the archive again"
                )
                raise UserError(message, hint=hint) from error
            case Incomplete():
                hint = "use the publisher's complete archive of the server"
                raise UserError(message, hint=hint) from error
            case UserError():
                raise UserError(message, hint=error.hint) from error
        raise HostError(message, hint=error.hint) from error


def _servers_dir() -> Path:
    return paths.state_dir() / "servers"


def _directory(name: str) -> Path:
    return _servers_dir() / name


def _lock(name: str) -> Path:
    return _servers_dir() / f".{name}.lock"
