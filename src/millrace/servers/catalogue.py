"""Read the catalogue of servers that millrace can install (``catalogue.toml``)."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from millrace.servers.sources.coordinates import Deb, Source, parsed_coordinate

_Package = Annotated[Deb, BeforeValidator(parsed_coordinate)]


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
        """The day since which no source has the server; None while a source has it."""
        days = [source.gone for source in self.sources if source.gone is not None]
        return max(days) if len(days) == len(self.sources) else None


@dataclass(frozen=True)
class Suite:
    """A name for the newest build in a Debian suite; it is installed under its exact name."""

    name: str
    family: str
    package: Annotated[_Package, Field(validation_alias="coordinate")]


class _Server(BaseModel, extra="forbid"):
    family: str
    version: str
    revision: str | None = None
    symbols: str
    source: tuple[Source, ...]

    def entry(self) -> Entry:
        revision = "" if self.revision is None else f"-{self.revision}"
        name = f"{self.family}-{self.version}{revision}"
        return Entry(name, self.family, self.version, self.symbols, self.source)


class _Document(BaseModel, extra="forbid"):
    server: tuple[_Server, ...]
    suite: tuple[Suite, ...]
    libraries: Mapping[str, _Package]


@cache
def entries() -> Mapping[str, Entry]:
    """Return every server of the catalogue by name, in the order of the file."""
    return {entry.name: entry for entry in map(_Server.entry, _document().server)}


@cache
def suites() -> Mapping[str, Suite]:
    """Return the names that follow a Debian suite, in the order of the file."""
    return {each.name: each for each in _document().suite}


def exact_name(family: str, package_version: str) -> str:
    """Return the exact server name of a Debian package version.

    ``1:11.8.9+ds-0+deb13u1`` of ``mariadb`` is ``mariadb-11.8.9-0+deb13u1``: without the epoch,
    with the release and the package revision, which changes with compilers and patches.
    """
    release, revision = package_release(package_version), package_version.rpartition("-")[2]
    return f"{family}-{release}-{revision}"


def package_release(package_version: str) -> str:
    """Return the vendor's release in a Debian package version, such as ``11.8.9``."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", package_version)
    assert match is not None, f"{package_version} begins with a number, as Debian's policy wants"
    return match[1]


def libraries() -> Mapping[str, Deb]:
    """Return the packages of shared libraries that hosts often lack, by library name."""
    return _document().libraries


@cache
def _document() -> _Document:
    text = resources.files("millrace.servers").joinpath("catalogue.toml").read_text("utf-8")
    return _Document.model_validate(tomllib.loads(text))
