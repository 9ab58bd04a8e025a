"""Copy and digest the files of a data directory, and bring them into a state of the page cache.

*Copies* are as fast as the disk allows, and preserve modes and holes. A file is cloned (FICLONE) if
the file system shares blocks. Otherwise several threads copy its data past the page cache
(O_DIRECT), one part of a file at a time: only the disk limits the speed, few pages are dirty, and
the copy is not in the page cache. Small files, small ranges, and file systems without direct I/O go
through the page cache. Holes (of transparent page compression) stay holes. If the original is fully
allocated, the copy is too, before it is written. *Digests* are computed past the page cache, so
cold files stay cold.

*The page cache.* ``cold``: written back and dropped. ``warm``: written back and read in. Servers
with O_DIRECT do not notice the difference. Servers with buffered I/O do; without a defined state
they would depend on what the previous trial left in memory.
"""

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from millrace.servers.instances.closing import open_without_links
from millrace.system_calls import checked, libc

_FICLONE = 0x40049409  # _IOW(0x94, 9, int), linux/fs.h
_CANNOT_CLONE = frozenset(
    (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM)
)

# Measured on a virtual disk: 1 to 8 threads and 1 to 4 MiB a request differ by less than the noise,
# with a quarter of the CPU time of a copy through the page cache. The latter takes three times as
# long on a busy host, even if reading in follows direct I/O. Real disks need several threads.
THREADS = 4
REQUEST_BYTES = 1 << 20
_PART_BYTES = 32 << 20
SMALL_BYTES = 1 << 16  # direct I/O gains nothing on the hundreds of small files of old servers
_PIECE_BYTES = 1 << 18  # nor on files that holes cut into smaller pieces on average
_ALIGNMENT = 4096

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Range = tuple[int, int]  # start and end in bytes


@dataclass(frozen=True)
class Copied:
    """The result of a copy."""

    how: str  # "reflink" if every file shares the original's blocks, else "copy"
    bytes: int  # the apparent size of all files


@dataclass(frozen=True)
class _Part:
    """Ranges of a file's data, in order, with at most _PART_BYTES in total."""

    original: Path
    copy: Path
    ranges: tuple[_Range, ...]
    direct: bool


@dataclass
class _Job:
    """The owner of a copy, and whether every file of it so far is a clone."""

    uid: int | None
    clones: bool = True


