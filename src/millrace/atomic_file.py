"""Write files atomically: a reader never sees a partial file, even after a failure.

A writer writes a draft next to the file, on the same file system, and renames the draft to the
file. If writing fails, for example on a full disk, the writer removes the draft and the old file
stays. A killed writer leaves its draft behind. The next writer in the same directory removes it, as
does the next process that opens the results store. A writer locks its draft; the kernel releases
the lock when the process ends.
"""

import contextlib
import errno
import fcntl
import glob
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_DRAFT = ".millrace-draft"
_OURS = re.compile(rf"\..+\.[a-z0-9_]{{8}}{re.escape(_DRAFT)}")


@contextlib.contextmanager
def atomic_write(path: Path, *, durable: bool = False, resolved: bool = False) -> Iterator[Path]:
    """Yield the path of an empty draft, which replaces ``path`` if the block ends without error.

    Create the directory, and give the file the permissions of the umask. With ``durable``, the file
    survives a power failure. Raise OSError if writing fails. The draft and its directory are
    accessed by file descriptors, so that another user cannot redirect the write with a symbolic
    link. The caller has resolved all links of a ``resolved`` path: its directory must exist, and a
    link that has since appeared in it raises OSError.
    """
    if not resolved:
        path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path.parent, resolved=resolved) as parent:
        remove_abandoned(parent)
        draft, lock = _locked_draft(parent / path.name)
        try:
            yield Path(f"/proc/self/fd/{lock}")
            os.fchmod(lock, 0o666 & ~_umask())
            if durable:
                os.fsync(lock)
            draft.replace(parent / path.name)
            if durable:
                flush(parent)
        finally:
            draft.unlink(missing_ok=True)
            os.close(lock)


@contextlib.contextmanager
def _opened(directory: Path, *, resolved: bool) -> Iterator[Path]:
    """Yield a path of the open directory that stays valid if its name is replaced.

    Raise OSError if the path is ``resolved`` and yet leads over a link.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        held = Path(f"/proc/self/fd/{handle}")
        if resolved and held.readlink() != directory.absolute():
            raise OSError(errno.ELOOP, "a link took the place of its directory")
        yield held
    finally:
        os.close(handle)


def write_text(path: Path, text: str, *, resolved: bool = False) -> None:
    """Write ``text`` in UTF-8 to ``path``; see ``atomic_write``."""
    with atomic_write(path, resolved=resolved) as draft:
        draft.write_text(text, encoding="utf-8")


def remove_drafts(path: Path) -> None:
    """Remove the drafts of killed writers of ``path``; no process may write ``path`` now."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*{_DRAFT}"):
        draft.unlink(missing_ok=True)


def remove_abandoned(directory: Path) -> None:
    """Remove drafts in ``directory`` whose writers have ended; ignore errors."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(draft: Path) -> None:
    handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(status, draft.lstat()):
                draft.unlink()
    finally:
        os.close(handle)


def _locked_draft(path: Path) -> tuple[Path, int]:
    """Create a draft of ``path``; return it and its file descriptor, which has the lock."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
        draft = Path(name)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if draft.exists():
                return draft, handle
        except OSError:  # this file system has no locks: abandoned drafts stay
            return draft, handle
        # Another process removed the draft before the lock was taken.
        os.close(handle)
        draft.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # os.umask would set it for a moment, also for other threads.
    with Path("/proc/self/status").open() as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
