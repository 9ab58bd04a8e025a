"""Make the tables of a new store, and bring those of an older one to the newest revision.

Alembic made the table ``alembic_version`` in earlier versions of millrace, which look for the
revision there.
"""

from __future__ import annotations

from sqlalchemy import Connection

from millrace.store import schema
from millrace.store.schema import HEAD, metadata

REVISIONS = ("0001", "0002", "0003", "0004")
"""Every revision that this millrace knows, oldest first."""

_STAMP_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def create(connection: Connection) -> None:
    """Make all tables of a new store, inside the caller's transaction."""
    metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(_STAMP_TABLE)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (HEAD,))


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the tables of this revision to the newest one, inside the caller's transaction."""
    if revision < "0002":  # existing trials measure
        connection.exec_driver_sql(
            "ALTER TABLE trials ADD COLUMN purpose VARCHAR(16) DEFAULT 'measure' NOT NULL"
        )
    if revision < "0003":  # whoever changes one of these tables adds its first form here
        tables = (
            schema.history_series, schema.history_states, schema.history_recordings,
            schema.history_points, schema.history_changes,
        )  # fmt: skip
        metadata.create_all(connection, tables=tables)
    if revision < "0004":  # existing runs were measured here
        connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN imported_utc VARCHAR(32)")
    connection.exec_driver_sql("UPDATE alembic_version SET version_num = ?", (HEAD,))
