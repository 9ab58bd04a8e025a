"""Read status variables by SELECT, whose own work a session's share of the counters includes.

That of SHOW STATUS is in the server's counters alone, except that it is a statement. Only SHOW
STATUS has counts of statements in every version.
"""

from typing import Any, Literal

from millrace.databases.client import Session
from millrace.errors import DatabaseError

Scope = Literal["global", "session"]

# MySQL from 5.7 has the first, others the second, in capitals; MariaDB's first may be empty.
_TABLES = ("performance_schema.{scope}_status", "information_schema.{scope}_status")


def read_status(session: Session, scope: Scope, where: str = "") -> list[tuple[str, Any]]:
    """Return status variables with their values; ``where`` is a condition on ``variable_name``.

    Raise DatabaseError.
    """
    condition = f" WHERE {where}" if where else ""
    for table in _TABLES:
        name = table.format(scope=scope)
        sql = f"SELECT variable_name, variable_value FROM {name}{condition}"  # noqa: S608
        try:
            found = session.query(sql)
        except DatabaseError:
            if not session.is_open:
                raise
        else:
            if found:
                return [(_spelled(str(name)), value) for name, value in found]
    rows = session.query(f"SHOW {scope.upper()} STATUS{condition}")
    return [(str(name), value) for name, value in rows]


def read_statement_counts(session: Session, scope: Scope) -> list[tuple[str, Any]]:
    """Return the numbers of statements of each kind (``Com_select``). Raise DatabaseError."""
    rows = session.query(f"SHOW {scope.upper()} STATUS WHERE Variable_name LIKE 'Com\\_%'")
    return [(str(name), value) for name, value in rows]


def _spelled(name: str) -> str:
    """Return a name in capitals as SHOW STATUS spells it."""
    return name.capitalize() if name.isupper() else name
