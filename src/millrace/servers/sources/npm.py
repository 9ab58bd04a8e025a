"""Fetch packages of the npm registry in the settings of the user's ``npm``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from millrace import safe_json
from millrace.errors import HostError
from millrace.model.events import OnEvent
from millrace.servers.sources import clients
from millrace.servers.sources.coordinates import Npm

_NOT_SET = ("null", "undefined")


def address(coordinate: Npm, workspace: Path) -> str | None:
    """Return the URL of the package for plain HTTP; None if only ``npm`` can fetch it.

    Only ``npm`` can use the proxy in its settings. It can also replace a URL of another host that
    the registry returns, as mirrors do. Raise HostError with the message of ``npm``.
    """
    keys = ("registry", "proxy", "https-proxy")
    lines = _npm(["config", "get", *keys], coordinate, workspace).split()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    if any(settings.get(key) not in _NOT_SET for key in ("proxy", "https-proxy")):
        return None
    answer = _npm(["view", _package(coordinate), "dist.tarball", "--json"], coordinate, workspace)
    try:
        url = safe_json.parse(answer)
    except ValueError:
        return None
    if not isinstance(url, str):
        return None
    return url if urlsplit(url).netloc == urlsplit(settings.get("registry", "")).netloc else None


def file_name(coordinate: Npm) -> str:
    """Return the file name that ``npm pack`` gives to the archive of a package."""
    name = coordinate.name.removeprefix("@").replace("/", "-")
    return f"{name}-{coordinate.version}.tgz"


def fetch(coordinate: Npm, into: Path, size_bytes: int | None, on_event: OnEvent) -> Path:
    """Fetch a package as .tgz with ``npm``, without running its scripts. Raise HostError."""
    into.mkdir(parents=True, exist_ok=True)
    output = _npm(
        ["pack", _package(coordinate), f"--pack-destination={into}", "--ignore-scripts"],
        coordinate,
        into,
        watch=clients.watch_growth(into, str(coordinate), size_bytes, on_event),
    )
    lines = output.split()
    arrived = into / lines[-1] if lines else into
    if not arrived.is_file():
        raise HostError(f"npm reported that it downloaded {coordinate}, but {into} is empty")
    return arrived


def _package(coordinate: Npm) -> str:
    return f"{coordinate.name}@{coordinate.version}"


def _npm(
    words: Sequence[str], coordinate: Npm, workspace: Path, watch: Callable[[], None] = lambda: None
) -> str:
    return clients.run(
        ["npm", *words, f"--cache={workspace / 'npm-cache'}", "--loglevel=error"],
        purpose=f"to download {coordinate}",
        watch=watch,
    )
