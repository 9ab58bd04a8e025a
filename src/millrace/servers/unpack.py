"""Unpack untrusted archives: nothing is ever written outside the target directory.

Members are refused if their name is absolute or contains ``..``, or if they are neither file,
directory nor link. The unpacked size is limited: in bytes by a multiple of the archive's size, and
in members. Links are created after all files, so no file is written through a link. Then every link
is resolved, and refused if it leads out of the directory.
"""

import bz2
import errno
import gzip
import lzma
import os
import stat
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn, Protocol, cast

from millrace import zip_directory
from millrace.errors import PermanentHostError
from millrace.servers import disk
from millrace.servers.sources import clients

Keep = Callable[[PurePosixPath], bool]

# Archives of servers unpack to 3 to 12 times their size and have up to 20,000 members.
_MOST_TIMES_ITS_SIZE = 100
_ALWAYS_ALLOWED_BYTES = 64 << 20
_MOST_MEMBERS = 500_000
_MOST_LINK_BYTES = 4096  # PATH_MAX
_MOST_DIRECTORY_BYTES = 64 << 20  # a zip's central directory is read into memory as a whole

# zipfile decompresses members of other kinds in one piece, whatever their size.
_OF_ZIPS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
_MOST_HEADER_BYTES = 1 << 20
_MOST_GLOBAL_FIELDS = 100  # PAX: tarfile copies them for each member
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
    EOFError,
    ValueError,  # an invalid number, a name with an invalid encoding
    # A zip that is encrypted or compressed in an unknown way.
    RuntimeError,
)

# The system's errors for names that only a damaged or a hostile archive has: two members of one
# name, a file where another member needs a directory, links that lead to each other, names that are
# too long. An error without a number comes from a decompressor.
_DAMAGED_NAMES = frozenset(
    (
        None, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
        errno.EINVAL, errno.EILSEQ, errno.EMLINK,
    )
)  # fmt: skip


class Unusable(PermanentHostError):
    """An error for an archive that is damaged, unsafe to unpack, or of an unknown type."""


class _Readable(Protocol):
    def read(self, n_bytes: int, /) -> bytes: ...


def everything(path: PurePosixPath) -> bool:
    """Keep every member."""
    return bool(path.parts)


def unpack(archive: Path, into: Path, *, root: str = "", keep: Keep = everything) -> None:
    """Unpack the members below ``root`` that ``keep`` accepts, from an archive.

    The type is detected from the content: zip and jar, deb, and tar, plain or compressed with gzip,
    bzip2, xz or zstd. ``keep`` gets the path below ``root``. All files become readable for
    everybody, because servers run as an unprivileged user. Raise Unusable for an archive that is
    damaged, reaches outside or unpacks to more than 100 times its size, and HostError if its
    content would fill the disk. After an error, ``into`` has a part of the content, which the
    caller removes.
    """
    into.mkdir(mode=0o755, parents=True, exist_ok=True)
    target = _Target(archive, into.resolve(), PurePosixPath(root), keep)
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, target)
        else:
            _unpack_tar(archive, target)
        target.make_links()
    except _DAMAGED as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno not in _DAMAGED_NAMES:
            raise
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> Unusable:
    return Unusable(
        f"{archive.name} is damaged or of an unknown type: {error}",
        hint="download it again; supported types are zip, deb, and tar (gzip, bzip2, xz, zstd)",
    )


def extract_member(archive: Path, member: str, into: Path) -> Path:
    """Extract one file of an archive. Raise PermanentHostError if the archive lacks it."""
    name = PurePosixPath(member).name
    unpack(
        archive,
        into,
        root=str(PurePosixPath(member).parent),
        keep=lambda path: path == PurePosixPath(name),
    )
    if not (into / name).is_file():
        raise PermanentHostError(f"{archive.name} has no member {member}")
    return into / name


@dataclass
class _Target:
    archive: Path
    into: Path
    root: PurePosixPath
    keep: Keep
    links: list[tuple[Path, str]] = field(default_factory=list)
    hard_links: list[tuple[Path, Path]] = field(default_factory=list)
    n_bytes: int = 0
    n_members: int = 0
    most_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        size_bytes = self.archive.stat().st_size
        self.most_bytes = _ALWAYS_ALLOWED_BYTES + _MOST_TIMES_ITS_SIZE * size_bytes

    def count(self, n_bytes: int) -> None:
        """Add to the unpacked bytes. Raise Unusable beyond the archive's limit."""
        self.n_bytes += n_bytes
        if self.n_bytes > self.most_bytes:
            raise self.unsafe(f"it unpacks to more than {self.most_bytes:,} bytes")

    def place(self, member: str) -> Path | None:
        """Return the target path of a member; None if it is not kept."""
        self.n_members += 1
        if self.n_members > _MOST_MEMBERS:
            raise self.unsafe(f"it has more than {_MOST_MEMBERS:,} members")
        path = PurePosixPath(member)
        if path.is_absolute() or ".." in path.parts or "\0" in member:
            raise self.outside(member)
        if path.parts[: len(self.root.parts)] != self.root.parts:
            return None
        below = PurePosixPath(*path.parts[len(self.root.parts) :])
        return self.into / below if self.keep(below) else None

    def write(self, place: Path, content: _Readable, executable: bool) -> None:
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        with place.open("xb") as file:
            while part := content.read(1 << 20):
                disk.require_space(place, len(part), f"unpacking {self.archive.name}")
                file.write(part)
        place.chmod(0o755 if executable else 0o644)

    def make_links(self) -> None:
        """Create hard links, then symbolic links; leave out dangling ones."""
        for place, source in self.hard_links:
            if source.is_file() and source != place:
                place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                place.unlink(missing_ok=True)
                place.hardlink_to(source)
        for place, text in self.links:
            if not text:
                raise self.unsafe(f"the link {place.name!r} has an empty target")
            self._inside(place.parent, text)
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._inside(place.parent / text, text)
            if not place.exists():
                place.symlink_to(text)
        for place, text in self.links:  # again: a later link may have redirected an earlier one
            self._inside(place, text)
        for place, _ in self.links:
            if not place.exists():
                place.unlink(missing_ok=True)

    def _inside(self, path: Path, text: str) -> None:
        # Path.resolve would fail on circular links.
        if "\0" in text or not Path(os.path.realpath(path)).is_relative_to(self.into):
            raise self.outside(text)

    def outside(self, member: str) -> Unusable:
        return self.unsafe(f"{member!r} leads out of the directory")

    def unsafe(self, why: str) -> Unusable:
        return Unusable(
            f"{self.archive.name} is not safe to unpack: {why}",
            hint="download the archive from its publisher, and verify its checksum",
        )


