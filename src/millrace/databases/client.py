"""Define sessions with a server, its address, and queries that every server answers."""

import contextlib
import re
import socket as sockets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from millrace.errors import DatabaseError, TrialFailed
from millrace.host import listener
from millrace.model.servers import Server
from millrace.tls import Tls

QUERY_LIMIT_S = 60

_COUNT = re.compile(r"[0-9]{1,20}")
_LARGEST_COUNT = 2**64 - 1

Row = Mapping[str, Any]


class Session(Protocol):
    """A session with a server; several threads may use it, one statement at a time.

    Errors of the server or the network raise DatabaseError.
    """

    @property
    def is_open(self) -> bool:
        """True while the session can still send statements."""

    @property
    def id(self) -> int:
        """The server's number for the session."""

    @property
    def peer_pid(self) -> int:
        """The id of the process that listens on the other end of a Unix socket."""

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; ``values`` replace its ``%s``."""

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of a statement as mappings, by column name in lower case."""

    def columns(self, sql: str) -> tuple[str, ...]:
        """Return the names of a statement's columns."""

    def literal(self, text: str) -> str:
        """Return a text as a quoted literal."""

    def close(self) -> None:
        """Close the session, which may have ended already."""


@dataclass(frozen=True)
class Address:
    """A server's address and the account to log in with; a socket takes precedence over TCP."""

    server: str
    user: str
    password: str = field(repr=False)
    port: int = 0
    host: str = "127.0.0.1"
    socket: Path | None = None
    tls: Tls = field(default_factory=Tls)

    def doubt(self, connected: sockets.socket) -> str | None:
        """Return why the peer of ``connected`` must not receive the password, and a hint.

        Return None if the peer is verified, or if the user allows an unverified one.
        """
        if self.tls.verifies or self.tls.allow_unverified:
            return None
        if self.socket is None:
            return (
                "nothing shows that it is the right server: verify it by TLS (tls=verify-identity, "
                "with ca=FILE where this host does not trust its authority), connect by its "
                "socket, or say allow-unverified=yes in the address"
            )
        why = listener.doubt(self.socket, connected)
        return why and (
            f"another server may have taken its socket ({why}): let it listen in a directory that "
            "only its user can write, or say allow-unverified=yes in the address"
        )

    @property
    def text(self) -> str:
        if self.socket is not None:
            return str(self.socket)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def account(self) -> str:
        """The address with the user name, without the password."""
        return f"{self.user}@{self.text}"


class Connect(Protocol):
    """A function that opens a session with autocommit and UTC."""

    def __call__(
        self,
        address: Address,
        database: str | None,
        limit_s: float | None,
        *,
        as_text: bool = False,
    ) -> Session:
        """Open a session, which the caller closes.

        ``limit_s`` limits each wait for an answer; with ``as_text`` all values are text. Raise
        DatabaseError.
        """


class DatabaseClient:
    """A client of any server; ``is_managed``: millrace started it and may set its variables."""

    is_managed = False

    def __init__(self, server: Server, connect: Connect, address: Address) -> None:
        self._server = server
        self._connect = connect
        self._address = address
        self._sessions: tuple[Session, ...] = ()

    @property
    def server(self) -> Server:
        return self._server

    @property
    def port(self) -> int:
        return self._address.port

    def connect(self, database: str | None = None, *, limit_s: float | None = None) -> Session:
        """Open a session with autocommit and UTC, which the caller closes.

        ``limit_s`` limits each wait for an answer. Raise DatabaseError.
        """
        session = self._connect(self._address, database, limit_s)
        self._sessions = (*self.open_sessions(), session)
        return session

    def open_sessions(self) -> tuple[Session, ...]:
        """Return the sessions opened by ``connect`` that are still open."""
        return tuple(session for session in self._sessions if session.is_open)

    def query(self, sql: str, *, limit_s: float | None = None) -> list[tuple[str | None, ...]]:
        """Return a statement's rows as text, from a session of its own. Raise TrialFailed."""
        try:
            with contextlib.closing(
                self._connect(self._address, None, limit_s, as_text=True)
            ) as session:
                return [tuple(map(_text, row)) for row in session.query(sql)]
        except DatabaseError as error:
            raise self._statement_failure(sql, error.message, hint=error.hint) from error

    def rows(
        self, sql: str, *, n_columns: int, limit_s: float = QUERY_LIMIT_S
    ) -> list[tuple[str | None, ...]]:
        """Return the rows of a statement. Raise TrialFailed unless all have ``n_columns``."""
        rows = self.query(sql, limit_s=limit_s)
        if any(len(row) != n_columns for row in rows):
            columns = sorted({len(row) for row in rows})
            raise self._statement_failure(
                sql, f"expected rows of {n_columns} columns, got {columns}"
            )
        return rows

    def count(self, sql: str, value: str | None) -> int:
        """Return the count that ``sql`` selects. Raise TrialFailed for another answer."""
        try:
            return count_of(value)
        except ValueError as error:
            raise self._statement_failure(sql, str(error)) from error

    def one_row(self, sql: str, *, n_columns: int) -> tuple[str | None, ...]:
        """Return the only row of a statement. Raise TrialFailed for any other answer."""
        rows = self.rows(sql, n_columns=n_columns)
        if len(rows) != 1:
            raise self._statement_failure(sql, f"expected one row, got {len(rows)}")
        return rows[0]

    def _statement_failure(self, sql: str, why: str, *, hint: str | None = None) -> TrialFailed:
        return TrialFailed(f"{self._address.server}: {_first_words(sql)}: {why}", hint=hint)


def count_of(value: object) -> int:
    """Parse a server's value as a count of at most 64 bits. Raise ValueError."""
    text = str(value)
    if not _COUNT.fullmatch(text) or int(text) > _LARGEST_COUNT:
        raise ValueError(f"{text[:40]!r} is not an unsigned 64-bit integer")
    return int(text)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return str(value)


def _first_words(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= 80 else line[:79] + "…"
