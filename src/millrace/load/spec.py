"""What the load generator is asked to do, and its form as JSON (version 1).

The program checks the specification itself and names the key of a mistake; these types make sure
that there is none. Sizes and times have their unit in the name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class Connection:
    """Where and as whom to log in: either ``socket``, or ``host`` and ``port``."""

    user: str
    password: str = field(repr=False)
    database: str | None = None
    socket: Path | None = None
    host: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        by_socket = self.socket is not None and self.host is None and self.port is None
        by_tcp = self.socket is None and self.host is not None and self.port is not None
        if not (by_socket or by_tcp):
            raise ValueError("a connection needs either a socket, or a host and a port")


@dataclass(frozen=True)
class GeneratedSource:
    """Rows that the load generator makes while it sends them (LOAD DATA LOCAL)."""

    set: str
    rows: int
    seed: int


@dataclass(frozen=True)
class ServerFile:
    """A file that the server reads itself (LOAD DATA)."""

    path: Path


@dataclass(frozen=True)
class LoadData:
    """A phase that loads rows into ``columns`` of ``table``."""

    name: str
    table: str
    columns: Sequence[str]
    source: GeneratedSource | ServerFile
    limit_s: float


@dataclass(frozen=True)
class Statement:
    """A phase that runs statements, one after the other."""

    name: str
    sql: Sequence[str]
    limit_s: float


@dataclass(frozen=True)
class RunSpec:
    """One run: ``session`` is SQL for the fresh session, then the phases in order."""

    connection: Connection
    session: Sequence[str]
    phases: Sequence[LoadData | Statement]

    def to_json(self) -> str:
        """The specification as the load generator reads it (it holds the password)."""
        return json.dumps(
            {
                "version": VERSION,
                "connection": _connection(self.connection),
                "session": list(self.session),
                "phases": [_phase(phase) for phase in self.phases],
            }
        )


def _connection(connection: Connection) -> dict[str, Any]:
    login = {
        "user": connection.user,
        "password": connection.password,
        "database": connection.database,
    }
    if connection.socket is not None:
        return {"socket": str(connection.socket), **login}
    return {"host": connection.host, "port": connection.port, **login}


def _phase(phase: LoadData | Statement) -> dict[str, Any]:
    if isinstance(phase, Statement):
        return {
            "name": phase.name,
            "kind": "statement",
            "sql": list(phase.sql),
            "limit_s": phase.limit_s,
        }
    return {
        "name": phase.name,
        "kind": "load_data",
        "table": phase.table,
        "columns": list(phase.columns),
        "source": _source(phase.source),
        "limit_s": phase.limit_s,
    }


def _source(source: GeneratedSource | ServerFile) -> dict[str, Any]:
    if isinstance(source, ServerFile):
        return {"server_file": str(source.path)}
    return {"generate": {"set": source.set, "rows": source.rows, "seed": source.seed}}
