"""Define the sources of servers. A coordinate is a source in one word, without a host name."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Annotated

from pydantic import BeforeValidator

from millrace.errors import UserError


@dataclass(frozen=True)
class Maven:
    """An artefact of the Maven repository in the settings of the user's ``mvn``."""

    group: str
    artifact: str
    version: str
    extension: str
    classifier: str | None = None

    def __str__(self) -> str:
        classifier = () if self.classifier is None else (self.classifier,)
        parts = (self.group, self.artifact, self.version, *classifier, self.extension)
        return ":".join(("maven", *parts))


@dataclass(frozen=True)
class Npm:
    """A package of the registry in the settings of the user's ``npm``."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"npm:{self.name}@{self.version}"


@dataclass(frozen=True)
class Deb:
    """A Debian package of a suite, with its dependencies; version None is the newest."""

    suite: str
    package: str
    version: str | None = None

    def __str__(self) -> str:
        version = "" if self.version is None else f"={self.version}"
        return f"deb:{self.suite}:{self.package}{version}"


@dataclass(frozen=True)
class Tarball:
    """An archive at a URL or a path."""

    location: str

    def __str__(self) -> str:
        return f"tarball:{self.location}"


@dataclass(frozen=True)
class Directory:
    """A directory that already contains a server, such as a build tree."""

    path: str

    def __str__(self) -> str:
        return f"dir:{self.path}"


Coordinate = Maven | Npm | Deb | Tarball | Directory

# Words are restricted because they become arguments of package clients and parts of paths.
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_MAVEN = re.compile(rf"({_WORD}):({_WORD}):({_WORD})(?::({_WORD}))?:({_WORD})")
_NPM = re.compile(rf"((?:@{_WORD}/)?{_WORD})@({_WORD})")
_DEB = re.compile(rf"({_WORD}):({_WORD})(?:=([A-Za-z0-9][A-Za-z0-9.+~:-]*))?")

_SHAPES = {
    "maven": "maven:group:artifact:version[:classifier]:extension",
    "npm": "npm:name@version",
    "deb": "deb:suite:package[=version]",
    "tarball": "tarball:URL-or-path",
    "dir": "dir:path",
}


def parse(text: str) -> Coordinate:
    """Parse a coordinate; ``str`` is the inverse. Raise UserError."""
    kind, _, rest = text.partition(":")
    if kind not in _SHAPES:
        raise UserError(
            f"{text!r} is not a source: it must start with {':, '.join(_SHAPES)}:",
            hint="for example " + " or ".join(list(_SHAPES.values())[:2]),
        )
    coordinate = _parse_kind(kind, rest)
    if coordinate is None:
        raise UserError(f"{text!r} is not a valid source", hint=f"the format is {_SHAPES[kind]}")
    return coordinate


def _parse_kind(kind: str, rest: str) -> Coordinate | None:
    if kind == "maven" and (match := _MAVEN.fullmatch(rest)):
        group, artifact, version, classifier, extension = match.groups()
        return Maven(group, artifact, version, extension, classifier)
    if kind == "npm" and (match := _NPM.fullmatch(rest)):
        return Npm(*match.groups())
    if kind == "deb" and (match := _DEB.fullmatch(rest)):
        return Deb(*match.groups())
    if kind == "tarball" and rest:
        return Tarball(rest)
    if kind == "dir" and rest:
        return Directory(rest)
    return None


def parsed_coordinate(coordinate: Coordinate | str) -> Coordinate:
    """Return the coordinate, parsed if it is a text of the catalogue."""
    return parse(coordinate) if isinstance(coordinate, str) else coordinate


@dataclass(frozen=True)
class ArchivePart:
    """A part of an artefact, and its place in the server's tree; empty means all of it."""

    inner: str = ""  # an archive inside the artefact
    root: str = ""  # a directory of the (inner) archive
    into: str = ""  # a directory of the tree


@dataclass(frozen=True)
class Plugin:
    """A Debian package whose shared objects are added to a server, without dependencies."""

    coordinate: Annotated[Deb, BeforeValidator(parsed_coordinate)]
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """One source of a server and its artefact; ``gone`` is the day since which it is missing."""

    coordinate: Annotated[Coordinate, BeforeValidator(parsed_coordinate)]
    size_bytes: int
    sha256: str
    parts: tuple[ArchivePart, ...] = (ArchivePart(),)
    gone: date | None = None
    plugins: tuple[Plugin, ...] = ()
