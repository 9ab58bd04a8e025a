"""Drive clients on a real server, with collectors that follow the load generator's marks."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from millrace.collect.collectors import agreed, as_json
from millrace.collect.model import Collector, ConnectionCollector, Target
from millrace.loadgen import client as load
from millrace.loadgen.events import Event, LoadResult, Mark
from millrace.loadgen.spec import Connection
from millrace.loadgen.statement_activity import StatementActivity
from millrace.servers.instances.instance import Instance
from millrace.trial import phase_spec
from millrace.trial.hooks import adjust_drives
from millrace.trial.resolved_workload import ResolvedWorkload
from tests.support.small_workload import driving

LIMIT_S = 60.0
LINGER_S = 1.0  # other tests may delay the readings at the end
QUIET_LINGER_S = 0.3  # where there are none
DATABASE = "observed"

Open = Callable[[Target], Collector]


@dataclass
class Observed:
    """The collectors' output, and facts that a test knows besides.

    The facts are the server's threads at the end of the measured part and those left when the
    clients had gone, the duration of the longest begin or end, the duration of the measured part,
    the clients' measurements, and the test's own processes.
    """

    document: dict[str, Any]
    threads: frozenset[int]
    threads_left: frozenset[int]
    longest_s: float
    window_s: float
    transactions: int
    result: LoadResult
    ours: frozenset[int]


@dataclass
class _Marks:
    pid: int
    observers: Sequence[Collector]
    took_s: list[float] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    threads: frozenset[int] = frozenset()
    ours: set[int] = field(default_factory=lambda: {os.getpid()})

    def hear(self, event: Event) -> None:
        if not isinstance(event, Mark):
            return
        if event.mark == "connected":
            for observer in self.observers:
                if isinstance(observer, ConnectionCollector):
                    observer.connected()
        if event.mark not in ("measure_started", "measure_ended"):
            return
        self.at_s.append(time.monotonic())
        self.threads = threads_of(self.pid)
        for observer in self.observers:
            began_s = time.monotonic()
            if event.mark == "measure_started":
                observer.begin()
            else:
                observer.end()
            self.took_s.append(time.monotonic() - began_s)
        # Searching for them takes long, and clients stay for a moment only.
        self.ours |= {child.pid for child in psutil.Process().children(recursive=True)}


def document_of(collectors: Iterable[Collector]) -> dict[str, Any]:
    """Return the sections of collectors, and what they miss."""
    sections: dict[str, object] = {}
    missing: list[dict[str, str | None]] = []
    for each in collectors:
        found = each.result()
        sections |= found.sections
        missing += [{"what": lack.message, "hint": lack.hint} for lack in found.missing]
    # A thread that waits for a lock at both marks has no known owner without samples.
    return {**as_json(agreed(sections)), "missing": missing}


def threads_of(pid: int) -> frozenset[int]:
    return frozenset(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())


def target_of(instance: Instance, activity: StatementActivity | None = None) -> Target:
    return Target(instance, instance.pid, instance.data_dir, DATABASE, {}, LIMIT_S, activity)


@contextlib.contextmanager
def loaded(instance: Instance) -> Iterator[None]:
    """Load the small workload's tables, once for an instance."""
    instance.query(f"CREATE DATABASE {DATABASE}")
    work = ResolvedWorkload(driving(), {"table_size": 1_000})
    load.run(
        phase_spec.load_spec(
            work.making_phases, work, instance.family.load_dialect, connection(instance)
        ),
        limit_s=LIMIT_S,
    )
    yield


def connection(instance: Instance, *, tcp: bool = False) -> Connection:
    if tcp:
        return Connection(
            instance.user,
            instance.password,
            DATABASE,
            host="127.0.0.1",
            port=instance.port,
            allow_unverified=True,
        )
    return Connection(instance.user, instance.password, DATABASE, socket=instance.socket)


def observed(
    instance: Instance,
    openers: Sequence[Open],
    *,
    clients: int,
    tcp: bool = False,
    linger_s: float = LINGER_S,
    **chosen: Any,
) -> Observed:
    """Drive this many clients on the loaded tables with collectors running."""
    assert instance.pid is not None
    work = ResolvedWorkload(
        driving(),
        {"table_size": 1_000, "time_s": 1.0, "warmup_s": 0.2, "clients": clients, **chosen},
    )
    with contextlib.ExitStack() as opened:
        activity = opened.enter_context(StatementActivity.create())
        spec = adjust_drives(
            phase_spec.load_spec(
                work.measuring_phases,
                work,
                instance.family.load_dialect,
                connection(instance, tcp=tcp),
            ),
            lambda drive: replace(drive, statement_activity=activity.path, linger_s=linger_s),
        )
        observers = []
        for opener in openers:
            observers.append(opener(target_of(instance, activity)))
            opened.callback(observers[-1].close)
        marks = _Marks(instance.pid, observers)
        result = load.run(spec, on_event=marks.hear, limit_s=LIMIT_S)
        left = _when_settled(instance.pid)
        document = document_of(observers)
        driven = result.driven()
        assert driven is not None
        begin_s, end_s = marks.at_s
        return Observed(
            document,
            marks.threads,
            left,
            max(marks.took_s),
            end_s - begin_s,
            sum(record.count for record in driven.transactions),
            result,
            frozenset(marks.ours),
        )


def _when_settled(pid: int) -> frozenset[int]:
    """Return the threads once they stop changing: those of clients end gradually."""
    before, since_s = threads_of(pid), time.monotonic()
    while time.monotonic() - since_s < 0.3:
        time.sleep(0.02)
        now = threads_of(pid)
        if now != before:
            before, since_s = now, time.monotonic()
    return before


def is_root() -> bool:
    return os.geteuid() == 0
