"""Verify that a server works and is of its family: boot, query, insert, load, stop."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from millrace import databases
from millrace.databases.base import ServerClient
from millrace.errors import DatabaseError, TrialFailed
from millrace.model.servers import AttachedServer, FittedOptions, InstalledServer
from millrace.servers.attached import AttachedInstance
from millrace.servers.instances import lifecycle

_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 90.0
_STOP_LIMIT_S = 90.0
_ASK_LIMIT_S = 120.0


@dataclass(frozen=True)
class VerifyResult:
    """The result of a verification."""

    steps: tuple[tuple[str, float, str], ...]  # passed steps: name, seconds, detail
    version_reported: str | None
    ok: bool
    reason: str | None = None  # the step that failed, and why


@dataclass
class _Progress:
    """The steps so far, each reported when it passes."""

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
    """Boot the server, query it, load data into it and stop it.

    An attached server is only queried and loaded, in a temporary database. ``report`` is called
    after each step. A failure of the server is a result; an interruption is raised.
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
    """Return the version. Raise TrialFailed if the server identifies as another family."""
    progress.version, says = instance.family.administration.identity(instance)
    named = instance.server.family
    if not instance.family.matches(says):
        fitting = next(
            (name for name in databases.names() if databases.get(name).matches(says)), None
        )
        advice = f"; remove the server and add it again with --family {fitting}" if fitting else ""
        raise TrialFailed(
            f"{instance.server.name} is not of the family {named}: it identifies as {says}{advice}"
        )
    return progress.version


@contextlib.contextmanager
def _own_database(instance: ServerClient) -> Iterator[str]:
    """Create a database with an unused name; drop it at the end, even after a failure."""
    name = f"millrace_verify_{secrets.token_hex(4)}"
    instance.family.administration.create_database(instance, name, _ASK_LIMIT_S)
    try:
        yield name
    finally:
        with contextlib.suppress(TrialFailed):
            instance.family.administration.drop_database(instance, name, _ASK_LIMIT_S)
