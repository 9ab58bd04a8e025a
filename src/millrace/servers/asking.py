"""Asking a server: its address, and the questions every server answers, ours or not."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.errors import TrialFailed

CONNECT_LIMIT_S = 10
ASK_LIMIT_S = 60


@dataclass(frozen=True)
class Address:
    """Where a server listens, and as whom to log in. A socket goes before host and port."""

    server: str
    user: str
    password: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 3306
    socket: Path | None = None

    @property
    def text(self) -> str:
        if self.socket is not None:
            return str(self.socket)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def account(self) -> str:
        """The address with the user who logs in there, without the password."""
        return f"{self.user}@{self.text}"


def connect(
    address: Address,
    database: str | None = None,
    *,
    decoded: bool = True,
    limit_s: float | None = None,
) -> Connection[Any]:
    """A session with autocommit and UTC that may send local files; the caller closes it.

    With ``decoded`` false every value comes as text. ``limit_s`` bounds each wait for an answer.
    Raises what pymysql raises.
    """
    return pymysql.connect(
        host=address.host,
        port=address.port,
        unix_socket=None if address.socket is None else str(address.socket),
        user=address.user,
        password=address.password.encode(),  # as text it would have to be Latin-1
        database=database,
        charset="utf8mb4",
        autocommit=True,
        local_infile=True,
        init_command="SET time_zone = '+00:00'",
        connect_timeout=CONNECT_LIMIT_S,
        read_timeout=limit_s,
        write_timeout=limit_s,
        conv=None if decoded else {},
        # Old servers offer TLS that no client of today takes, and a socket needs none.
        ssl_disabled=address.socket is not None,
    )


class Answering:
    """A server that answers at an address."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def query(self, sql: str, *, limit_s: float | None = None) -> list[tuple[str | None, ...]]:
        """The rows of one statement in a session of its own, every value as text.

        Raises TrialFailed with the server's own words; it names no step, because whoever asks
        knows better which one it is.
        """
        try:
            with (
                contextlib.closing(
                    connect(self._address, decoded=False, limit_s=limit_s)
                ) as session,
                session.cursor() as cursor,
            ):
                cursor.execute(sql)
                return [tuple(map(_text, row)) for row in cursor.fetchall()]
        except pymysql.MySQLError as error:
            raise TrialFailed(
                f"{self._address.server}: {_first_words(sql)}: {words_of(error)}"
            ) from error

    def version(self) -> str:
        """The version as the server itself says it."""
        return self.query("SELECT VERSION()", limit_s=ASK_LIMIT_S)[0][0] or ""

    def effective(self) -> dict[str, str]:
        """Every global variable and its value, as the server shows them."""
        rows = self.query("SHOW GLOBAL VARIABLES", limit_s=ASK_LIMIT_S)
        return {(name or "").lower(): value or "" for name, value in rows}


def words_of(error: pymysql.MySQLError) -> str:
    """The server's (or the client's) own words for an error, with its number."""
    if len(error.args) >= 2:
        return f"{error.args[1]} (error {error.args[0]})"
    return str(error)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return str(value)


def _first_words(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= 80 else line[:79] + "…"
