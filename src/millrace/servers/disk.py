"""Check free disk space, and turn disk errors (full, read-only, permission) into user errors."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace import paths
from millrace.errors import HostError

_KEPT_FREE_BYTES = 64 << 20

_REFUSALS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EIO)
)


@contextmanager
def refusals_as_errors(purpose: str) -> Iterator[None]:
    """Raise UserError for a disk error in a configurable directory, HostError elsewhere."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        where = f" ({error.filename})" if error.filename else ""
        raise paths.problem(
            error,
            f"{purpose} failed: {error.strerror}{where}",
            hint="free space or fix the permissions there, or set MILLRACE_CACHE and "
            "MILLRACE_STATE to other directories",
        ) from error


def require_space(path: Path, wanted_bytes: int, what: str, *, hint: str = "") -> None:
    """Raise HostError if ``wanted_bytes`` more would fill the file system of ``path``."""
    free_bytes = shutil.disk_usage(path.parent).free
    if free_bytes < wanted_bytes + _KEPT_FREE_BYTES:
        raise HostError(
            f"{path}: {what} needs {wanted_bytes:,} more bytes, but only {free_bytes:,} are free, "
            f"of which millrace leaves {_KEPT_FREE_BYTES >> 20} MiB",
            hint="free some space, or set MILLRACE_CACHE to another directory, and try again"
            + (f"; {hint}" if hint else ""),
        )
