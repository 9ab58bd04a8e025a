"""Define one source of a server: an artefact's coordinate, checksum and parts."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated

from pydantic import BeforeValidator

from millrace.servers.sources import coordinates
from millrace.servers.sources.coordinates import Coordinate, Deb


def parsed_coordinate(coordinate: Coordinate | str) -> Coordinate:
    """Return the coordinate that a text of the catalogue names."""
    return coordinates.parse(coordinate) if isinstance(coordinate, str) else coordinate


@dataclass(frozen=True)
class Part:
    """A part of an artefact, and its place in the server's tree; empty means the whole."""

    inner: str = ""  # an archive inside the artefact
    root: str = ""  # a directory of the (inner) archive
    into: str = ""  # a directory of the tree


@dataclass(frozen=True)
class Plugin:
    """A Debian package, without its dependencies, whose shared objects a server gets, too."""

    coordinate: Annotated[Deb, BeforeValidator(parsed_coordinate)]
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """One source of a server and its artefact; ``gone`` is the day it was found lost."""

    coordinate: Annotated[Coordinate, BeforeValidator(parsed_coordinate)]
    size_bytes: int
    sha256: str
    parts: tuple[Part, ...] = (Part(),)
    gone: date | None = None
    plugins: tuple[Plugin, ...] = ()