def copy_tree(source: Path, target: Path, uid: int | None) -> Copied:
    """Copy the directories and files of ``source`` into ``target``, an existing empty directory.

    The copies belong to the user ``uid`` and its group, or to this process's user if ``uid`` is
    None. Links, sockets and other special files are left out. Raise OSError. After a failure or
    interruption all threads have ended; the caller removes what they wrote.
    """
    job = _Job(uid)
    files: list[tuple[int, Path, Path]] = []
    made: list[tuple[Path, os.stat_result]] = []
    for name, directories, file_names in os.walk(source):
        directory, into = Path(name), target / Path(name).relative_to(source)
        for each in directories:
            (into / each).mkdir(mode=0o700)
            made.append((into / each, (directory / each).lstat()))
        for each in file_names:
            status = (directory / each).lstat()
            if stat.S_ISREG(status.st_mode):
                files.append((status.st_size, directory / each, into / each))
    files.sort(key=lambda entry: entry[0], reverse=True)  # the longest work first
    parts = [part for _, original, copy in files for part in _begin(original, copy, job)]
    in_threads(_copy_part, parts)
    # The copy's owner gets access only now, innermost directories first.
    for path, status in reversed(made):
        descriptor = open_without_links(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _take_after(descriptor, status, uid)
        finally:
            os.close(descriptor)
    return Copied("reflink" if job.clones else "copy", sum(entry[0] for entry in files))


def in_threads(
    work: Callable[[_Item, threading.Event], _Result], items: list[_Item]
) -> list[_Result]:
    """Return the results of ``work`` in threads; on a failure, set their event and await them."""
    stopped = threading.Event()
    with ThreadPoolExecutor(THREADS) as threads:
        try:
            running = [threads.submit(work, item, stopped) for item in items]
            for ended in wait(running, return_when=FIRST_EXCEPTION).done:
                ended.result()
            return [each.result() for each in running]
        except BaseException:
            stopped.set()
            raise


def _begin(original: Path, copy: Path, job: _Job) -> Iterator[_Part]:
    """Create the copy with owner, mode and size, and yield the parts that remain to be copied."""
    with (
        open(original, "rb", buffering=0, opener=open_without_links) as source,
        open(copy, "xb", buffering=0, opener=open_without_links) as target,
    ):
        status = os.fstat(source.fileno())
        _take_after(target.fileno(), status, job.uid)
        if job.clones and _cloned(source.fileno(), target.fileno()):
            return
        job.clones = False
        os.ftruncate(target.fileno(), status.st_size)
        if status.st_size == 0:
            return
        if status.st_blocks * 512 >= status.st_size > SMALL_BYTES:
            os.posix_fallocate(target.fileno(), 0, status.st_size)
        ranges = list(data_ranges(source.fileno(), status.st_size))
    data_bytes = sum(end - start for start, end in ranges)
    direct = data_bytes > SMALL_BYTES and data_bytes // len(ranges) > _PIECE_BYTES
    for each in _parts(ranges):
        yield _Part(original, copy, each, direct)


def data_ranges(descriptor: int, size: int) -> Iterator[_Range]:
    """Yield the ranges of a file that contain data, without holes (SEEK_DATA)."""
    position = 0
    while position < size:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        position = min(os.lseek(descriptor, start, os.SEEK_HOLE), size)
        yield start - start % _ALIGNMENT, position


def _parts(ranges: list[_Range]) -> Iterator[tuple[_Range, ...]]:
    part: list[_Range] = []
    room = _PART_BYTES
    for start, end in ranges:
        at = start
        while at < end:
            cut = min(end, at + room)
            part.append((at, cut))
            # Rounded up, so that the next cut is aligned wherever a hole ended this range.
            room -= -(-(cut - at) // _ALIGNMENT) * _ALIGNMENT
            at = cut
            if room <= 0:
                yield tuple(part)
                part, room = [], _PART_BYTES
    if part:
        yield tuple(part)


def _cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _CANNOT_CLONE:
            return False
        raise
    return True


def _copy_part(part: _Part, stopped: threading.Event) -> None:
    with (
        opened(part.original, os.O_RDONLY, direct=part.direct) as source,
        opened(part.copy, os.O_WRONLY, direct=part.direct) as target,
        opened(part.copy, os.O_WRONLY, direct=False) as tail,
        mmap.mmap(-1, REQUEST_BYTES) as buffer,  # aligned, as direct I/O requires
        memoryview(buffer) as view,
    ):
        for start, end in part.ranges:
            offset = start
            while offset < end and not stopped.is_set():
                wanted = min(REQUEST_BYTES, end - offset)
                padded = -(-wanted // _ALIGNMENT) * _ALIGNMENT
                with view[:padded] as room:
                    got = min(os.preadv(source, [room], offset), wanted)
                if got == 0:
                    raise OSError(
                        errno.EIO, "the file was truncated while it was copied", part.original
                    )
                # The last bytes may not fill a block, but direct I/O writes only whole blocks.
                whole = got - got % _ALIGNMENT
                with view[: whole or got] as found:
                    offset += os.pwritev(target if whole else tail, [found], offset)


@contextlib.contextmanager
def opened(path: Path, flags: int, *, direct: bool) -> Iterator[int]:
    """Open a file, with O_DIRECT if ``direct`` and if the file system supports it."""
    try:
        descriptor = open_without_links(path, flags | (os.O_DIRECT if direct else 0))
    except OSError as error:
        if not direct or error.errno != errno.EINVAL:
            raise
        descriptor = open_without_links(path, flags)  # no direct I/O on this file system
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take_after(descriptor: int, original: os.stat_result, uid: int | None) -> None:
    if uid is not None:
        os.fchown(descriptor, uid, uid)
    # Drop the set-user-ID and set-group-ID bits, because the owner has changed.
    os.fchmod(descriptor, stat.S_IMODE(original.st_mode) & 0o777)


State = Literal["cold", "warm"]

_READ_BYTES = 1 << 22


def files_below(directory: Path) -> list[Path]:
    """Return every file below a directory, sorted."""
    return sorted(Path(at) / name for at, _, names in os.walk(directory) for name in names)


def bring(directory: Path, state: State) -> None:
    """Write back the file system of ``directory``, and bring its files into ``state``.

    Pages that a process has mapped cannot be dropped, so no server may use the files. After a
    failure or interruption, all threads have ended.
    """
    write_back(directory)
    in_threads(_drop if state == "cold" else _read, files_below(directory))


def write_back(directory: Path) -> None:
    """Wait until all dirty data on the file system of ``directory`` is on the disk (syncfs)."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        checked(libc.syncfs(descriptor))
    finally:
        os.close(descriptor)


def _drop(file: Path, stopped: threading.Event) -> None:
    if stopped.is_set():
        return
    descriptor = open_without_links(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _read(file: Path, stopped: threading.Event) -> None:
    """Read the data of a file; skip holes, which may be terabytes and take no disk space."""
    if stopped.is_set():
        return
    with (
        open(file, "rb", buffering=0, opener=open_without_links) as opened,
        memoryview(bytearray(_READ_BYTES)) as buffer,
    ):
        size = os.fstat(opened.fileno()).st_size
        for start, end in data_ranges(opened.fileno(), size):
            offset = start
            while offset < end and not stopped.is_set():
                with buffer[: end - offset] as room:
                    got = os.preadv(opened.fileno(), [room], offset)
                if got == 0:  # the file was truncated
                    break
                offset += got
            if stopped.is_set():
                return


_DIGEST_BYTES = 20
_ZEROS = bytes(REQUEST_BYTES)


def digests(data_dir: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the BLAKE2b digest, in hex, of each file, by its path below ``data_dir``.

    A digest covers the size and every MiB that is not zero, with its offset, so a sparse file of
    terabytes takes no time. Raise OSError. After a failure or interruption, all threads have ended.
    """
    names = list(paths)
    found = in_threads(_digest, [data_dir / name for name in names])
    return dict(zip(names, found, strict=True))


def damage(data_dir: Path, kept: Mapping[str, str]) -> str | None:
    """Return why files do not match their digests; None if they match."""
    try:
        found = digests(data_dir, kept)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"cannot read its files: {error.strerror}"
    for path in sorted(kept):
        if found[path] != kept[path]:
            return f"the content of {path} has changed"
    return None


def _digest(path: Path, stopped: threading.Event) -> str:
    size = path.lstat().st_size
    digest = hashlib.blake2b(size.to_bytes(8), digest_size=_DIGEST_BYTES)
    with (
        opened(path, os.O_RDONLY, direct=size > SMALL_BYTES) as source,
        mmap.mmap(-1, REQUEST_BYTES) as buffer,  # aligned, as direct I/O requires
        memoryview(buffer) as view,
    ):
        offset = 0
        for start, end in data_ranges(source, size):
            offset = max(offset, start - start % REQUEST_BYTES)
            while offset < end and not stopped.is_set():
                got = os.preadv(source, [view], offset)
                if got < min(REQUEST_BYTES, size - offset):
                    raise OSError(errno.EIO, "the file was truncated while it was read", str(path))
                content = buffer[:got]
                if content != _ZEROS[:got]:
                    digest.update(offset.to_bytes(8))
                    digest.update(content)
                offset += REQUEST_BYTES
        # Drop what went through the page cache: small files, and files without direct I/O.
        os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()
