"""Collect the states of the server's threads at random moments: running, or waiting, and for what.

The load generator's ``threads`` command takes the samples; this module runs it, and classifies
them, also by the statements that clients publish. Cost: at most a hundredth of one CPU and a four
hundredth of all, down to a thousandth with many clients; the section has the actual cost.
"""

import contextlib
import json
import math
import os
import select
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict, TypeVar

from pydantic import TypeAdapter, ValidationError

from millrace.collect.model import CollectorResult, Target
from millrace.collect.threads import thread_watch
from millrace.collect.threads.connection_map import connection_map
from millrace.databases.monitoring import BACKGROUND, POOL, FileKinds
from millrace.errors import MillraceError, Unavailable
from millrace.host import procfs, syscalls
from millrace.host.sockets import Sockets, Use
from millrace.loadgen import program
from millrace.loadgen.statement_activity import StatementActivity
from millrace.model.sampled_threads import SampledThread, State, Statements, StatementState, States

_OF_ONE_CPU, _OF_ALL_CPUS, _LEAST_OF_ALL_CPUS = 0.01, 0.0025, 0.001
_READY_LIMIT_S = 10.0
_ANSWER_LIMIT_S = 30.0
_END_LIMIT_S = 2.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class SampledState:
    """A state of a thread: the scheduler's letter, the system call and the descriptor's target.

    ``count`` samples of it stand for ``seconds``; in ``during_sync`` of them another thread wrote
    its log through to the disk. ``wchan`` and ``stack`` are the functions of the kernel.
    """

    state: str
    syscall: int | None
    target: str | None
    wchan: str | None
    stack: str | None
    count: int
    seconds: float
    during_sync: int


@dataclass(frozen=True)
class SampledStatement:
    """The states of a thread while its client executed a statement; None: no statement."""

    statement: str | None
    states: Sequence[SampledState]


@dataclass(frozen=True)
class ThreadSamples:
    """A thread that existed in ``ticks`` samples."""

    tid: int
    name: str
    ticks: int
    states: Sequence[SampledState]
    statements: Sequence[SampledStatement]


@dataclass(frozen=True)
class Sampled:
    """All samples, at ``ticks`` moments; ``realtime`` ones did not wait for other processes.

    The sampler's answer has other keys, of its protocol.
    """

    rate_hz: float
    ticks: int
    cpu_s: float
    realtime: bool
    threads: Sequence[ThreadSamples]


_SAMPLED = TypeAdapter(Sampled)


def budget(connections: int) -> float:
    """Return the share of one CPU that sampling may use; a busy server loses twice as much.

    With many ``connections`` each sample of all threads shows more, so fewer suffice.
    """
    of_all = max(_OF_ALL_CPUS / math.sqrt(connections), _LEAST_OF_ALL_CPUS)
    return min(_OF_ONE_CPU, of_all * (os.cpu_count() or 1))


