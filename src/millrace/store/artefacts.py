"""Files beside the store, named by the SHA-256 of their content: ``<store>.artefacts/aa/aa...``.

A file appears complete or not at all, and is never changed; equal content is kept once.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from millrace import whole_file
from millrace.errors import HostProblem, MillraceError, UserError


def write_problem(path: Path, error: OSError, *, option: str = "--store") -> MillraceError:
    """Why ``path``, which the user can choose with ``option``, could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return UserError(
            f"{path}: cannot be written ({os.strerror(error.errno)})",
            remedy=f"make it writable for you, or name another place ({option} PATH)",
        )
    return HostProblem(f"{path}: cannot be written ({error.strerror or error})")


def disk_full(path: Path) -> HostProblem:
    return HostProblem(
        f"{path}: the disk is full",
        remedy="free some space and give the same command again; what was stored is intact",
    )


@contextlib.contextmanager
def written_atomically(path: Path, *, option: str = "--store") -> Iterator[Path]:
    """A draft of ``path`` (see ``whole_file.drafted``), durable once the block has ended.

    Raises what the disk refuses as something the user can act on, see ``write_problem``.
    """
    try:
        with whole_file.drafted(path, durable=True) as draft:
            yield draft
    except OSError as error:
        raise write_problem(path, error, option=option) from error


class Artefacts:
    """The files of one store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, sha256: str) -> Path:
        return self.directory / sha256[:2] / sha256

    def keep(self, content: bytes) -> str:
        """Keep ``content`` and return its SHA-256 (hex). Nothing is written when it is there."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.path(sha256)
        if not path.exists():
            with written_atomically(path) as draft:
                draft.write_bytes(content)
        return sha256

    def read(self, sha256: str) -> bytes:
        """The content named ``sha256``; HostProblem when it is missing or was changed."""
        path = self.path(sha256)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise HostProblem(f"{path}: a file of the store cannot be read ({error})") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise HostProblem(f"{path}: a file of the store was changed; its name is its SHA-256")
        return content

    def discard(self, names: Iterable[str]) -> None:
        """Remove these files, and the directories this leaves empty."""
        for sha256 in names:
            path = self.path(sha256)
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()
