"""Classify failures as transient host errors or errors of the server itself."""

from __future__ import annotations

import errno
import re

from millrace.errors import HostError, PermanentHostError, TrialFailed, UnusablePlace

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

# The words for a full disk of servers from 5.5 on, in errors and logs, and of the C library. InnoDB
# gives no error number for a truncated write, but says that the disk may be full.
_FULL = re.compile(
    r"no space left on device|disk is full|disk full|err(or number|code:?|no:?) 28\b"
    r"|disk is not full or a disk quota exceeded",
    re.I,
)


def is_transient(cause: BaseException, log_tail: str | None = None) -> bool:
    """Return whether a later attempt may succeed, because the host failed and not the server.

    A server that does not start, fails at its work or is unavailable will fail again. ``log_tail``
    is the end of its log.
    """
    if isinstance(cause, UnusablePlace):
        return True
    if isinstance(cause, HostError):
        return not isinstance(cause, PermanentHostError)
    if isinstance(cause, OSError):
        return cause.errno in _OF_THE_HOST
    if isinstance(cause, TrialFailed):
        return _FULL.search(f"{cause}\n{cause.log_tail or ''}\n{log_tail or ''}") is not None
    return False
