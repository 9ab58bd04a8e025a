"""A server's sessions, as its process list shows them.

A row has what the server shows, less the account and the address. What a session outside the
observed database does is nobody's business: its statement is left out. Sessions that sleep in no
database, as those of collectors do, are left out altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.databases.client import Row
from millrace.databases.mysql import query

_MOST_ROWS = 100
_SHOWN = ("id", "db", "command", "time", "state")


def rows_of(answer: Sequence[Row], own_id: int, database: str) -> list[dict[str, Any]]:
    """The rows of a process list that are kept: working ones first, and not more than 100."""
    kept = [
        {
            **{name: query.plain(row[name]) for name in _SHOWN},
            "info": query.plain(row["info"]) if row["db"] == database else None,
        }
        for row in answer
        if row["id"] != own_id and not (row["command"] == "Sleep" and row["db"] is None)
    ]
    return sorted(kept, key=lambda row: row["command"] == "Sleep")[:_MOST_ROWS]
