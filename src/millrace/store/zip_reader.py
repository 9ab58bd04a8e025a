"""Read an untrusted zip archive and its members within limits.

Python's reader keeps the whole directory in memory and unpacks as much as the archive claims, so
the directory's size is checked first, and members are read in pieces.
"""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from millrace import zip_directory
from millrace.errors import UserError

LARGEST_BYTES = 4 << 30
LARGEST_UNPACKED_BYTES = 16 << 30
MOST_MEMBERS = 100_000
MOST_TIMES = 200
"""The largest ratio of unpacked to packed size, beyond ``_ANY_UNPACKED_BYTES``.

Results are packed to a tenth or a fiftieth of their size, a zip bomb to a thousandth.
"""

_ANY_UNPACKED_BYTES = 64 << 20
_LARGEST_DIRECTORY_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20


class Archive:
    """An open archive; UserError for a member that is damaged, too large or missing."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self.path = path
        self._zip = opened

    @property
    def names(self) -> list[str]:
        """The names of its members as in the archive, never used as paths."""
        return self._zip.namelist()

    @property
    def unpacked_bytes(self) -> int:
        """The size of all members; none is read beyond its claimed size."""
        return sum(member.file_size for member in self._zip.infolist())

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return a member's bytes; there are at most ``limit_bytes``."""
        return b"".join(self._pieces(name, limit_bytes))

    def copy(self, name: str, size_bytes: int, into: BinaryIO) -> str:
        """Write a member of ``size_bytes`` to a file; return its SHA-256."""
        digest = hashlib.sha256()
        for piece in self._pieces(name, size_bytes):
            digest.update(piece)
            into.write(piece)
        return digest.hexdigest()

    def _pieces(self, name: str, limit_bytes: int) -> Iterator[bytes]:
        left = limit_bytes
        try:
            with self._zip.open(name) as member:
                while piece := member.read(min(_PIECE_BYTES, left + 1)):
                    left -= len(piece)
                    if left < 0:
                        break
                    yield piece
        except KeyError:
            raise wrong(self.path, f"holds no {name}") from None
        except _UNREADABLE as error:
            raise wrong(self.path, f"{name} is damaged ({error})") from error
        if left < 0:
            raise wrong(self.path, f"{name} is larger than it should be")


_UNREADABLE = (EOFError, OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error)


def wrong(path: Path, problem: str) -> UserError:
    """Return the error for a file of which nothing is imported."""
    return UserError(
        f"{path}: {problem}; nothing was imported",
        hint="export the runs again, and compare the file's size after copying it",
    )


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive; raise UserError for another file, or one that exceeds a limit."""
    with _file(path) as file:
        try:
            _check_directory(path, file)
            archive = zipfile.ZipFile(file)
        except (OSError, *_UNREADABLE, NotImplementedError, struct.error) as error:
            raise wrong(
                path, f"is not a results file of millrace, or is cut short ({error})"
            ) from error
        with archive:
            _check_members(path, archive, os.fstat(file.fileno()).st_size)
            yield Archive(path, archive)


@contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    try:
        # Do not wait for a writer of a pipe.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", hint="check its name and place") from None
    except IsADirectoryError:
        raise _no_file(path, "is a directory") from None
    except PermissionError:
        raise UserError(
            f"{path}: may not be read by you", hint="make the file readable for you"
        ) from None
    except (OSError, ValueError) as error:
        raise wrong(path, f"cannot be read ({error})") from error
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path, "is no regular file")
        if status.st_size > LARGEST_BYTES:
            raise wrong(path, f"is larger than {LARGEST_BYTES:,} bytes")
        yield file


def _no_file(path: Path, problem: str) -> UserError:
    return UserError(
        f"{path}: {problem}, not a results file of millrace",
        hint="name a file that `millrace results export` wrote",
    )


def _check_directory(path: Path, file: BinaryIO) -> None:
    end = zip_directory.read_end(file)
    if end.has_comment:
        raise zipfile.BadZipFile("it does not end as one")
    if end.size_bytes > _LARGEST_DIRECTORY_BYTES or end.members > max(MOST_MEMBERS, 0xFFFF):
        raise wrong(path, f"holds more than {MOST_MEMBERS:,} files")


def _check_members(path: Path, archive: zipfile.ZipFile, size_bytes: int) -> None:
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise wrong(path, f"holds more than {MOST_MEMBERS:,} files")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise wrong(path, f"{member.filename} is packed by a method that exports never use")
    unpacked = sum(member.file_size for member in members)
    if unpacked > LARGEST_UNPACKED_BYTES:
        raise wrong(path, f"unpacks to more than {LARGEST_UNPACKED_BYTES:,} bytes")
    if unpacked > _ANY_UNPACKED_BYTES + MOST_TIMES * size_bytes:
        raise wrong(
            path, f"unpacks to {unpacked:,} bytes, more than {MOST_TIMES} times its own size"
        )
