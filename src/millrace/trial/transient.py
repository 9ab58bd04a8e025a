"""Decide whether a failed trial may succeed later, and word the reason."""

import errno

from millrace import databases
from millrace.errors import HostError, MillraceError, PermanentHostError, TrialFailed, UnusablePlace

_OF_THE_HOST = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
)


def is_transient(cause: BaseException, log_tail: str | None = None) -> bool:
    """Return whether a later attempt may succeed: the host failed, not the server."""
    if isinstance(cause, UnusablePlace):
        return True
    if isinstance(cause, HostError):
        return not isinstance(cause, PermanentHostError)
    if isinstance(cause, OSError):
        return cause.errno in _OF_THE_HOST
    if isinstance(cause, TrialFailed):
        return databases.says_disk_full(f"{cause}\n{cause.log_tail or ''}\n{log_tail or ''}")
    return False


def reason_of(cause: Exception) -> str:
    """Return the cause, with the hint where there is one."""
    text = str(cause) or type(cause).__name__
    hint = cause.hint if isinstance(cause, MillraceError) else None
    return f"{text}; {hint}" if hint else text
