"""Store files once under their SHA-256, ``<store>.artefacts/aa/aa...``; they never change."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from millrace import atomic_file
from millrace.errors import DamagedResult, DiskFull, HostError, MillraceError, UserError
from millrace.store import private


def write_problem(path: Path, error: OSError, *, option: str = "--store") -> MillraceError:
    """Return the error for a failure to write ``path``, which the user chooses with ``option``."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return UserError(
            f"{path}: cannot be written ({os.strerror(error.errno)})",
            hint=f"make it writable for your user, or choose another path with {option} PATH",
        )
    return HostError(f"{path}: cannot be written ({error.strerror or error})")


def disk_full(path: Path) -> DiskFull:
    """Return the error for a full file system at ``path``."""
    return DiskFull(
        f"{path}: the disk is full",
        hint="free some space and repeat the command; the stored results are intact, and "
        "`millrace results remove RUN` frees the space of a run",
    )


@contextlib.contextmanager
def written_atomically(
    path: Path, *, option: str = "--store", resolved: bool = False
) -> Iterator[Path]:
    """Yield a draft that replaces ``path`` durably; raise the error of ``write_problem``."""
    try:
        with atomic_file.atomic_write(path, durable=True, resolved=resolved) as draft:
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
        """Store ``content`` unless it is stored already; return its SHA-256 (hex)."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.path(sha256)
        if not path.exists():
            self._make_directory()
            with written_atomically(path) as draft:
                draft.write_bytes(content)
        return sha256

    def _make_directory(self) -> None:
        try:
            private.make_directory(self.directory)
        except OSError as error:
            raise write_problem(self.directory, error) from error

    def read(self, sha256: str) -> bytes:
        """Return the content named ``sha256``; raise DamagedResult if it is missing or changed."""
        path = self.path(sha256)
        try:
            content = path.read_bytes()
        except OSError as error:
            problem = DamagedResult if error.errno in _OF_DAMAGE else HostError
            raise problem(f"{path}: cannot read this file of the store ({error})") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DamagedResult(f"{path}: file was changed: its SHA-256 differs from its name")
        return content

    @contextlib.contextmanager
    def staging(self) -> Iterator[Staged]:
        """Yield a locked staging area for an import; remove it when the block ends."""
        self._make_directory()
        try:
            place = Path(tempfile.mkdtemp(prefix=_STAGED, dir=self.directory))
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise write_problem(self.directory, error) from error
        staged = Staged(place)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield staged
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.close(descriptor)
            with contextlib.suppress(OSError):
                self.directory.rmdir()

    def adopt(self, staged: Staged, names: Iterable[str]) -> None:
        """Move the files ``names`` that the store lacks from the staging area into the store.

        A list of them is written first: if this process is killed, a later command cleans up.
        """
        new = [name for name in names if not self.path(name).exists()]
        try:
            staged.list_adopted(new)
            for name in new:
                self.path(name).parent.mkdir(parents=True, exist_ok=True)
                staged.path(name).replace(self.path(name))
            for directory in {self.path(name).parent for name in new}:
                atomic_file.flush(directory)
        except OSError as error:
            raise write_problem(self.directory, error) from error

    def unsettled(self) -> Iterator[Staged]:
        """Yield the staging area of each killed import; remove it afterwards."""
        for place in self.directory.glob(f"{_STAGED}*"):
            try:
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield Staged(place)
                shutil.rmtree(place, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)
        with contextlib.suppress(OSError):
            self.directory.rmdir()

    def remove_abandoned(self) -> None:
        """Remove drafts whose writing process no longer exists."""
        for directory in self.directory.glob("[0-9a-f][0-9a-f]"):
            atomic_file.remove_abandoned(directory)

    def discard(self, names: Iterable[str]) -> None:
        """Remove the files ``names``, and directories that become empty."""
        for sha256 in names:
            path = self.path(sha256)
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()


_STAGED = ".import-"
_ADOPTED = "adopted"


class Staged:
    """The staging area of an import: its files before they are moved into the store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, sha256: str) -> Path:
        return self.directory / sha256

    @contextlib.contextmanager
    def writing(self, sha256: str) -> Iterator[BinaryIO]:
        """Open a file for writing; it is durable (fsync) when the block ends."""
        try:
            with self.path(sha256).open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_problem(self.directory.parent, error) from error

    def list_adopted(self, names: Sequence[str]) -> None:
        """Write the list of the files that will be moved, durably."""
        with atomic_file.atomic_write(self.directory / _ADOPTED, durable=True) as draft:
            draft.write_text("\n".join(names), encoding="ascii")

    def adopted(self) -> set[str]:
        """Return the names in the list of moved files; empty without a list."""
        try:
            names = (self.directory / _ADOPTED).read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return set()
        return {name for name in names if SHA256.fullmatch(name)}


# Errors of the kernel if a stored file is missing, or is not a regular file any more.
_OF_DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
SHA256 = re.compile(r"[0-9a-f]{64}")
