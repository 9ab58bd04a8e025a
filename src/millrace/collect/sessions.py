"""Open the sessions of collectors.

They have no database, which distinguishes their statements from the workload's, and open before the
clients work.
"""

from __future__ import annotations

from millrace.collect.model import Target
from millrace.databases.client import Session
from millrace.errors import DatabaseError, TrialFailed, Unavailable


def session_of(target: Target, database: str | None = None) -> Session:
    """Open a session for a collector; the caller closes it.

    Raise Unavailable where the server refuses it.
    """
    try:
        return target.instance.connect(database, limit_s=target.limit_s)
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error
    except DatabaseError as error:
        raise Unavailable(f"the server gives no session: {error.message}") from error


def missing(lack: Unavailable) -> dict[str, str | None]:
    """Return a missing part, for the key ``missing`` of a collector's result."""
    return {"what": lack.message, "remedy": lack.hint}
