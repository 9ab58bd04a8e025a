"""Define the protocol by which millrace finds the parts of a family's builds."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from millrace.errors import UserError


class Incomplete(UserError):
    """An error for a tree that has no complete server."""


@dataclass(frozen=True)
class Located:
    """A server's parts in a tree.

    ``sql_dir`` holds the files that initialise a data directory; None where there are none.
    """

    base_dir: Path
    program: Path
    share_dir: Path
    sql_dir: Path | None


@dataclass(frozen=True)
class Build:
    """The family and version that a program reports."""

    family: str
    version: str


class Packaging(Protocol):
    """The layout of a family's builds. ``version_arguments`` make the program print its version."""

    @property
    def version_arguments(self) -> tuple[str, ...]: ...

    def is_needed(self, path: PurePosixPath) -> bool:
        """Return whether a server needs a member of a vendor's archive.

        It needs the program, its libraries, its shared files and its licence, but neither tests,
        manuals, headers nor the vendor's clients.
        """

    def locate(self, directory: Path) -> Located:
        """Find the server in a directory: installed, unpacked from a package, or freshly built.

        Enter a directory that holds only one other (as a vendor's tarball does). Raise Incomplete,
        which names the files and places that it looked at.
        """

    def read_version(self, output: str) -> Build | None:
        """Return the build in ``output`` of the program; None if the output names none."""

    def missing(self, build: Build, located: Located) -> str | None:
        """Name the parts without which no data directory can be created; None if all are there."""
