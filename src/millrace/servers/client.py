"""Asking a server: its address, and the questions every server answers, ours or not."""

from __future__ import annotations

import contextlib
import math
import re
import socket as sockets
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pymysql
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR

from millrace.errors import MillraceError, TrialFailed
from millrace.servers.instances import listener
from millrace.shown_text import shown_line
from millrace.tls import Tls

CONNECT_LIMIT_S = 10
ASK_LIMIT_S = 60
MOST_ANSWER_BYTES = 64 << 20
MOST_ANSWER_MEMORY_BYTES = 256 << 20  # a row of a few bytes takes twenty times as many in memory
_LARGEST_COUNT = 2**64 - 1
_COUNT = re.compile(r"[0-9]{1,20}")
_LONGEST_WORDS = 2000  # of an error that a server sends, in characters
_MOST_COLUMNS = 4096  # of a server's tables and results

# Plugins that prove a password without sending it, and what asks a server for the key to encrypt it
# with (sha256_password, caching_sha2_password).
_ED25519 = "client_ed25519"
_PROVING = ("mysql_native_password", "caching_sha2_password", _ED25519)
_KEY_REQUESTS = (b"\x01", b"\x02")

# OpenSSL's numbers for a certificate of another host, by name and by IP address.
_OTHER_NAME = (62, 64)


@dataclass(frozen=True)
class Address:
    """Where a server listens, and as whom to log in. A socket goes before host and port."""

    server: str
    user: str
    password: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 3306
    socket: Path | None = None
    tls: Tls = field(default_factory=Tls)

    def doubt(self, connected: sockets.socket) -> str | None:
        """Return why whoever is at the other end of ``connected`` must not get the password itself,
        and what to do about it; None for the right server, and where the user allows it."""
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
        """The address with the user who logs in there, without the password."""
        return f"{self.user}@{self.text}"


def connect(
    address: Address,
    database: str | None = None,
    *,
    decoded: bool = True,
    limit_s: float | None = None,
) -> Connection[Any]:
    """Open a session with autocommit and UTC; the caller closes it.

    With ``decoded`` false every value comes as text. ``limit_s`` bounds each wait for an answer.
    No server gets a file of this host, whatever it asks for, and none that nothing verifies gets
    the password. Raises what pymysql raises, and UserError for authorities that cannot be read.
    """
    context = address.tls.context()
    return _Session(
        address=address,
        host=address.host,
        port=address.port,
        unix_socket=None if address.socket is None else str(address.socket),
        user=address.user,
        password=address.password.encode(),  # as text it would have to be Latin-1
        database=database,
        charset="utf8mb4",
        autocommit=True,
        local_infile=False,
        init_command="SET time_zone = '+00:00'",
        connect_timeout=CONNECT_LIMIT_S,
        read_timeout=limit_s,
        write_timeout=limit_s,
        conv=None if decoded else {},
        ssl=context,
        ssl_disabled=context is None,  # PyMySQL would take what the server offers, unverified
    )


if TYPE_CHECKING:  # only its type is generic
    _Connection = Connection[Any]
else:
    _Connection = Connection


