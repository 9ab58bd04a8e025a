"""Files that are there whole or not at all, for every reader and after every failure.

A draft is written beside the file, on the same file system, and takes its place in one step. Where
that fails, a full disk included, the draft is removed and what was there before stays. Only a
writer that is killed leaves its draft behind.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_DRAFT = ".draft"


@contextlib.contextmanager
def drafted(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A draft, empty at first, that takes the place of ``path`` when the block ends without error.

    The directory is made when it is missing. The file gets the permissions of any new file. With
    ``durable`` it also survives a power failure from then on. Raises what the disk refuses, as
    OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
    draft = Path(name)
    try:
        os.close(handle)
        yield draft
        draft.chmod(0o666 & ~_umask())
        if durable:
            flush(draft)
        draft.replace(path)
        if durable:
            flush(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` in UTF-8 to ``path``; see ``drafted``."""
    with drafted(path) as draft:
        draft.write_text(text, encoding="utf-8")


def remove_drafts(path: Path) -> None:
    """Remove what killed writers of ``path`` left; nobody may be writing it now."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*{_DRAFT}"):
        draft.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    # Read without setting it (which would be felt by other threads).
    with Path("/proc/self/status").open() as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
