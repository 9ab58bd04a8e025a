"""Lock between processes: one installs or runs a package client, and the others wait."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace import paths
from millrace.model.events import Notice, OnEvent
from millrace.shared_directories import refuse_shared


@contextmanager
def exclusive(path: Path, purpose: str, on_event: OnEvent) -> Iterator[None]:
    """Hold the lock file ``path``; while another process holds it, report that and wait.

    The kernel releases the lock when the process ends, so a killed process never blocks the next.
    The file stays: if it were removed, two processes could lock two different files of the same
    name. No other user can open the file, because a process that can open it could lock it for
    ever.

    Raise HostError if another user created its directory or could replace its files.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    is_cached = path.is_relative_to(paths.cache_dir())
    refuse_shared(path.parent, "MILLRACE_CACHE" if is_cached else "MILLRACE_STATE")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_event(Notice(f"waiting for another process: {purpose}"))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
