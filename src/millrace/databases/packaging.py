"""How builds of a family are packaged: the protocol, and what it speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from millrace.errors import UserError


class Incomplete(UserError):
    """A tree that has no complete server."""


@dataclass(frozen=True)
class Located:
    """A server's parts in a tree; ``sql_dir`` has what a data directory is made with, None where
    there is nothing of that."""

    base_dir: Path
    program: Path
    share_dir: Path
    sql_dir: Path | None


@dataclass(frozen=True)
class Build:
    """The build that a program says it is."""

    family: str
    version: str


class Packaging(Protocol):
    """How builds are packaged. ``version_arguments`` make the program say its version."""

    @property
    def version_arguments(self) -> tuple[str, ...]: ...

    def is_needed(self, path: PurePosixPath) -> bool:
        """Return whether a member of a vendor's archive is of use: the program, its libraries, what
        it shares, its licence. Tests, manuals, headers and the vendor's clients are not."""

    def locate(self, directory: Path) -> Located:
        """Find the server in a directory: installed, unpacked from a package, or freshly built.

        A directory that holds only one other (as a vendor's tarball does) is entered. Raises
        Incomplete, which names what was looked for and where.
        """

    def read_version(self, printed: str) -> Build | None:
        """Return the build in what the program printed; None for no such answer."""

    def missing(self, build: Build, located: Located) -> str | None:
        """Return what a data directory cannot be made without, in words; None if all is there."""
