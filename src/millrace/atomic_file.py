"""Write files atomically: every reader, after every failure, finds all of a file or none of it.

A draft is written next to the file, on the same file system, and replaces it in one step. Where
that fails, for example on a full disk, the draft is removed and the old file stays. A killed writer
leaves its draft behind; the next writer of a file in the same directory removes it, and so does the
next process that opens the results store it belongs to. The writer locks its draft, so that the
kernel releases the claim when the process ends.
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
    """Provide a draft, empty at first, that replaces ``path`` when the block ends without error.

    The directory is created, the file gets usual permissions, and with ``durable`` survives a power
    failure. Raises OSError where the disk refuses it. In a directory of another user, who can put a
    link in the draft's place, nothing is written elsewhere: the draft and its directory are named
    by their descriptors. A ``resolved`` path had no links when it was checked: its directory has to
    exist, and OSError is raised where a link has taken a place in it since.
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
    """Provide a path of a directory that stays the same one, whatever takes the place of its name.

    Raise OSError where a ``resolved`` one is behind a link.
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
    """Remove the drafts of killed writers of ``path``; no process may be writing it now."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*{_DRAFT}"):
        draft.unlink(missing_ok=True)


def remove_abandoned(directory: Path) -> None:
    """Remove drafts in a directory whose writers no longer exist, as far as they can be removed."""
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
    """Create a draft of ``path``; the returned open file has its lock."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
        draft = Path(name)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if draft.exists():
                return draft, handle
        except OSError:  # a file system without locks, on which drafts are never removed
            return draft, handle
        # Between the two calls another process considered the draft abandoned.
        os.close(handle)
        draft.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # Read it without setting it, which would affect other threads.
    with Path("/proc/self/status").open() as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