class ThreadSampler:
    """The running command: it begins, ends, and then reports its counts."""

    def __init__(self, pid: int, connections: int) -> None:
        """Start the command and wait until it can begin. Raise Unavailable where it cannot."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._rest = b""
        try:
            arguments = ["threads", "--pid", str(pid), "--budget", f"{budget(connections):g}"]
            self._process = program.start(arguments, self._stderr)
        except MillraceError as error:
            self._stderr.close()
            raise _unsampled(error) from error
        try:
            self._answer("ready", _READY_LIMIT_S)
        except BaseException:
            self.close()
            raise

    def send(self, command: str) -> None:
        """Send a command: to begin, to end or, before that, to sample the clients' statements."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def samples(self) -> Sampled:
        """Return the samples, after the command to end."""
        answer = self._answer("threads", _ANSWER_LIMIT_S)
        try:
            return _SAMPLED.validate_python(answer)
        except ValidationError as error:
            raise _unsampled(error) from error

    def close(self) -> None:
        """End the command at any point."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._stderr.close()

    def _answer(self, kind: str, limit_s: float) -> Mapping[str, object]:
        line = self._line(limit_s)
        try:
            answer: Mapping[str, object] = json.loads(line)
        except json.JSONDecodeError as error:
            raise _unsampled(error) from error
        if answer["type"] != kind:
            raise _unsampled(f"{program.NAME} said {answer['type']!r}")
        return answer

    def _line(self, limit_s: float) -> bytes:
        """Return the next line of the output. Raise Unavailable where none comes in time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + limit_s
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            left_s = deadline - time.monotonic()
            readable, _, _ = select.select([descriptor], [], [], max(0.0, left_s))
            if not readable:
                raise _unsampled(f"{program.NAME} did not answer in {limit_s:g} s")
            part = os.read(descriptor, _READ_BYTES)
            if not part:
                raise self._failure()
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _failure(self) -> Unavailable:
        """Return the reason why the command ended early."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_LIMIT_S)
        status = self._process.poll()
        self._stderr.seek(0)
        said = program.last_words(1 if status is None else status, self._stderr.read())
        if "unrecognized subcommand" in said:
            return _unsampled(f"this {program.NAME} has no command for it", hint="run `make setup`")
        return _unsampled(said)


def _unsampled(why: object, *, hint: str | None = None) -> Unavailable:
    return Unavailable(f"threads cannot be sampled: {why}", hint=hint)


StateClass = Literal[
    "running", "lock", "log_flush", "log_write", "fsync", "data_read", "data_write", "network",
    "network_send", "sleep", "page_fault", "io_queue", "other",
]  # fmt: skip

CLIENT_SOCKET = "socket of a client"
OWN_SOCKET = "socket of millrace"
LISTENING_SOCKET = "listening socket"

_RUNNING = "R"
_NO_CALL = -1
_BLOCKED = frozenset("SD")
_NO_DESCRIPTORS = "[no descriptors]"  # instead of a link, where a call only waits for a time

_SOCKETS: Mapping[Use, str] = {
    "client": CLIENT_SOCKET, "own": OWN_SOCKET, "listening": LISTENING_SOCKET,
}  # fmt: skip

_CLASSES: Mapping[str, StateClass] = {
    "lock": "lock",
    "sleep": "sleep",
    "send": "network_send",
    "receive": "network",
    "queue": "io_queue",
}

NAME = "states"

_UNKNOWN_STATEMENT = "which statement a thread works for, so each has no breakdown"

Key = TypeVar("Key")


@dataclass(frozen=True)
class Context:
    """The server's sockets and files, by which targets are classified.

    ``written_through`` are the kinds of files whose writes wait for the disk.
    """

    sockets: Sockets
    files: FileKinds
    written_through: Collection[str] = ()
    architecture: str | None = None


@dataclass(frozen=True)
class Activity:
    """A classified state: its class, the name of the call and the kind of the target."""

    state_class: StateClass
    syscall: str | None
    target: str | None


def classify(state: str, syscall: int | None, link: str | None, context: Context) -> Activity:
    """Classify the activity of a thread at the moment of a sample.

    ``state`` is the scheduler's letter; ``syscall`` is the number of the call, -1 where the thread
    is blocked in none, None where it runs; ``link`` is that of the call's descriptor.
    """
    if state == _RUNNING:
        return Activity("running", None, None)
    if syscall is None or syscall == _NO_CALL:
        return Activity("page_fault" if state in _BLOCKED else "other", None, None)
    call = syscalls.names(context.architecture).get(syscall, f"syscall {syscall}")
    if link == _NO_DESCRIPTORS:
        return Activity("sleep", call, None)
    target = None if link is None else target_kind(link, context)
    return Activity(_by_call(call, target, context), call, target)


def target_kind(link: str, context: Context) -> str:
    """Return the kind of a descriptor's target; an unknown link stands for itself."""
    if (use := context.sockets.use(link)) is not None:
        return _SOCKETS[use]
    if not link.startswith("/"):
        return link.partition(":[")[0]  # pipe:[4711], anon_inode:[eventpoll]
    return context.files.kind(link)


def _by_call(call: str, target: str | None, context: Context) -> StateClass:
    if call == "msync":
        return "log_flush"  # the only files that servers map for writing are logs
    match syscalls.uses().get(call):
        case "sync":
            return "log_flush" if target in context.files.commit_logs else "fsync"
        case "write":
            return _by_written(target, context)
        case "read":
            return "network" if target in _SOCKETS.values() else "data_read"
        case use:
            return _CLASSES.get(use or "", "other")


def _by_written(target: str | None, context: Context) -> StateClass:
    if target in _SOCKETS.values():
        return "network_send"
    if target not in context.files.commit_logs:
        return "data_write"
    return "log_flush" if target in context.written_through else "log_write"


class _Totals(TypedDict):
    count: int
    seconds: float
    during_sync: int


@dataclass
class StateCollector:
    """A collector of thread states, sampled between the marks."""

    watch: thread_watch.ThreadWatch
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
    pid = thread_watch.require_process(target)
    files = target.client.family.monitoring.file_kinds(target.client)
    with contextlib.ExitStack() as opened:
        watch = opened.enter_context(contextlib.closing(thread_watch.ThreadWatch(target)))
        written_through = frozenset(_written_through(pid, files))
        sampler = ThreadSampler(pid, target.connections * target.servers)
        opened.pop_all()
        activity, port = target.statement_activity, target.client.port
        others = target.background_clients
        return StateCollector(watch, sampler, files, written_through, activity, port, others)


def activity(thread: ThreadSamples) -> thread_watch.ThreadActivity:
    """Return the evidence for a thread's kind in its states."""
    calls = {
        syscalls.names().get(state.syscall) for state in thread.states if state.syscall is not None
    }
    return thread_watch.ThreadActivity(
        name=thread.name,
        waited_on={state.target for state in thread.states if state.target is not None},
        waited_for_io=not thread_watch.FOR_IO.isdisjoint(calls),
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
