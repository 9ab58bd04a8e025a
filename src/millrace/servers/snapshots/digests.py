"""Compute digests of a snapshot's files past the page cache, so that cold files stay cold."""

import errno
import hashlib
import mmap
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from millrace.servers.snapshots.copying import (
    REQUEST_BYTES,
    SMALL_BYTES,
    data_ranges,
    in_threads,
    opened,
)

_DIGEST_BYTES = 20
_ZEROS = bytes(REQUEST_BYTES)


def digests(data_dir: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the BLAKE2b digest, in hex, of each file, by its path below ``data_dir``.

    It covers the size and every MiB that is not zero, with its offset, so that a sparse file of
    terabytes takes no time. Raise OSError. On failure or interruption, all threads have ended when
    this function returns.
    """
    names = list(paths)
    found = in_threads(_digest, [data_dir / name for name in names])
    return dict(zip(names, found, strict=True))


def damage(data_dir: Path, kept: Mapping[str, str]) -> str | None:
    """Return why files do not match their digests; None where they do."""
    try:
        found = digests(data_dir, kept)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"its files cannot be read: {error.strerror}"
    for path in sorted(kept):
        if found[path] != kept[path]:
            return f"{path} holds other bytes than were kept"
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
                    raise OSError(errno.EIO, "it became shorter while it was read", str(path))
                content = buffer[:got]
                if content != _ZEROS[:got]:
                    digest.update(offset.to_bytes(8))
                    digest.update(content)
                offset += REQUEST_BYTES
        # Drop what went through the page cache: small files, and files without direct I/O.
        os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()
