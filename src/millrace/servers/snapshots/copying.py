"""Copy a data directory as fast as the disk allows, with its modes and holes.

A file is cloned (FICLONE) where the file system shares blocks. Otherwise several threads read and
write its data past the page cache (O_DIRECT), a part of a file at a time: only the disk limits the
speed, little is left dirty, and the copy is not in the page cache. Where the file system has no
direct I/O, and for small files and small pieces, the same copy goes through the page cache. Holes
(pages that transparent compression punched out) stay holes; where the original is fully allocated,
the copy is too, before it is written.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from millrace.servers.instances.closing import open_without_links

_FICLONE = 0x40049409  # _IOW(0x94, 9, int), linux/fs.h
_CANNOT_CLONE = frozenset(
    (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM)
)

# Measured on a virtual disk: 1 to 8 threads and 1 to 4 MiB a request differ by less than the noise,
# at a quarter of the CPU time of a copy through the page cache. The latter takes three times as
# long on a busy host, even if the copy is read in afterwards. Real disks need several threads.
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

    how: str  # reflink where every file shares the original's blocks, else copy
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

    They belong to the user ``uid`` and its group, or to this process's where that is None. Leave
    out links, sockets and other special files. Raise OSError. On failure or interruption, all
    threads have ended, and the caller removes what they wrote.
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
    # The copy's owner gets access only now, to the innermost directories first.
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
    """Return the results of ``work`` in threads; at a failure, set their event and await them."""
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
    """Create the copy with owner, mode and size, and yield the parts that remain to copy."""
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
    """Yield the ranges in which a file holds data, by the file system's account, without holes."""
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
                    raise OSError(errno.EIO, "it became shorter while it was copied", part.original)
                # The last bytes may not fill a block, and direct I/O writes only whole blocks.
                whole = got - got % _ALIGNMENT
                with view[: whole or got] as found:
                    offset += os.pwritev(target if whole else tail, [found], offset)


@contextlib.contextmanager
def opened(path: Path, flags: int, *, direct: bool) -> Iterator[int]:
    """Open a file, past the page cache where ``direct`` and supported by the file system."""
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
