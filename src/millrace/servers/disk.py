"""Check the space on the disk, and describe its refusals: full, read-only, no permission."""

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
    """Raise HostError where the disk refuses ``purpose``, UserError in a configurable directory."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        where = f" ({error.filename})" if error.filename else ""
        raise paths.problem(
            error,
            f"{purpose} is not possible: {error.strerror}{where}",
            hint="free space or rights there, or name other directories with MILLRACE_CACHE and "
            "MILLRACE_STATE",
        ) from error


def require_space(path: Path, wanted_bytes: int, what: str, *, hint: str = "") -> None:
    """Raise HostError where ``wanted_bytes`` more for ``what`` would fill the disk of ``path``."""
    free_bytes = shutil.disk_usage(path.parent).free
    if free_bytes < wanted_bytes + _KEPT_FREE_BYTES:
        raise HostError(
            f"{path}: {what} wants {wanted_bytes:,} bytes more, and its disk has "
            f"{free_bytes:,}, {_KEPT_FREE_BYTES >> 20} MiB of which stay free",
            hint="free some space, or name another place with MILLRACE_CACHE, and try again"
            + (f"; {hint}" if hint else ""),
        )
