"""Collect the states of the server's threads at random moments: running, or waiting, and for what.

The load generator's ``threads`` command takes the samples; this module classifies them, also by the
statements that clients publish. Cost: at most a hundredth of one CPU and a four hundredth of all,
down to a thousandth with many clients; the section has the actual cost.
"""

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, TypeVar

from millrace.collect.model import CollectorResult, Target
from millrace.collect.threads.connection_map import connection_map
from millrace.collect.threads.state_classes import Context, StateClass, classify
from millrace.collect.threads.thread_sampler import (
    Sampled,
    SampledState,
    ThreadSampler,
    ThreadSamples,
)
from millrace.collect.threads.thread_watch import (
    FOR_IO,
    ThreadActivity,
    ThreadWatch,
    require_process,
)
from millrace.databases.monitoring import BACKGROUND, POOL, FileKinds
from millrace.errors import Unavailable
from millrace.host import procfs, syscalls
from millrace.loadgen.statement_activity import StatementActivity
from millrace.model.sampled_threads import SampledThread, State, Statements, StatementState, States

NAME = "states"

_UNKNOWN_STATEMENT = "which statement a thread works for, so that there is no breakdown of each"

Key = TypeVar("Key")


class _Totals(TypedDict):
    count: int
    seconds: float
    during_sync: int


@dataclass
class StateCollector:
    """A collector of thread states, sampled between the marks."""

    watch: ThreadWatch
    sampler: ThreadSampler
    files: FileKinds
    written_through: Collection[str]
    statement_activity: StatementActivity | None = None
    port: int | None = None
    background_clients: bool = False
    _is_split: bool = False
    _missing: list[Unavailable] = field(default_factory=list)

    def connected(self) -> None:
        """Let the sampler learn which thread waits for which client."""
        if self.statement_activity is not None:
            self._map(self.statement_activity)

    def begin(self) -> None:
        self.watch.sample()
        self.sampler.send("begin")

    def end(self) -> None:
        self.sampler.send("end")
        self.watch.sample()

    def result(self) -> CollectorResult:
        sampled = self.sampler.samples()
        kinds = self.watch.kinds({thread.tid: activity(thread) for thread in sampled.threads})
        context = Context(self.watch.sockets(), self.files, self.written_through)
        found = classified(sampled, kinds, context, by_statement=self._is_split)
        if self._is_split and found.statements is None:
            self._miss("none was seen to wait for a client's next request")
        return CollectorResult({NAME: found}, [*self.watch.missing(kinds), *self._missing])

    def close(self) -> None:
        self.watch.close()
        self.sampler.close()

    def _map(self, activity: StatementActivity) -> None:
        """Make the sampler read several statements of clients, or tell these from others."""
        has_several = len(activity.statements()) > 1
        if not (has_several or self.background_clients):
            return
        if self.watch.serving == POOL:
            self._miss("clients share a pool of threads")
            return
        slots = connection_map(activity, self.watch.pid, self.port)
        if slots:
            self._is_split = has_several
            place = json.dumps({"path": str(activity.path), "slots": slots})
            self.sampler.send(f"statement_activity {place}")
        else:
            self._miss(
                "the kernel does not report the clients of the server's sockets",
                hint="use a kernel with CONFIG_UNIX_DIAG",
            )

    def _miss(self, why: str, *, hint: str | None = None) -> None:
        self._missing = [Unavailable(f"{_UNKNOWN_STATEMENT}: {why}", hint=hint)]


def collector(target: Target) -> StateCollector:
    """Create the collector. Raise Unavailable where the server's threads are not accessible."""
    pid = require_process(target)
    files = target.client.family.monitoring.file_kinds(target.client)
    with contextlib.ExitStack() as opened:
        watch = opened.enter_context(contextlib.closing(ThreadWatch(target)))
        written_through = frozenset(_written_through(pid, files))
        sampler = ThreadSampler(pid, target.connections * target.servers)
        opened.pop_all()
        activity, port = target.statement_activity, target.client.port
        others = target.background_clients
        return StateCollector(watch, sampler, files, written_through, activity, port, others)


def activity(thread: ThreadSamples) -> ThreadActivity:
    """Return the evidence for a thread's kind in its states."""
    calls = {
        syscalls.names().get(state.syscall) for state in thread.states if state.syscall is not None
    }
    return ThreadActivity(
        name=thread.name,
        waited_on={state.target for state in thread.states if state.target is not None},
        waited_for_io=not FOR_IO.isdisjoint(calls),
    )


def classified(
    sampled: Sampled, kinds: Mapping[int, str], context: Context, *, by_statement: bool = True
) -> States:
    """Return the document's section, from the samples, ``by_statement`` too where these tell."""

    def classes(state: SampledState) -> StateClass:
        return classify(state.state, state.syscall, state.target, context).state_class

    def key(
        state: SampledState,
    ) -> tuple[StateClass, str | None, str | None, str | None, str | None]:
        found = classify(state.state, state.syscall, state.target, context)
        return found.state_class, found.syscall, found.target, state.wchan, state.stack

    executed: defaultdict[str | None, list[SampledState]] = defaultdict(list)
    for thread in sampled.threads:
        for each in thread.statements:
            executed[each.statement] += each.states
    statements = [
        StatementState(statement=statement, state_class=state_class, **totals)
        for statement, states in executed.items()
        for state_class, totals in _totals(states, classes)
    ]
    n_threads = sum(bool(thread.statements) for thread in sampled.threads)
    return States(
        rate_hz=sampled.rate_hz,
        ticks=sampled.ticks,
        cpu_s=sampled.cpu_s,
        realtime=sampled.realtime,
        threads=tuple(
            SampledThread(
                tid=thread.tid,
                name=thread.name,
                kind=kinds.get(thread.tid, BACKGROUND),
                ticks=thread.ticks,
                **({"serves_client": True} if thread.statements else {}),
                states=tuple(
                    State(
                        state_class=state_class,
                        syscall=syscall,
                        target=target,
                        wchan=wchan,
                        stack=stack,
                        **totals,
                    )
                    for (state_class, syscall, target, wchan, stack), totals in _totals(
                        thread.states, key
                    )
                ),
            )
            for thread in sampled.threads
        ),
        statements=(
            Statements(threads=n_threads, states=tuple(statements))
            if n_threads and by_statement
            else None
        ),
    )


def _totals(
    states: Iterable[SampledState], key: Callable[[SampledState], Key]
) -> Iterator[tuple[Key, _Totals]]:
    """Yield count, seconds and ``during_sync`` of the states of a key, the most frequent first."""
    count: Counter[Key] = Counter()
    during_sync: Counter[Key] = Counter()
    seconds: defaultdict[Key, float] = defaultdict(float)
    for state in states:
        of = key(state)
        count[of] += state.count
        during_sync[of] += state.during_sync
        seconds[of] += state.seconds
    for of, n in count.most_common():
        yield of, _Totals(count=n, seconds=seconds[of], during_sync=during_sync[of])


def _written_through(pid: int, files: FileKinds) -> Iterator[str]:
    """Yield the kinds of files whose writes wait for the disk; nothing where they are hidden."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return  # the threads are not accessible either; the collector reports that in better words
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            link = str(descriptor.readlink())
            info = procfs.read(f"/proc/{pid}/fdinfo/{descriptor.name}")
            if link.startswith("/") and procfs.writes_through(info):
                yield files.kind(link)
