"""Does a server work: boot, query, insert, load, stop. Each step is timed.

What a server says of itself must also fit the family it was installed or added as.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from millrace import databases
from millrace.databases.client import ServerClient
from millrace.errors import DatabaseError, TrialFailed
from millrace.model.servers import AttachedServer, FittedOptions, InstalledServer
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import lifecycle

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
    except (DatabaseError, TrialFailed) as error:
        return VerifyResult(
            tuple(progress.steps),
            progress.version,
            ok=False,
            reason=f"{progress.at}: {error.message}",
        )
    return VerifyResult(tuple(progress.steps), progress.version, ok=True)


def _verify_installed(server: InstalledServer, progress: _Progress) -> None:
    options = FittedOptions("default", ())
    with lifecycle.create(server, options, role="verify", by_tcp=False) as instance:
        progress.step("initialise", lambda: _quietly(instance.initialise, _INITIALISE_LIMIT_S))
        progress.step("start", lambda: _quietly(instance.start, _START_LIMIT_S))
        progress.step("query", lambda: _ask_version(instance, progress))
        with _own_database(instance) as database:
            test, limit_s = instance.family.self_test, _ASK_LIMIT_S
            progress.step("insert", lambda: test.insert(instance, database, limit_s))
            progress.step(
                "load from the server",
                lambda: test.load_file(instance, database, instance.load_dir, limit_s),
            )
        progress.step("stop", lambda: _quietly(instance.stop, _STOP_LIMIT_S))


def _verify_attached(server: AttachedServer, progress: _Progress) -> None:
    instance = AttachedInstance(server)
    progress.step("query", lambda: _ask_version(instance, progress))
    with _own_database(instance) as database:
        test, limit_s = instance.family.self_test, _ASK_LIMIT_S
        progress.step("insert", lambda: test.insert(instance, database, limit_s))
    progress.step("local_infile", lambda: test.require_client_load(instance))


def _quietly(act: Callable[[float], None], limit_s: float) -> str:
    act(limit_s)
    return ""


def _ask_version(instance: ServerClient, progress: _Progress) -> str:
    """The version, once it and its comment are known to be of the server's family."""
    progress.version, says = instance.family.administration.identity(instance)
    named = instance.server.family
    if not instance.family.recognises(says):
        fitting = next(
            (name for name in databases.names() if databases.get(name).recognises(says)), None
        )
        advice = f"; remove it and add it again with --family {fitting}" if fitting else ""
        raise TrialFailed(
            f"{instance.server.name} is not of the family {named}: it calls itself {says}{advice}"
        )
    return progress.version


@contextlib.contextmanager
def _own_database(instance: ServerClient) -> Iterator[str]:
    """A database with a name nobody has; dropped after, also when a step failed."""
    name = f"millrace_verify_{secrets.token_hex(4)}"
    instance.family.administration.create_database(instance, name, _ASK_LIMIT_S)
    try:
        yield name
    finally:
        with contextlib.suppress(TrialFailed):
            instance.family.administration.drop_database(instance, name, _ASK_LIMIT_S)
