"""Which failures are the host's for now, so that the same may go well later, and which the server's
own."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from millrace.errors import HostError, PermanentHostError, TrialFailed, UnusablePlace
from millrace.store.records import AttemptResult

_OF_THE_HOST = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EIO,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
    )
)

# How servers from 5.5 on, in errors and logs, and the C library say that a disk is full. Of a write
# that was cut short InnoDB gives no error number, but it says that the disk may be full.
_FULL = re.compile(
    r"no space left on device|disk is full|disk full|err(or number|code:?|no:?) 28\b"
    r"|disk is not full or a disk quota exceeded",
    re.I,
)


@dataclass(frozen=True)
class TransientFailure(AttemptResult):
    """An attempt that failed, though the same may go well later."""


def is_transient(cause: BaseException, log_tail: str | None = None) -> bool:
    """Whether the same may go well later: not where a server does not start, fails at its work or
    is not to be had. ``log_tail`` is the end of the server's log."""
    if isinstance(cause, UnusablePlace):
        return True
    if isinstance(cause, HostError):
        return not isinstance(cause, PermanentHostError)
    if isinstance(cause, OSError):
        return cause.errno in _OF_THE_HOST
    if isinstance(cause, TrialFailed):
        return _FULL.search(f"{cause}\n{cause.log_tail or ''}\n{log_tail or ''}") is not None
    return False
