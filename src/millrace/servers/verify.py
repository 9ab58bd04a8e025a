"""Does a server work: boot, query, load both ways, stop. Each step is timed.

What a server says of itself must also fit the family it was installed or added as.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.errors import MillraceError, TrialFailed
from millrace.servers import families, instances
from millrace.servers.asking import ASK_LIMIT_S, words_of
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import Instance
from millrace.servers.model import AttachedServer, FittedOptions, InstalledServer

_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 90.0
_STOP_LIMIT_S = 90.0
_ROWS = 1000

# What LOAD DATA LOCAL is answered where local_infile is off: by older servers of both families, by
# newer ones of MySQL, by newer ones of MariaDB.
_LOCAL_INFILE_OFF = frozenset((1148, 3948, 4166))


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
        said = error.message if isinstance(error, MillraceError) else _said(error)
        return VerifyResult(
            tuple(progress.steps), progress.version, ok=False, reason=f"{progress.at}: {said}"
        )
    return VerifyResult(tuple(progress.steps), progress.version, ok=True)


def _verify_installed(server: InstalledServer, progress: _Progress) -> None:
    with instances.create(server, FittedOptions("default", ()), role="verify") as instance:
        progress.step("initialise", lambda: _quietly(instance.initialise, _INITIALISE_LIMIT_S))
        progress.step("start", lambda: _quietly(instance.start, _START_LIMIT_S))
        progress.step("query", lambda: _ask_version(instance, progress))
        with _own_database(instance) as database:
            local = instance.directory / "rows.tsv"
            progress.step("load local", lambda: _load(instance, database, "LOCAL", local))
            served = instance.load_dir / "rows.tsv"
            progress.step("load from the server", lambda: _load(instance, database, "", served))
        progress.step("stop", lambda: _quietly(instance.stop, _STOP_LIMIT_S))


def _verify_attached(server: AttachedServer, progress: _Progress) -> None:
    instance = AttachedInstance(server)
    progress.step("query", lambda: _ask_version(instance, progress))
    with _own_database(instance) as database, tempfile.TemporaryDirectory() as place:
        local = Path(place) / "rows.tsv"
        progress.step("load local", lambda: _load(instance, database, "LOCAL", local))


def _said(error: pymysql.MySQLError) -> str:
    if error.args and error.args[0] in _LOCAL_INFILE_OFF:
        hint = "local_infile is off there; SET GLOBAL local_infile=1 would allow it"
        return f"{hint}: {words_of(error)}"
    return words_of(error)


def _quietly(act: Callable[[float], None], limit_s: float) -> str:
    act(limit_s)
    return ""


def _ask_version(instance: Instance | AttachedInstance, progress: _Progress) -> str:
    """The version, once it and its comment are known to be of the server's family."""
    asked = instance.query("SELECT VERSION(), @@version_comment", limit_s=ASK_LIMIT_S)
    version, comment = asked[0]
    progress.version = version or ""
    says = f"{version} {comment}"
    named = instance.server.family
    if not families.get(named).recognises(says):
        fitting = next(
            (name for name in families.names() if families.get(name).recognises(says)), None
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
    instance.query(f"CREATE DATABASE {name}")
    try:
        yield name
    finally:
        with contextlib.suppress(TrialFailed):
            instance.query(f"DROP DATABASE {name}")


def _load(instance: Instance | AttachedInstance, database: str, local: str, file: Path) -> str:
    """Load a small file into a fresh InnoDB table, and count and add up what arrived."""
    file.write_text("".join(f"{i}\tname {i} µ\n" for i in range(_ROWS)), encoding="utf-8")
    file.chmod(0o644)  # LOAD DATA without LOCAL takes only what everybody may read
    with contextlib.closing(instance.connect(database)) as session:
        _run(session, "DROP TABLE IF EXISTS t")
        _run(session, "CREATE TABLE t (id int PRIMARY KEY, name varchar(40)) ENGINE=InnoDB")
        _run(session, f"LOAD DATA {local} INFILE '{file}' INTO TABLE t CHARACTER SET utf8")
        count, total = _run(session, "SELECT count(*), sum(id) FROM t")[0]
    if (int(count), int(total)) != (_ROWS, _ROWS * (_ROWS - 1) // 2):
        raise TrialFailed(f"{instance.server.name}: {count} of {_ROWS} rows arrived, sum {total}")
    return f"{_ROWS} rows"


def _run(session: Connection[Any], sql: str) -> list[Any]:
    with session.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
