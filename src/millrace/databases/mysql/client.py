"""Open sessions with MySQL and MariaDB through PyMySQL, bound them, and translate errors."""

from __future__ import annotations

import contextlib
import math
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import TYPE_CHECKING, Any, NoReturn

import pymysql
from pymysql import converters
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR

from millrace.databases.client import QUERY_LIMIT_S, Address, DatabaseClient, Row, Session
from millrace.errors import DatabaseError, DatabaseErrorKind, MillraceError
from millrace.host import listener
from millrace.shown_text import shown_line

CONNECT_LIMIT_S = 10
MOST_ANSWER_BYTES = 64 << 20
MOST_ROWS = 100_000  # of any answer; servers have fewer variables, digests and threads
MOST_ANSWER_MEMORY_BYTES = 256 << 20  # a row of a few bytes takes twenty times that in memory
_LONGEST_WORDS = 2000  # of a server's error message, in characters
_MOST_COLUMNS = 4096  # of a server's tables and results

# Plugins that prove a password without sending it, and the requests for the server's key with which
# sha256_password and caching_sha2_password encrypt it.
_ED25519 = "client_ed25519"
_PROVING = ("mysql_native_password", "caching_sha2_password", _ED25519)
_KEY_REQUESTS = (b"\x01", b"\x02")

# OpenSSL's error numbers for a certificate of another host, by name and by IP address.
_OTHER_NAME = (62, 64)

# A session that waits while a trial measures outlives any wait_timeout of the server.
_IDLE_LIMIT_S = 7 * 86_400

# Error numbers: a session that had ended before; no server at the address, or lost at once; errors
# of the client, which lost its session or did not understand an answer; missing rights; missing
# objects.
_CLOSED = 0
_NOT_THERE = frozenset({2002, 2003, 2006, 2013})
_OF_THE_CLIENT = range(2000, 3000)
_MAY_NOT = frozenset({1044, 1142, 1143, 1227, 1370})
_HAS_NOT = frozenset({1049, 1054, 1109, 1146, 1193, 1286})


def connect(
    address: Address,
    database: str | None = None,
    limit_s: float | None = None,
    *,
    as_text: bool = False,
) -> MysqlSession:
    """Open a session with autocommit and UTC, which the caller closes.

    With ``as_text`` every value comes as text. ``limit_s`` bounds each wait for an answer. No
    server can read a file of this host, and no unverified server receives the password. Raise
    DatabaseError, and UserError for certificate authorities that cannot be read.
    """
    context = address.tls.context()
    with _errors_as_ours():
        return MysqlSession(
            _Session(
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
                init_command=f"SET time_zone = '+00:00', wait_timeout = {_IDLE_LIMIT_S}",
                connect_timeout=CONNECT_LIMIT_S,
                read_timeout=limit_s,
                write_timeout=limit_s,
                conv=converters.encoders if as_text else None,
                ssl=context,
                ssl_disabled=context is None,  # PyMySQL would accept any offer of TLS, unverified
            )
        )


class MysqlSession:
    """A PyMySQL session whose errors are DatabaseErrors."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        return bool(self._connection.open)

    @property
    def id(self) -> int:
        number: int = self._connection.thread_id()  # type: ignore[no-untyped-call]
        return number

    @property
    def peer_pid(self) -> int:
        connection: Any = self._connection  # its socket has no public name
        return listener.peer_pid(connection._sock)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, _errors_as_ours(), self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def rows(self, sql: str) -> list[Row]:
        with self._lock, _errors_as_ours(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            if cursor.rowcount > MOST_ROWS:
                raise DatabaseError(
                    f"the server's answer has more than {MOST_ROWS:,} rows", kind="odd"
                )
            names = [column[0].lower() for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def columns(self, sql: str) -> tuple[str, ...]:
        with self._lock, _errors_as_ours(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(column[0] for column in cursor.description or ())

    def literal(self, text: str) -> str:
        with self._connection.cursor() as cursor:
            return str(cursor.mogrify("%s", (text,)))

    def close(self) -> None:
        if self.is_open:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                self._connection.close()


@contextlib.contextmanager
def _errors_as_ours() -> Iterator[None]:
    try:
        yield
    except pymysql.MySQLError as error:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else None
        code = None if number is None else str(number)
        raise DatabaseError(words_of(error), kind=_kind(number), code=code) from error


def _kind(number: int | None) -> DatabaseErrorKind:
    if number in _NOT_THERE:
        return "unreachable"
    if number == _CLOSED or number in _OF_THE_CLIENT:
        return "lost"
    if number in _MAY_NOT:
        return "forbidden"
    return "absent" if number in _HAS_NOT else "refused"


if TYPE_CHECKING:  # only its type is generic
    _Connection = Connection[Any]
else:
    _Connection = Connection


class _InTime:
    """A reader that checks a time limit: a server may send one byte a second without end."""

    def __init__(self, file: BufferedReader, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self.close = file.close

    def read(self, n_bytes: int) -> bytes:
        """Return ``n_bytes`` bytes, or fewer where the server has closed the connection."""
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

    PyMySQL reads answers as they come: an unexpected one ends it with an arbitrary exception, and
    an endless one takes all memory. Here both are errors of the server. PyMySQL also sends the
    password in the clear to a server that asks for it. Here only a server that ``Address.doubt``
    clears gets it.
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
        # This is the server's default plugin. Some plugins begin with the password itself.
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
        # The first packet may take the whole limit, and all packets together twice the limit.
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
    """The answer to a statement, limited by the memory it takes."""

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
    """Return a failed TLS handshake in the load generator's words; None for another failure."""
    cause = getattr(error, "original_exception", None)
    if error.args[0] == CR.CR_SSL_CONNECTION_ERROR:
        meaning = (
            "the server has none: give it a certificate (ssl_cert, ssl_key), or use tls=disabled"
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
    """Turn any exception that an unexpected answer causes into a DatabaseError.

    It may be any type: a short greeting leads to a variable that was never set. PyMySQL raises
    RuntimeError where a server asks for a local file.
    """
    try:
        yield
    except (pymysql.MySQLError, OSError, MillraceError):  # the last covers user interrupts
        raise
    except Exception as error:
        raise DatabaseError(
            "the server asked for a file of this host, and did not get it"
            if isinstance(error, RuntimeError) and "LOAD_LOCAL" in str(error)
            else f"the server's answer cannot be understood ({type(error).__name__}: {error})",
            kind="odd",
        ) from error


@contextlib.contextmanager
def own_session(client: DatabaseClient, database: str | None = None) -> Iterator[Session]:
    """Yield a session of a client whose odd answers are DatabaseErrors."""
    with (
        oddities_as_errors(),
        contextlib.closing(client.connect(database, limit_s=QUERY_LIMIT_S)) as session,
    ):
        yield session


def words_of(error: pymysql.MySQLError) -> str:
    """Return the error message of the server (or the client) with its number, on one line."""
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        number, text = error.args[0], str(error.args[1])
        if number == _CLOSED:  # PyMySQL has no words for it
            return "the session had ended before"
        return f"{_shortened(text)} (error {number})"
    return _shortened(str(error))


def _shortened(text: str) -> str:
    line = shown_line(text[:_LONGEST_WORDS])
    return line if len(text) <= _LONGEST_WORDS else f"{line}…"
