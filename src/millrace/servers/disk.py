"""Turns what the disk refuses into a message: full, read-only, not ours."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from millrace import paths
from millrace.errors import HostProblem

_REFUSALS = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
    )
)


@contextmanager
def refusals_as_errors(purpose: str) -> Iterator[None]:
    """Raise HostProblem where the file system refuses to do what is needed for ``purpose``, and
    UserError where a place that the user can name gives no right to it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        refused = paths.refusal(error)
        if refused is not None:
            raise refused from error
        where = f" ({error.filename})" if error.filename else ""
        raise HostProblem(
            f"{purpose} is not possible: {error.strerror}{where}",
            remedy="free space or rights there, or name other directories with MILLRACE_CACHE and "
            "MILLRACE_STATE",
        ) from error
