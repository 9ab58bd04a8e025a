"""Open the results store (SQLite in WAL mode), migrate its schema, and translate its errors.

``open_engine`` first reads the file's schema revision without writing. One transaction then creates
the tables of a new store, or migrates an older one. If two processes open a new store at the same
time, the second waits for the first one's transaction and has nothing left to do.

Transactions that write start with BEGIN IMMEDIATE, so their reads are still valid when they write.
Connections are not pooled: when the last connection closes, SQLite checkpoints the write-ahead log,
so no checkpoint writes to the disk during a measurement.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from millrace import safe_json
from millrace.errors import DiskFull, HostError, MillraceError, UserError
from millrace.store import private, schema
from millrace.store.artefacts import disk_full, write_problem
from millrace.store.checked import NotARecord

BUSY_TIMEOUT_S = 30.0
_RETRY_EVERY_S = 0.05

_APPLICATION_ID = 0x4D494C4C  # "MILL": identifies the database file as one of millrace
_NEARLY_FULL_BYTES = 1 << 20
_CELL = safe_json.Limits(size_bytes=64 << 20, values=8_000_000, depth=80, text_chars=16 << 20)


def open_engine(path: Path, *, create: bool, read_only: bool) -> Engine:
    """Return an engine for the store at ``path``, migrated; errors as in ``Store.open``."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise write_problem(path, error) from error
    exists = mode is not None
    if mode is not None and not stat.S_ISREG(mode):
        noun = "a directory" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise UserError(
            f"{path}: is {noun}, not a results store", hint="choose a file with --store PATH"
        )
    private.refuse_open_directory(path)
    if not exists:
        if read_only or not create:
            raise UserError(
                f"{path}: no results store here",
                hint="choose one with --store PATH; `millrace run` creates one",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_problem(path.parent, error) from error
        private.make_file(path)
    private.refuse_files_of_others(path)
    private.close_store(path)
    with user_errors(path):
        if read_only:
            return _readable(path)
        _require_writable(path)
        _bring_up_to_date(path, _uri(path, "mode=rwc"), read_only=False)
        return _engine(_uri(path, "mode=rw"))


@contextlib.contextmanager
def user_errors(path: Path) -> Iterator[None]:
    """Translate database errors and invalid rows into errors with a hint for the user."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        problem = _problem(path, cause) if isinstance(cause, sqlite3.Error) else None
        if problem is None:
            raise
        raise problem from error
    except (NotARecord, UnicodeDecodeError) as error:  # an SQLite text may have invalid UTF-8
        raise _damaged(path, str(error)) from error


def writing(engine: Engine) -> contextlib.AbstractContextManager[Connection]:
    """Begin a transaction that holds the write lock from its start (BEGIN IMMEDIATE)."""
    return engine.execution_options(millrace_begin="BEGIN IMMEDIATE").begin()


def _require_writable(path: Path) -> None:
    # SQLite silently opens an unwritable file read-only, and would fail at the first result. Its
    # write-ahead log needs a writable directory too.
    for place in (path, path.parent):
        if place.exists() and not _may_write(place):
            raise _read_only(path)


def _read_only(path: Path) -> UserError:
    return UserError(
        f"{path}: the results store is read-only: no permission to write",
        hint="make the file and its directory writable, or choose another store with --store PATH",
    )


def _uri(path: Path, parameters: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{parameters}"


def _readable(path: Path) -> Engine:
    """Return an engine for reading; it also works on a full disk."""
    uri = _readable_uri(path)
    try:
        _bring_up_to_date(path, uri, read_only=True)
    except sqlite3.OperationalError as error:
        if not isinstance(_problem(path, error), DiskFull):
            raise
        uri, exclusive = _uri_without_index(path)
        _bring_up_to_date(path, uri, read_only=True, exclusive=exclusive)
        return _engine(uri, read_only=True, exclusive=exclusive)
    return _engine(uri, read_only=True)


def _uri_without_index(path: Path) -> tuple[str, bool]:
    """Return the URI for reading without an -shm file, and whether to lock the store exclusively.

    SQLite keeps the index of the write-ahead log in memory if it locks the store exclusively. A
    store without a log needs no index.
    """
    if _has_log(path):
        return _uri(path, "mode=rw"), True
    return _uri(path, "mode=ro&immutable=1"), False


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _readable_uri(path: Path) -> str:
    """Return the URI for reading a store, depending on the write permissions of this user.

    If file and directory are writable, SQLite opens the file for writing (``query_only`` prevents
    changes), so that the last reader removes the write-ahead log and its index. If the directory is
    not writable, SQLite can read a store only if its log is empty, as an immutable file.
    """
    if not _may_write(path.parent):
        return _uri(path, "mode=ro" if _has_log(path) else "mode=ro&immutable=1")
    return _uri(path, "mode=rw" if _may_write(path) else "mode=ro")


def _may_write(place: Path) -> bool:
    return os.access(place, os.W_OK, effective_ids=True)


def _connect(uri: str, *, exclusive: bool = False) -> sqlite3.Connection:
    # isolation_level None: not the driver, but the engine's event begins transactions.
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    if exclusive:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def _engine(
    uri: str, *, foreign_keys: bool = True, read_only: bool = False, exclusive: bool = False
) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = _connect(uri, exclusive=exclusive)
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        connection.execute(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")
        connection.execute("PRAGMA synchronous = FULL")  # a stored result survives a power failure
        return connection

    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=NullPool,
        json_serializer=_json_text,
        json_deserializer=_json_value,
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        statement = connection.get_execution_options().get("millrace_begin", "BEGIN")
        connection.exec_driver_sql(statement)

    return engine


def _json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _json_value(cell: Any) -> Any:
    if isinstance(cell, int | float):  # SQLite stores the text of a number as this type
        return cell
    if not isinstance(cell, str):
        raise NotARecord(f"a JSON cell has the type {type(cell).__name__}")
    try:
        return safe_json.parse(cell, _CELL)
    except ValueError as error:
        raise NotARecord(f"a cell has invalid JSON: {error}") from error


def refusal(value: Any) -> str | None:
    """Return the reason why a value cannot be stored as JSON and read back; None if it can."""
    try:
        safe_json.parse(_json_text(value), _CELL)
    except (ValueError, RecursionError) as error:
        return str(error)
    return None


def _revision(path: Path, connection: sqlite3.Connection) -> str | None:
    """Return the schema revision; None for an empty file; UserError for another database."""
    tables = {
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
    if not tables:
        return None
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != _APPLICATION_ID or "alembic_version" not in tables:
        raise _not_a_store(path)
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if found is None:
        raise NotARecord("no schema revision")
    return str(found[0])


def _bring_up_to_date(path: Path, uri: str, *, read_only: bool, exclusive: bool = False) -> None:
    with contextlib.closing(_connect(uri, exclusive=exclusive)) as connection:
        revision = _revision(path, connection)
        if revision == schema.HEAD:
            return
        if revision is None and read_only:
            raise UserError(
                f"{path}: the file is empty, not a results store",
                hint="the next `millrace run` or `millrace results import` creates the store in "
                "it; or choose another store with --store PATH",
            )
        if revision is None:
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            _use_write_ahead_log(connection)
    if revision is None:
        _make_tables(path)
        return
    # Imported here because importing the migrations takes longer than the rest of a command.
    from millrace.store import migrations  # noqa: PLC0415

    if revision not in migrations.revisions():
        raise UserError(
            f"{path}: another version of millrace wrote the results store (its schema revision is "
            f"{revision}, the newest that this millrace knows is {schema.HEAD})",
            hint="use the version that wrote it, or choose another store with --store PATH",
        )
    _require_writable(path)
    # Foreign keys off: a migration may copy a table, and dropping the old one would cascade.
    with writing(_engine(_uri(path, "mode=rw"), foreign_keys=False)) as transaction:
        migrations.upgrade(transaction)
        broken = transaction.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise UserError(
                f"{path}: the migration failed: rows refer to rows that do not exist: {broken[:3]}",
                hint="the store was not changed; restore a copy, or choose another store with "
                "--store PATH",
            )


def _make_tables(path: Path) -> None:
    with writing(_engine(_uri(path, "mode=rw"))) as transaction:
        if not inspect(transaction).has_table("alembic_version"):
            schema.metadata.create_all(transaction)
            schema.alembic_version.create(transaction)
            transaction.execute(schema.alembic_version.insert().values(version_num=schema.HEAD))


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode; retry while another process writes, since SQLite does not wait here."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_EVERY_S)


def _not_a_store(path: Path) -> UserError:
    return UserError(
        f"{path}: is not a results store of millrace",
        hint="choose another file with --store PATH; this file was not changed",
    )


def _problem(path: Path, error: sqlite3.Error) -> MillraceError | None:
    """Return the error for the user; None if the SQLite error is a defect of millrace."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    problem: MillraceError | None = None
    if code == sqlite3.SQLITE_NOTADB:
        problem = _not_a_store(path)
    elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        problem = _read_only(path)
    elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        is_index = code == sqlite3.SQLITE_PROTOCOL  # about the locks of the log's index
        said = str(error) if is_index else f"waited for {BUSY_TIMEOUT_S:.0f} s"
        problem = HostError(
            f"{path}: another process keeps the results store locked ({said})",
            hint="end the process that has the file open, then repeat the command",
        )
    elif code == sqlite3.SQLITE_FULL or (code in _INPUT_OUTPUT and _disk_is_full(path)):
        problem = disk_full(path)
    elif code == sqlite3.SQLITE_CANTOPEN:
        problem = UserError(
            f"{path}: cannot create or open a results store there ({error})",
            hint="choose another path with --store PATH",
        )
    elif code in _INPUT_OUTPUT:
        problem = HostError(f"{path}: cannot read or write the results store ({error})")
    elif isinstance(error, sqlite3.OperationalError) or code in _OF_DAMAGE:
        problem = _damaged(path, str(error))
    return problem


def _damaged(path: Path, what: str) -> UserError:
    return UserError(
        f"{path}: the results store is damaged ({what})",
        hint="restore a copy of the file; or save the readable runs with `millrace results "
        "export RUN` or `sqlite3 FILE .recover`, and choose another store with --store PATH",
    )


# SQLite's error codes for pages and records in a wrong format.
_OF_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
)
_INPUT_OUTPUT = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


def _disk_is_full(path: Path) -> bool:
    try:
        disk = shutil.disk_usage(path.parent)
    except OSError:
        return False
    return (
        disk.total > 0 and disk.free < _NEARLY_FULL_BYTES
    )  # file systems such as /proc have no size
