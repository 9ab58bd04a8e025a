"""Fetch the artefact of a coordinate, for every kind of source."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from millrace import paths
from millrace.errors import HostError, UserError
from millrace.model.events import Notice, OnEvent, ignore
from millrace.model.servers import Artefact, Provenance
from millrace.servers import download
from millrace.servers.locks import exclusive
from millrace.servers.provenance import file_sha256
from millrace.servers.sources import deb, maven, npm
from millrace.servers.sources.coordinates import Deb, Maven, Npm, Plugin, Source, Tarball
from millrace.servers.web import without_secrets
from millrace.tls import is_this_host


@dataclass(frozen=True)
class Package:
    """A fetched package that supplies libraries."""

    file: Path
    artefact: Artefact


@dataclass(frozen=True)
class Arrived:
    """A fetched artefact, and the packages that came with it."""

    file: Path
    artefact: Artefact
    packages: tuple[Package, ...] = ()
    plugins: tuple[Package, ...] = ()  # whose shared objects belong to the server

    @property
    def provenance(self) -> Provenance:
        """The origin of a server that consists of the artefact."""
        artefacts = (self.artefact, *(plugin.artefact for plugin in self.plugins))
        return Provenance(source=self.artefact.coordinate, artefacts=artefacts)


def fetch(source: Source, workspace: Path, on_event: OnEvent) -> Arrived:
    """Fetch and verify an artefact; remove it if it is wrong. Raise HostError."""
    arrived = _fetch_artefact(source, workspace, on_event)
    plugins = tuple(_fetch_plugin(plugin, workspace, on_event) for plugin in source.plugins)
    return replace(arrived, plugins=plugins)


def _fetch_plugin(plugin: Plugin, workspace: Path, on_event: OnEvent) -> Package:
    with _apt(plugin.coordinate.suite, on_event) as root:
        file = deb.fetch_alone(plugin.coordinate, root, workspace / "plugins", on_event)
    download.verify(file, plugin.sha256, str(plugin.coordinate))
    return Package(file, _artefact(str(plugin.coordinate), file))


def _fetch_artefact(source: Source, workspace: Path, on_event: OnEvent) -> Arrived:
    coordinate, size_bytes, sha256 = source.coordinate, source.size_bytes, source.sha256
    match coordinate:
        case Maven():
            file = maven.place(coordinate, workspace)
            address = partial(maven.address, coordinate)
            if not _fetch_plainly(file, "mvn", address, source, on_event):
                with exclusive(_clients() / "maven.lock", "mvn", on_event):
                    file = maven.fetch(coordinate, _repository(), size_bytes, on_event)
        case Npm():
            file = workspace / npm.file_name(coordinate)
            address = partial(npm.address, coordinate, workspace)
            if not _fetch_plainly(file, "npm", address, source, on_event):
                file = npm.fetch(coordinate, workspace, size_bytes, on_event)
        case Tarball(location):
            return fetch_tarball(location, sha256, workspace, on_event, most_bytes=size_bytes)
        case Deb():
            arrived = fetch_package(coordinate, workspace, on_event)
            download.verify(arrived.file, sha256, str(coordinate))
            return arrived
        case _:
            raise UserError(f"{coordinate} cannot be downloaded")
    download.verify(file, sha256, str(coordinate))
    return Arrived(file, _artefact(str(coordinate), file))


def require_served(source: Source, workspace: Path) -> None:
    """Check that a source has its artefact, without download. Raise NotServed, HostError."""
    match source.coordinate:
        case Deb() as coordinate:
            served = suite_versions(coordinate, workspace)
            deb.require_version(coordinate, served)
        case Npm() as coordinate:
            npm.address(coordinate, workspace)
        case Maven() as coordinate:
            url = maven.address(coordinate)
            if url is None or not _is_plain(url):
                raise HostError(f"only mvn can check whether {coordinate} exists")
            download.require_served(url)
        case coordinate:
            raise HostError(f"cannot check whether {coordinate} exists")


def fetch_package(coordinate: Deb, workspace: Path, on_event: OnEvent) -> Arrived:
    """Fetch a package that only apt verifies. Raise HostError; NotServed if the suite lacks it."""
    packages = _fetch_deb(coordinate, workspace / "packages", on_event)
    artefact = _artefact(str(packages.used), packages.main)
    return Arrived(packages.main, artefact, _packages(coordinate.suite, packages.others))


def suite_versions(coordinate: Deb, workspace: Path) -> list[str]:
    """Return every version of a package in its suite, newest first. Raise HostError."""
    with _apt(coordinate.suite, ignore) as root:
        return deb.versions(coordinate, root, workspace, ignore)


def fetch_packages(
    wanted: Iterable[Deb], workspace: Path, on_event: OnEvent
) -> tuple[Package, ...]:
    """Fetch packages and their dependencies into ``workspace``, each package once."""
    found: list[Package] = []
    for coordinate in wanted:
        packages = _fetch_deb(coordinate, workspace / "libraries", on_event)
        found += _packages(coordinate.suite, (packages.main, *packages.others))
    return tuple(dict.fromkeys(found))


def fetch_tarball(
    location: str,
    sha256: str | None,
    workspace: Path,
    on_event: OnEvent,
    *,
    most_bytes: int = download.MOST_BYTES,
) -> Arrived:
    """Fetch a vendor's archive from a URL, or copy it from this host.

    The archive is copied because its owner could change the file meanwhile. Raise UserError for a
    URL with a password, and for plain HTTP without a checksum.
    """
    if "://" in location:
        _refuse_unsafe(location, sha256)
        file = workspace / (location.rstrip("/").rpartition("/")[2].partition("?")[0] or "archive")
        download.download(location, file, on_event, sha256=sha256, most_bytes=most_bytes)
        return Arrived(file, _artefact(str(Tarball(without_secrets(location))), file))
    file = Path(location).expanduser().absolute()
    if not file.is_file():
        raise UserError(f"{file} is not a file", hint="use the path or the URL of an archive")
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = workspace / file.name
    shutil.copyfile(file, copy)
    download.verify(copy, sha256, str(file))
    return Arrived(copy, _artefact(str(Tarball(str(file))), copy))


def _refuse_unsafe(url: str, sha256: str | None) -> None:
    shown = without_secrets(url)
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise UserError(
            f"{shown}: URLs with a user name or password are not supported",
            hint="download the archive yourself, and use its path",
        )
    if parts.scheme == "http" and sha256 is None and not is_this_host(parts.hostname or ""):
        raise UserError(
            f"{shown}: plain HTTP is not safe without a checksum",
            hint="add the publisher's checksum with --sha256, or use an https URL",
        )


def room(name: str) -> Path:
    """Return a directory below the cache, or below the state if the cache is read-only."""
    place = paths.cache_dir() / name
    ways = (place, *place.parents)
    there = next(each for each in ways if os.access(each, os.F_OK, effective_ids=True))
    may_write = os.access(there, os.W_OK | os.X_OK, effective_ids=True)
    return place if may_write else paths.state_dir() / name


@contextmanager
def kept_for_next_attempt(workspace: Path) -> Iterator[None]:
    """Keep downloads in ``workspace`` when fetching fails; remove it if it has none."""
    try:
        yield
    except BaseException:
        if not any(map(_has_arrived, workspace.rglob("*"))):
            shutil.rmtree(workspace, ignore_errors=True)
        raise


def _has_arrived(path: Path) -> bool:
    return path.is_file() and path.name not in deb.NOTES and path.stat().st_size > 0


def forget(source: Source, workspace: Path) -> None:
    """Remove the downloads of a source whose server is installed."""
    shutil.rmtree(workspace, ignore_errors=True)
    if isinstance(source.coordinate, Maven):
        shutil.rmtree(maven.place(source.coordinate, _repository()).parent, ignore_errors=True)


def _fetch_plainly(
    file: Path, client: str, address: Callable[[], str | None], source: Source, on_event: OnEvent
) -> bool:
    """Download ``file`` and return True; return False if only the client can fetch it."""
    if file.is_file():
        return True
    url = address()
    if url is None or not _is_plain(url):
        return False
    try:
        download.download(url, file, on_event, sha256=source.sha256, most_bytes=source.size_bytes)
    except download.Refused as error:
        on_event(Notice(f"{error.message}; trying {client} with all of its settings"))
        return False
    return True


def _is_plain(url: str) -> bool:
    """Return whether a URL is http(s) without a user name."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and parts.username is None


@contextmanager
def _apt(suite: str, on_event: OnEvent) -> Iterator[Path]:
    """Lock and yield the directory of apt's lists for a suite."""
    root = _clients() / "apt" / suite
    with exclusive(root / "lock", f"apt for {suite}", on_event):
        yield root


def _fetch_deb(coordinate: Deb, archives: Path, on_event: OnEvent) -> deb.Packages:
    with _apt(coordinate.suite, on_event) as root:
        return deb.fetch(coordinate, root, archives, on_event)


def _artefact(coordinate: str, file: Path) -> Artefact:
    return Artefact(coordinate, file_sha256(file), file.stat().st_size)


def _packages(suite: str, files: Sequence[Path]) -> tuple[Package, ...]:
    """Return the records of packages, whose file names contain the versions."""
    packages = []
    for file in files:
        name, version, _ = file.name.split("_", 2)
        coordinate = Deb(suite, name, version.replace("%3a", ":"))
        packages.append(Package(file, _artefact(str(coordinate), file)))
    return tuple(packages)


def _clients() -> Path:
    return room("clients")


def _repository() -> Path:
    return _clients() / "maven"
