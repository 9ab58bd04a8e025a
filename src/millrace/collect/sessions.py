"""Sessions of collectors: without a database, so that their statements are told from those of the
workload, and opened before clients are driven."""

from __future__ import annotations

from millrace.collect.model import Target
from millrace.databases.client import Session
from millrace.errors import DatabaseError, TrialFailed, Unavailable


def session_of(target: Target, database: str | None = None) -> Session:
    """Open a session of a collector's own; the caller closes it. Raises Unavailable where the
    server does not let it in."""
    try:
        return target.instance.connect(database, limit_s=target.limit_s)
    except TrialFailed as error:
        raise Unavailable(error.message, hint=error.hint) from error
    except DatabaseError as error:
        raise Unavailable(f"the server gives no session: {error.message}") from error


def missing(lack: Unavailable) -> dict[str, str | None]:
    """Return a part that is missing, for the key ``missing`` of what a collector found."""
    return {"what": lack.message, "remedy": lack.hint}
