"""Read the catalogue of servers that millrace can install by itself (``catalogue.toml``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

from millrace.servers.sources import coordinates
from millrace.servers.sources.coordinates import Coordinate, Deb


@dataclass(frozen=True)
class Part:
    """A part of an artefact, and its place in the server's tree.

    ``inner`` names an archive inside the artefact, ``root`` a directory of the (inner) archive,
    ``into`` a directory of the tree. Empty ones mean the whole artefact, the whole archive, and the
    tree itself.
    """

    inner: str = ""
    root: str = ""
    into: str = ""


@dataclass(frozen=True)
class Source:
    """One source of a server.

    ``sha256`` and ``size_bytes`` are those of the artefact. ``gone`` is the day on which the source
    was found to have lost it.
    """

    coordinate: Coordinate
    size_bytes: int
    sha256: str
    parts: tuple[Part, ...] = (Part(),)
    gone: date | None = None


@dataclass(frozen=True)
class Entry:
    """A server of the catalogue; its sources are tried in order."""

    name: str
    family: str
    version: str
    symbols: str
    sources: tuple[Source, ...]

    @property
    def gone(self) -> date | None:
        """The day since which no source has it; None while one has."""
        days = [source.gone for source in self.sources if source.gone is not None]
        return max(days) if len(days) == len(self.sources) else None


@dataclass(frozen=True)
class Suite:
    """A name for the newest build of a Debian suite, which changes with the suite.

    It is not a server: installing it installs an exact one, under the name of its version and
    package revision (see ``exact_name``).
    """

    name: str
    family: str
    package: Deb


@cache
def entries() -> Mapping[str, Entry]:
    """Return every server of the catalogue by name, in the order of the file."""
    return {entry.name: entry for entry in map(_entry, _document()["server"])}


@cache
def suites() -> Mapping[str, Suite]:
    """Return the names that follow a Debian suite, in the order of the file."""
    found = {}
    for table in _document()["suite"]:
        package = coordinates.parse(table["coordinate"])
        assert isinstance(package, Deb), f"{table['name']} comes from a Debian suite"
        found[table["name"]] = Suite(table["name"], table["family"], package)
    return found


def exact_name(family: str, package_version: str) -> str:
    """Return the name of the build with a Debian package version.

    ``1:11.8.9+ds-0+deb13u1`` of ``mariadb`` is ``mariadb-11.8.9-0+deb13u1``: no epoch, the release,
    and the package revision, which changes with compilers and patches.
    """
    release, revision = package_release(package_version), package_version.rpartition("-")[2]
    return f"{family}-{release}-{revision}"


def package_release(package_version: str) -> str:
    """Return the vendor's release in a Debian package version: ``11.8.9`` of the example above."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", package_version)
    assert match is not None, f"{package_version} begins with a number, as Debian's policy wants"
    return match[1]


@cache
def libraries() -> Mapping[str, Deb]:
    """Return the packages of shared libraries that hosts often lack, by the libraries' names."""
    packages = {}
    for name, text in _document()["libraries"].items():
        package = coordinates.parse(text)
        assert isinstance(package, Deb), f"{name} comes in a Debian package"
        packages[name] = package
    return packages


def _document() -> Mapping[str, Any]:
    text = resources.files("millrace.servers").joinpath("catalogue.toml").read_text("utf-8")
    return tomllib.loads(text)


def _entry(table: Mapping[str, Any]) -> Entry:
    family, version = table["family"], table["version"]
    revision = f"-{table['revision']}" if "revision" in table else ""
    return Entry(
        name=f"{family}-{version}{revision}",
        family=family,
        version=version,
        symbols=table["symbols"],
        sources=tuple(map(_source, table["source"])),
    )


def _source(table: Mapping[str, Any]) -> Source:
    return Source(
        coordinate=coordinates.parse(table["coordinate"]),
        size_bytes=table["size_bytes"],
        sha256=table["sha256"],
        parts=tuple(Part(**part) for part in table.get("parts", ({},))),
        gone=table.get("gone"),
    )
