"""Make directories for tests, and the one in which all of them find initialised servers."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
DISK = Path("/tmp")
INITIALISED_VARIABLE = "MILLRACE_TESTS_INITIALISED"

# Tests start programs in their directories.
_HAS_MEMORY = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC


def make_place(*, on_disk: bool = False) -> Path:
    """Make a directory that unprivileged users can reach, in memory where the host allows it."""
    parent = DISK if on_disk or not _HAS_MEMORY else MEMORY
    place = Path(tempfile.mkdtemp(prefix=f"mr-{os.getpid()}-", dir=parent))
    place.chmod(0o755)
    return place


@contextmanager
def place_of_initialised() -> Iterator[None]:
    """Name a directory of initialised servers in the environment, if nobody has; remove it then."""
    if INITIALISED_VARIABLE in os.environ:
        yield
        return
    os.environ[INITIALISED_VARIABLE] = str(make_place())
    try:
        yield
    finally:
        shutil.rmtree(os.environ.pop(INITIALISED_VARIABLE))
