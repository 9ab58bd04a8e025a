"""The servers millrace can get by itself, as data (``catalogue.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from millrace.servers.sources import coordinates
from millrace.servers.sources.coordinates import Coordinate, Deb


@dataclass(frozen=True)
class Part:
    """A part of an artefact: which directory of it goes where in the server's tree.

    ``inner`` names an archive inside the artefact, ``root`` a directory of the (inner) archive,
    ``into`` a directory of the tree; empty means the whole, and the tree itself.
    """

    inner: str = ""
    root: str = ""
    into: str = ""


@dataclass(frozen=True)
class Source:
    """One way to get a server.

    ``sha256`` and ``size_bytes`` are those of the artefact.
    """

    coordinate: Coordinate
    size_bytes: int
    sha256: str
    parts: tuple[Part, ...] = (Part(),)


@dataclass(frozen=True)
class Entry:
    """A server of the catalogue; its sources are tried in order."""

    name: str
    family: str
    version: str
    symbols: str
    sources: tuple[Source, ...]


@cache
def entries() -> Mapping[str, Entry]:
    """Every server of the catalogue by name, in the order of the file."""
    return {entry.name: entry for entry in map(_entry, _document()["server"])}


@cache
def libraries() -> Mapping[str, Deb]:
    """Shared libraries that hosts often lack, by the name programs ask for, and their packages."""
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
    return Entry(
        name=f"{family}-{version}",
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
    )