def _unpack_zip(archive: Path, target: _Target) -> None:
    with archive.open("rb") as file:
        directory = zip_directory.read_end(file)
    if directory.members > _MOST_MEMBERS or directory.size_bytes > _MOST_DIRECTORY_BYTES:
        raise target.unsafe(f"it has more than {_MOST_MEMBERS:,} members")
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            place = target.place(member.filename)
            if place is None or member.is_dir():
                continue
            if member.compress_type not in _OF_ZIPS:
                raise target.unsafe(f"{member.filename!r} uses an unsupported compression method")
            mode = member.external_attr >> 16
            with opened.open(member) as content:
                if stat.S_ISLNK(mode):
                    text = content.read(_MOST_LINK_BYTES + 1)
                    if len(text) > _MOST_LINK_BYTES:
                        raise target.unsafe(f"the link {member.filename!r} is too long")
                    target.links.append((place, text.decode()))
                else:
                    target.write(place, _Bounded(content, target), bool(mode & 0o111))


class _BoundedHeader(tarfile.TarInfo):
    """A member of a tar archive that refuses an extended header beyond a limit.

    tarfile reads an extended header (long names, PAX) completely before the caller sees the member.
    It does the same with the map of a sparse file, which may be endless.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENDED and self.size > _MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes is too large")
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        if len(archive.pax_headers) > _MOST_GLOBAL_FIELDS:
            raise tarfile.ReadError(f"more than {_MOST_GLOBAL_FIELDS} global header fields")
        return member

    def _refuse_sparse(self, *_: object) -> NoReturn:
        raise tarfile.ReadError(f"{self.name!r} is a sparse file, which is not supported")

    # tarfile calls these for the three notations of a sparse file in a PAX header.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


class _Bounded:
    """A stream that raises an error beyond the limit on an archive's unpacked size.

    For a tar archive all bytes count, including skipped members and headers; for a zip archive only
    the members that are written.
    """

    def __init__(self, stream: IO[bytes], target: _Target) -> None:
        self._stream = stream
        self._target = target

    def read(self, n_bytes: int) -> bytes:
        part = self._stream.read(n_bytes)
        self._target.count(len(part))
        return part


def _unpack_tar(archive: Path, target: _Target) -> None:
    with (
        _tar_stream(archive, target) as stream,
        tarfile.open(
            fileobj=stream,  # type: ignore[call-overload]
            mode="r|",
            tarinfo=_BoundedHeader,
        ) as opened,
    ):
        for member in opened:
            opened.members.clear()  # tarfile would keep each member with its headers
            if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
                raise target.unsafe(f"{member.name!r} is not a file, directory or link")
            place = target.place(member.name)
            if place is None or member.isdir():
                continue
            if member.issym():
                target.links.append((place, member.linkname))
            elif member.islnk():
                source = target.place(member.linkname)
                if source is not None:
                    target.hard_links.append((place, source))
            else:
                content = opened.extractfile(member)
                assert content is not None, "a file has content"
                target.write(place, content, bool(member.mode & 0o111))


def _decompressed(archive: Path, magic: bytes) -> IO[bytes]:
    """Return a stream of the decompressed content, which reads only as much as requested."""
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(archive))
    if magic.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(archive))
    if magic.startswith((b"\xfd7zXZ\0", b"\x5d\0\0")):
        return cast("IO[bytes]", lzma.open(archive))
    return archive.open("rb")


@contextmanager
def _tar_stream(archive: Path, target: _Target) -> Iterator[_Bounded]:
    """Yield the archive for tarfile; external programs decompress deb and zstd."""
    with archive.open("rb") as file:
        magic = file.read(8)
    purpose = f"to unpack {archive.name}"
    if magic == b"!<arch>\n":
        command = [clients.require("dpkg-deb", purpose), "--fsys-tarfile", str(archive)]
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        command = [clients.require("zstd", purpose), "-dcq", str(archive)]
    else:
        with _decompressed(archive, magic) as file:
            yield _Bounded(file, target)
        return
    with tempfile.TemporaryFile() as complaints:
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints)
        assert reader.stdout is not None
        try:
            stream = _Bounded(reader.stdout, target)
            yield stream
            # tarfile stops at the end marker; a program that cannot write the padding would fail.
            while stream.read(1 << 20):
                pass
        finally:
            reader.stdout.close()
            status = reader.wait()
        if status != 0:
            complaints.seek(0)
            words = complaints.read().decode(errors="replace").strip()
            raise tarfile.ReadError(f"{os.path.basename(command[0])}: {words}")  # noqa: PTH119
