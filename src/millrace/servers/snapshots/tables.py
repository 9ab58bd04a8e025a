"""Compare the tables that a restored server serves with those of its snapshot.

While the loaded server still runs, its family's ``record_tables`` reads its tables by some
statements and keeps these with their answers. ``verify_tables`` sends the same statements to a
server that started on a copy. The digests of files (``digests``) prove that the bytes are the same;
this proves that the server finds the rows in them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from millrace.databases.client import QUERY_LIMIT_S, ServerClient, Session
from millrace.databases.table_checks import KeptTable, difference, read
from millrace.errors import DatabaseError, TrialFailed
from millrace.shown_text import shown_line

if TYPE_CHECKING:
    from millrace.servers.snapshots.manifest import Snapshot


def verify_tables(client: ServerClient, snapshot: Snapshot, *, whole: bool) -> None:
    """Raise TrialFailed where a server that started on a copy of a snapshot serves other rows.

    With ``whole``, read all rows of tables that are small all together, which brings them into
    memory; without it, read samples.
    """
    server = client.server.name
    try:
        with contextlib.closing(client.connect(limit_s=QUERY_LIMIT_S)) as session:
            found = ((table, _problem(session, table, whole=whole)) for table in snapshot.tables)
            wrong = next(((table, why) for table, why in found if why is not None), None)
    except DatabaseError as error:
        raise TrialFailed(f"{server}: its tables cannot be read: {error.message}") from error
    if wrong is not None:
        table, why = wrong
        raise TrialFailed(
            f"{server} does not serve the table {shown_line(table.name)} that the snapshot "
            f"{snapshot.name} was made of: {why}",
            hint=f"remove the snapshot (millrace snapshots remove {snapshot.name}); the next "
            "trial makes it anew",
        )


def _problem(session: Session, table: KeptTable, *, whole: bool) -> str | None:
    """Return why a table differs from the recorded one; None if it does not.

    Raise DatabaseError when the session is lost.
    """
    expected = (table.whole if whole else None) or table.sample
    try:
        found = read(session, expected.statements)
    except DatabaseError as error:
        if error.kind in ("unreachable", "lost"):
            raise
        return f"it cannot be read: {error.message}"
    except ValueError as error:
        return f"it cannot be read: {error}"
    return None if found == expected else difference(expected, found)