class _InTime:
    """What a server sends, read as it comes: it may send a byte a second without end."""

    def __init__(self, file: BufferedReader, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self.close = file.close

    def read(self, n_bytes: int) -> bytes:
        """Return as many bytes, or fewer where the server has closed the connection."""
        content = bytearray()
        while len(content) < n_bytes:
            self._check()
            part = self._file.read1(n_bytes - len(content))
            if not part:
                break
            content += part
        return bytes(content)


class _Session(_Connection):
    """A session that a server cannot misuse.

    PyMySQL reads answers as they come: an odd one ends it with whatever exception the bytes led to,
    and one without end takes all memory; here both are errors of the server. And it gives a server
    the password itself when that asks for it; here only one that the address does not doubt.
    """

    _n_bytes_read = 0
    _ends_s = math.inf
    _answers: _InTime | None = None
    _is_logging_in = False
    _doubt: str | None = None

    def __init__(self, *, address: Address, **settings: Any) -> None:
        self._address = address
        super().__init__(**settings)

    @property
    def _rfile(self) -> _InTime | None:
        return self._answers

    @_rfile.setter
    def _rfile(self, file: BufferedReader | None) -> None:
        self._answers = None if file is None else _InTime(file, self._refuse_late)

    def write_packet(self, payload: bytes) -> None:
        if self._is_logging_in and self._doubt is not None:
            password: bytes = self.password
            if payload in _KEY_REQUESTS or (password and payload == password + b"\0"):
                raise _unverified("the password itself", self._doubt)
        super().write_packet(payload)

    def _request_authentication(self) -> None:
        self._doubt = self._address.doubt(self._sock)  # type: ignore[attr-defined]
        # The server's default plugin: some begin with the password itself.
        if self._doubt is not None and self._auth_plugin_name not in _PROVING:  # type: ignore[has-type]
            self._auth_plugin_name = _PROVING[0]
        self._is_logging_in = True
        try:
            super()._request_authentication()  # type: ignore[misc]
        finally:
            self._is_logging_in = False

    def _process_auth(self, plugin_name: bytes, *arguments: Any) -> Any:
        name = plugin_name.decode("ascii", errors="replace")
        if self._doubt is not None and name not in _PROVING:
            raise _unverified(f"a login by {name}", self._doubt)
        try:
            return super()._process_auth(plugin_name, *arguments)  # type: ignore[misc]
        except RuntimeError as error:
            if name != _ED25519 or "pynacl" not in str(error):
                raise
            raise pymysql.OperationalError(
                f"the account logs in by {_ED25519}, which needs the Python package PyNaCl: "
                "install it beside millrace (python -m pip install pynacl), or give the account "
                f"another plugin ({', '.join(_PROVING[:2])})"
            ) from error

    def connect(self, sock: Any = None) -> None:
        limit_s = self._read_timeout  # type: ignore[has-type]
        login_s = CONNECT_LIMIT_S if limit_s is None else limit_s
        self._read_timeout, self._ends_s = login_s, time.monotonic() + 2 * login_s
        with oddities_as_errors():
            try:
                super().connect(sock)
            except pymysql.OperationalError as error:
                if (failure := _tls_failure(error)) is not None:
                    raise failure from error
                raise
            finally:
                self._read_timeout, self._ends_s = limit_s, math.inf

    def _read_query_result(self, unbuffered: bool = False) -> int | None:
        self._n_bytes_read = 0
        limit_s = self._read_timeout
        # The first packet may take the whole limit; it bounds each wait, and then all together.
        self._ends_s = math.inf if limit_s is None else time.monotonic() + 2 * limit_s
        try:
            with oddities_as_errors():
                self._result = None
                result = _Result(self)
                result.read()
        finally:
            self._ends_s = math.inf
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        if result.has_next:
            self.refuse_answer("the server sends further results, which nobody wants")
        return result.affected_rows

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._n_bytes_read += num_bytes
        if self._n_bytes_read > MOST_ANSWER_BYTES:
            self.refuse_answer(f"the server's answer has more than {MOST_ANSWER_BYTES:,} bytes")
        content: bytes = super()._read_bytes(num_bytes)  # type: ignore[misc]
        return content

    def _refuse_late(self) -> None:
        if time.monotonic() > self._ends_s:
            self.refuse_answer("the server's answer does not end in time")

    def refuse_answer(self, why: str) -> NoReturn:
        """End the session, and raise OperationalError with ``why``."""
        self._force_close()  # type: ignore[attr-defined]
        raise pymysql.OperationalError(why)


class _Result(MySQLResult):
    """The answer to a statement, bounded by what it takes in memory."""

    connection: _Session
    _memory_bytes = 0

    def _get_descriptions(self) -> None:
        if self.field_count > _MOST_COLUMNS:
            self.connection.refuse_answer(
                f"the server's answer has {self.field_count:,} columns, more than {_MOST_COLUMNS:,}"
            )
        super()._get_descriptions()  # type: ignore[misc]

    def _read_row_from_packet(self, packet: Any) -> tuple[Any, ...]:
        row: tuple[Any, ...] = super()._read_row_from_packet(packet)  # type: ignore[misc]
        self._memory_bytes += sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if self._memory_bytes > MOST_ANSWER_MEMORY_BYTES:
            self.connection.refuse_answer(
                f"the server's answer takes more than {MOST_ANSWER_MEMORY_BYTES:,} bytes of memory"
            )
        return row


def _unverified(wish: str, doubt: str) -> pymysql.OperationalError:
    return pymysql.OperationalError(f"the server wants {wish}, and {doubt}")


def _tls_failure(error: pymysql.OperationalError) -> pymysql.OperationalError | None:
    """Return what a failure to begin TLS means and what to do about it, None for another failure.

    The words are those of the load generator.
    """
    cause = getattr(error, "original_exception", None)
    if error.args[0] == CR.CR_SSL_CONNECTION_ERROR:
        meaning = (
            "the server offers none: give it a certificate (ssl_cert, ssl_key), or use tls=disabled"
        )
    elif isinstance(cause, ssl.SSLCertVerificationError):
        meaning = (
            "the certificate is made out to another name: connect by that name, or use "
            "tls=verify-ca with the authority's file"
            if cause.verify_code in _OTHER_NAME
            else "the certificate cannot be trusted: name the file of the authority that signed it "
            "(ca=FILE), or use tls=required"
        )
        meaning += f" ({cause.verify_message})"
    elif isinstance(cause, ssl.SSLError):
        meaning = f"the handshake failed: {cause.reason or cause}"
    else:
        return None
    return pymysql.OperationalError(CR.CR_SSL_CONNECTION_ERROR, f"TLS: {meaning}")


@contextlib.contextmanager
def oddities_as_errors() -> Iterator[None]:
    """Turn what PyMySQL raises for an odd answer into a ProgrammingError that says so.

    That may be anything: a short greeting leads to a variable that was never set. RuntimeError is
    its answer to a server that asks for a local file.
    """
    try:
        yield
    except (pymysql.MySQLError, OSError, MillraceError):  # the last: the user interrupted, too
        raise
    except Exception as error:
        raise pymysql.ProgrammingError(
            "the server asked for a file of this host, and did not get it"
            if isinstance(error, RuntimeError) and "LOAD_LOCAL" in str(error)
            else _not_understood(error)
        ) from error


def _not_understood(error: Exception) -> str:
    return f"the server's answer cannot be understood ({type(error).__name__}: {error})"


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

    def rows(
        self, sql: str, *, n_columns: int, limit_s: float = ASK_LIMIT_S
    ) -> list[tuple[str | None, ...]]:
        """Return the rows of one statement. Raises TrialFailed where they have another number of
        columns."""
        rows = self.query(sql, limit_s=limit_s)
        if any(len(row) != n_columns for row in rows):
            columns = sorted({len(row) for row in rows})
            raise TrialFailed(
                f"{self._address.server}: {_first_words(sql)}: expected rows of {n_columns} "
                f"columns, got {columns}"
            )
        return rows

    def count(self, sql: str, value: str | None) -> int:
        """Return the count in an answer to ``sql``. Raises TrialFailed for what is none."""
        try:
            return count_of(value)
        except ValueError as error:
            raise TrialFailed(f"{self._address.server}: {_first_words(sql)}: {error}") from error

    def one_row(self, sql: str, *, n_columns: int) -> tuple[str | None, ...]:
        """Return the only row of one statement. Raises TrialFailed for any other answer."""
        rows = self.query(sql, limit_s=ASK_LIMIT_S)
        if len(rows) != 1 or len(rows[0]) != n_columns:
            columns = sorted({len(row) for row in rows})
            raise TrialFailed(
                f"{self._address.server}: {_first_words(sql)}: expected one row of {n_columns} "
                f"columns, got {len(rows)} rows of {columns or 'no'} columns"
            )
        return rows[0]

    def version(self) -> str:
        """The version as the server itself says it, on one line."""
        return shown_line(self.one_row("SELECT VERSION()", n_columns=1)[0] or "")

    def effective(self) -> dict[str, str]:
        """Every global variable and its value, as the server shows them."""
        sql = "SHOW GLOBAL VARIABLES"
        rows = self.rows(sql, n_columns=2)
        if not rows:
            raise TrialFailed(f"{self._address.server}: {sql}: expected rows of 2 columns")
        return {(name or "").lower(): value or "" for name, value in rows}


def count_of(value: object) -> int:
    """Return a count that a server gave. Raises ValueError for all but whole numbers of 64 bits."""
    text = str(value)
    if not _COUNT.fullmatch(text) or int(text) > _LARGEST_COUNT:
        raise ValueError(f"{text[:40]!r} is no count of 64 bits")
    return int(text)


def words_of(error: pymysql.MySQLError) -> str:
    """The server's (or the client's) own words for an error, with its number, on one line."""
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        number, text = error.args[0], str(error.args[1])
        return f"{_shortened(text)} (error {number})"
    return _shortened(str(error))


def _shortened(text: str) -> str:
    line = shown_line(text[:_LONGEST_WORDS])
    return line if len(text) <= _LONGEST_WORDS else f"{line}…"


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return str(value)


def _first_words(sql: str) -> str:
    line = " ".join(sql.split())
    return line if len(line) <= 80 else line[:79] + "…"
