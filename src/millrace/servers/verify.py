"""Does a server work: boot, query, insert, load, stop. Each step is timed.

What a server says of itself must also fit the family it was installed or added as.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace import databases
from millrace.databases.mysql.client import words_of
from millrace.errors import MillraceError, TrialFailed
from millrace.model.servers import AttachedServer, FittedOptions, InstalledServer
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import lifecycle
from millrace.servers.instances.lifecycle import Instance

_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 90.0
_STOP_LIMIT_S = 90.0
_ASK_LIMIT_S = 120.0
_ROWS = 1000


@dataclass(frozen=True)
class VerifyResult:
    """How a server did: ``steps`` are (name, duration in seconds, detail) of those that passed;
    ``reason`` says which step failed and why, None when ``ok``."""

    steps: tuple[tuple[str, float, str], ...]
    version_reported: str | None
    ok: bool
    reason: str | None = None


@dataclass
class _Progress:
    """The steps so far; each is reported as it is passed."""

    report: Callable[[str], None]
    steps: list[tuple[str, float, str]] = field(default_factory=list)
    at: str = "prepare"
    version: str | None = None

    def step(self, name: str, act: Callable[[], str]) -> None:
        self.at = name
        began = time.monotonic()
        detail = act()
        duration_s = time.monotonic() - began
        self.steps.append((name, duration_s, detail))
        self.report(f"{name}: {duration_s:.2f} s" + (f", {detail}" if detail else ""))


def verify(server: InstalledServer | AttachedServer, report: Callable[[str], None]) -> VerifyResult:
    """Boot the server, query it, load into it and stop it; a server that is not ours is queried and
    loaded into a database of its own, which is dropped after.

    ``report`` is told of each step. A failing server is a result; an interruption is raised.
    """
    progress = _Progress(report)
    try:
        if isinstance(server, AttachedServer):
            _verify_attached(server, progress)
        else:
            _verify_installed(server, progress)
    except (MillraceError, pymysql.MySQLError) as error:
        if isinstance(error, MillraceError) and not isinstance(error, TrialFailed):
            raise
        said = error.message if isinstance(error, MillraceError) else words_of(error)
        return VerifyResult(
            tuple(progress.steps), progress.version, ok=False, reason=f"{progress.at}: {said}"
        )
    return VerifyResult(tuple(progress.steps), progress.version, ok=True)


def _verify_installed(server: InstalledServer, progress: _Progress) -> None:
    options = FittedOptions("default", ())
    with lifecycle.create(server, options, role="verify", by_tcp=False) as instance:
        progress.step("initialise", lambda: _quietly(instance.initialise, _INITIALISE_LIMIT_S))
        progress.step("start", lambda: _quietly(instance.start, _START_LIMIT_S))
        progress.step("query", lambda: _ask_version(instance, progress))
        with _own_database(instance) as database:
            progress.step("insert", lambda: _fill(instance, database, _insertion()))
            progress.step("load from the server", lambda: _load(instance, database))
        progress.step("stop", lambda: _quietly(instance.stop, _STOP_LIMIT_S))


def _verify_attached(server: AttachedServer, progress: _Progress) -> None:
    instance = AttachedInstance(server)
    progress.step("query", lambda: _ask_version(instance, progress))
    with _own_database(instance) as database:
        progress.step("insert", lambda: _fill(instance, database, _insertion()))
    progress.step("local_infile", lambda: _require_local_infile(instance))


def _quietly(act: Callable[[float], None], limit_s: float) -> str:
    act(limit_s)
    return ""


def _ask_version(instance: Instance | AttachedInstance, progress: _Progress) -> str:
    """The version, once it and its comment are known to be of the server's family."""
    version, comment = instance.one_row("SELECT VERSION(), @@version_comment", n_columns=2)
    progress.version = version or ""
    says = f"{version} {comment}"
    named = instance.server.family
    if not databases.get(named).recognises(says):
        fitting = next(
            (name for name in databases.names() if databases.get(name).recognises(says)), None
        )
        advice = f"; remove it and add it again with --family {fitting}" if fitting else ""
        raise TrialFailed(
            f"{instance.server.name} is not of the family {named}: it calls itself {says}{advice}"
        )
    return progress.version


@contextlib.contextmanager
def _own_database(instance: Instance | AttachedInstance) -> Iterator[str]:
    """A database with a name nobody has; dropped after, also when a step failed."""
    name = f"millrace_verify_{secrets.token_hex(4)}"
    instance.query(f"CREATE DATABASE {name}", limit_s=_ASK_LIMIT_S)
    try:
        yield name
    finally:
        with contextlib.suppress(TrialFailed):
            instance.query(f"DROP DATABASE {name}", limit_s=_ASK_LIMIT_S)


def _require_local_infile(instance: AttachedInstance) -> str:
    """Refuse a server to which the load generator could not send rows with LOAD DATA LOCAL."""
    (value,) = instance.one_row("SELECT @@GLOBAL.local_infile", n_columns=1)
    if value == "0":
        raise TrialFailed("it is off there; SET GLOBAL local_infile=1 would allow it")
    return ""


def _load(instance: Instance, database: str) -> str:
    """Load a small file that the server reads by itself."""
    file = instance.load_dir / "rows.tsv"
    file.write_text("".join(f"{i}\t{name}\n" for i, name in _rows()), encoding="utf-8")
    file.chmod(0o644)  # LOAD DATA without LOCAL takes only what everybody may read
    return _fill(instance, database, f"LOAD DATA INFILE '{file}' INTO TABLE t CHARACTER SET utf8")


def _insertion() -> str:
    """One INSERT of all rows: no file, which a server could ask for by another name."""
    rows = ", ".join(f"({i}, '{name}')" for i, name in _rows())
    return f"INSERT INTO t VALUES {rows}"  # noqa: S608 - the rows are our own


def _rows() -> list[tuple[int, str]]:
    return [(i, f"name {i} µ") for i in range(_ROWS)]


def _fill(instance: Instance | AttachedInstance, database: str, sql: str) -> str:
    """Fill a fresh InnoDB table by a statement, and count and add up what arrived."""
    with contextlib.closing(instance.connect(database, limit_s=_ASK_LIMIT_S)) as session:
        _run(session, "DROP TABLE IF EXISTS t")
        _run(session, "CREATE TABLE t (id int PRIMARY KEY, name varchar(40)) ENGINE=InnoDB")
        _run(session, sql)
        arrived = _run(session, "SELECT count(*), sum(id) FROM t")
    expected = (_ROWS, _ROWS * (_ROWS - 1) // 2)
    if [tuple(map(str, row)) for row in arrived] != [tuple(map(str, expected))]:
        raise TrialFailed(
            f"{instance.server.name}: expected (rows, sum) {expected}, got {arrived[:1]}"
        )
    return f"{_ROWS} rows"


def _run(session: Connection[Any], sql: str) -> list[Any]:
    with session.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
