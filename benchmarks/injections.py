"""Inject causes of a difference that no server option provides.

An injection takes part in a trial as a collector does: it is opened before the clients are driven,
receives the begin and the end of the measured part, and is closed in any case. It acts only in
trials of the treatment that ``Injections`` names.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from millrace.collect.model import Collector, CollectorResult, Target
from millrace.model.events import Emitted, TrialBegan
from millrace.trial import client_preparation

NAME = "injection"

_SETTLE_LIMIT_S = 60.0

# Injections act before the clients are driven, and again where the measured part begins, since by
# then the clients are connected too.
Injection = Callable[[Target], AbstractContextManager[Callable[[], None]]]


class Injections:
    """An opener of injecting collectors, or of one that does nothing.

    It follows the runner's events to know the current trial.
    """

    def __init__(self, inject: Injection | None, treatment: str) -> None:
        self._inject = inject
        self._treatment = treatment
        self._now = ""

    def watch(self, event: Emitted) -> None:
        """Handle an event of the runner."""
        if isinstance(event, TrialBegan):
            self._now = event.treatment_id

    def collector(self, target: Target) -> Collector:
        """Return the collector of the current trial."""
        is_injected = self._inject is not None and self._now == self._treatment
        return _Injecting(target, self._inject if is_injected else None)


class _Injecting:
    def __init__(self, target: Target, inject: Injection | None) -> None:
        self._opened = ExitStack()
        self._measured: Callable[[], None] = _nothing
        self._is_injected = inject is not None
        if inject is not None:
            try:
                self._measured = self._opened.enter_context(inject(target))
            except Exception as problem:  # not transient, unlike a collector's failure
                raise RuntimeError(f"the cause could not be injected: {problem!r}") from problem

    def begin(self) -> None:
        self._measured()

    def end(self) -> None:
        pass

    def result(self) -> CollectorResult:
        return CollectorResult({NAME: {"injected": self._is_injected}})

    def close(self) -> None:
        self._opened.close()


def _nothing() -> None:
    """Do nothing where the measured part begins."""


@contextlib.contextmanager
def one_cpu(target: Target) -> Iterator[Callable[[], None]]:
    """Run all threads of the server on one CPU, including those that begin later."""
    pid = _pid(target)
    cpus = os.sched_getaffinity(pid)

    def limit() -> None:
        _set_affinity(pid, {min(cpus)})

    limit()
    try:
        yield limit
    finally:
        _set_affinity(pid, cpus)


@contextlib.contextmanager
def index_dropped(target: Target) -> Iterator[Callable[[], None]]:
    """Drop the secondary index of the first table."""
    _ask(target, f"ALTER TABLE {target.database}.sbtest1 DROP INDEX k_1")
    yield _nothing


@contextlib.contextmanager
def tables_compressed(target: Target) -> Iterator[Callable[[], None]]:
    """Rebuild the first table with compressed pages, and write all of it back."""
    _ask(
        target,
        f"ALTER TABLE {target.database}.sbtest1 ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
        f"ANALYZE TABLE {target.database}.sbtest1",
    )
    client_preparation.quiesce(target.client, limit_s=_SETTLE_LIMIT_S)
    yield _nothing


# Busy until the pipe it reads from is closed, which also happens when its parent is killed.
_BURN = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
os.set_blocking(0, False)
while True:
    for _ in range(200_000):
        pass
    try:
        if not os.read(0, 1):
            break
    except BlockingIOError:
        pass
"""


@contextlib.contextmanager
def core_burnt(_target: Target) -> Iterator[Callable[[], None]]:
    """Run an unrelated process that keeps a CPU busy."""
    with subprocess.Popen(
        [sys.executable, "-c", _BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        burner = os.pidfd_open(int(process.stdout.readline()))
        try:
            yield _nothing
        finally:
            process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(burner, signal.SIGKILL)
            os.close(burner)


_TURN_S = 0.002


@contextlib.contextmanager
def client_slowed(_target: Target) -> Iterator[Callable[[], None]]:
    """Stop the load generator half of the time, 2 ms at a time, while it is measured."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def slow() -> None:
        clients = [os.pidfd_open(pid) for pid in _load_generators()]
        thread = threading.Thread(target=_take_turns, args=(clients, over), daemon=True)
        thread.start()
        threads.append(thread)

    try:
        yield slow
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _take_turns(clients: list[int], over: threading.Event) -> None:
    try:
        while not over.is_set():
            _send(clients, signal.SIGSTOP)
            time.sleep(_TURN_S)
            _send(clients, signal.SIGCONT)
            time.sleep(_TURN_S)
    except ProcessLookupError:
        pass  # it has ended
    finally:
        with contextlib.suppress(ProcessLookupError):
            _send(clients, signal.SIGCONT)
        for client in clients:
            os.close(client)


def _send(clients: list[int], which: signal.Signals) -> None:
    for client in clients:
        signal.pidfd_send_signal(client, which)


def _load_generators() -> list[int]:
    """Return the load generators that this process has started, without its other helpers."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            with contextlib.suppress(OSError):
                program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if program.endswith(b"millrace-load") and b"run" in arguments:
                    found.append(int(pid))
    if not found:
        raise RuntimeError("no load generator was found to be slowed")
    return found


def _pid(target: Target) -> int:
    assert target.pid is not None, "the server is millrace's own"
    return target.pid


def _set_affinity(pid: int, cpus: set[int]) -> None:
    for task in list(Path(f"/proc/{pid}/task").iterdir()) if Path(f"/proc/{pid}").exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cpus)


def _ask(target: Target, *statements: str) -> None:
    session = target.client.connect(limit_s=target.limit_s)
    try:
        for statement in statements:
            session.query(statement)
    finally:
        session.close()
