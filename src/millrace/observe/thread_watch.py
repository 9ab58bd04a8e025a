"""Sees what each thread of a server is for, where the measured part begins and where it ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from millrace.observe import proc, sockets, syscalls
from millrace.observe.model import Target, Unavailable
from millrace.observe.sockets import Sockets
from millrace.observe.thread_kinds import Kind, Server, Thread, Told, kind_of
from millrace.servers import families
from millrace.servers.attached import AttachedInstance
from millrace.servers.families.model import version_key
from millrace.servers.instances import Instance
from millrace.servers.model import InstalledServer

# Calls whose first argument is the descriptor that is waited on, and those whose first argument
# points to a list of them.
_ON_DESCRIPTOR = frozenset({"read", "readv", "recvfrom", "recvmsg", "accept", "accept4"})
_ON_LIST = frozenset({"poll", "ppoll"})
FOR_IO = frozenset({"io_getevents", "io_pgetevents", "io_uring_enter"})
_DESCRIPTOR_BYTES = 4  # of struct pollfd, the first member

Missing = list[dict[str, str | None]]


@dataclass(frozen=True)
class Look:
    """One thread at one mark: its files as they were, the call it waits in, None where it runs or
    that may not be seen, and what it waits on, as the link of its descriptor."""

    stat: bytes
    schedstat: bytes | None
    call: str | None
    waits_on: str | None


@dataclass(frozen=True)
class Seen:
    """What is known of a thread from between the marks: the links of what it was seen waiting on,
    and whether it waited for reads and writes it had begun before."""

    name: str = ""
    waited_on: Collection[str] = ()
    waited_for_io: bool = False


def needs_process(target: Target) -> int:
    """The server's process. Raises Unavailable where it cannot be seen."""
    if target.pid is None:
        raise Unavailable(
            "the server's process cannot be seen",
            remedy="have millrace start the server itself, on this host",
        )
    return target.pid


class ThreadWatch:
    """Looks at a server's threads, twice, and then says of what kind each is.

    It has a session of its own, opened when it is made, where the server can tell anything of its
    threads.
    """

    def __init__(self, target: Target) -> None:
        self.pid = needs_process(target)
        self._ready_ticks = ready_ticks(target.instance)
        self._listening = sockets.listening(self.pid)
        self._own: frozenset[int] = frozenset()
        self._looks: list[Mapping[int, Look]] = []
        self._told: dict[int, Told] = {}
        self._lists_connections = False
        self._calls_seen = True
        self._own_seen = True
        self._questions = _questions(target.instance)
        self._session: Connection[Any] | None = None
        self._own_numbers: frozenset[int] = frozenset()
        if self._questions:
            self._session = target.instance.connect(limit_s=target.limit_s)
            self._own_numbers = frozenset({self._session.thread_id()})  # type: ignore[no-untyped-call]

    def look(self) -> Mapping[int, Look]:
        """Look at the threads now, at a mark."""
        self._ask()
        try:
            self._own = self._own | sockets.own()
        except OSError:
            self._own_seen = False
        looks = dict(self._each())
        self._looks.append(looks)
        return looks

    def sockets(self) -> Sockets:
        """The sockets that are not clients', as known until now."""
        return Sockets(self._listening, self._own)

    def kinds(self, seen: Mapping[int, Seen] | None = None) -> Mapping[int, Kind]:
        """The kind of each thread that was there at a mark or was seen in between."""
        seen = seen or {}
        server = Server(self.pid, self._ready_ticks, self._lists_connections, self._own_numbers)
        tids = {tid for looks in self._looks for tid in looks} | set(seen)
        return {tid: kind_of(self._thread(tid, seen.get(tid, Seen())), server) for tid in tids}

    def missing(self) -> Missing:
        """What could not be seen, and what to do about it."""
        found: Missing = []
        if not self._calls_seen:
            found.append(
                {
                    "what": "what the server's threads wait for, which tells those of clients",
                    "remedy": "run millrace as root or as the server's user; in a container, allow "
                    "it the capability SYS_PTRACE",
                }
            )
        if not self._own_seen:
            found.append(
                {
                    "what": "which of the server's sessions are millrace's own: they count as "
                    "clients'",
                    "remedy": "use a kernel with CONFIG_UNIX_DIAG",
                }
            )
        return found

    def close(self) -> None:
        if self._session is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                self._session.close()
            self._session = None

    def _ask(self) -> None:
        """Have the server tell of its threads; a question that it refuses is not asked again."""
        for question in self._questions[:]:
            if self._session is None:
                return
            try:
                with self._session.cursor() as cursor:
                    cursor.execute(question)
                    rows = cursor.fetchall()
            except (pymysql.ProgrammingError, pymysql.OperationalError, pymysql.InternalError):
                self._questions.remove(question)
                continue
            self._note(rows)

    def _note(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for tid, name, connection_id in rows:
            number = None if connection_id is None else int(connection_id)
            self._told[int(tid)] = Told(str(name), number)
            # A list without the session that asks for it is not one of all connections.
            self._lists_connections |= number in self._own_numbers

    def _each(self) -> Iterator[tuple[int, Look]]:
        tasks = f"/proc/{self.pid}/task"
        for name in os.listdir(tasks):  # noqa: PTH208 - quick, at a mark
            stat = proc.read_or_none(f"{tasks}/{name}/stat")
            if stat is None:
                continue  # it has just ended
            schedstat = proc.read_or_none(f"{tasks}/{name}/schedstat")
            yield int(name), Look(stat, schedstat, *self._wait(f"{tasks}/{name}/syscall"))

    def _wait(self, path: str) -> tuple[str | None, str | None]:
        """The call that a thread waits in, and the link of what it waits on."""
        try:
            call = proc.call(proc.read(path))
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError):
            self._calls_seen = False
            return None, None
        if call is None or call.number < 0:
            return None, None
        name = syscalls.names().get(call.number)
        descriptor: int | None = None
        if name in _ON_DESCRIPTOR:
            descriptor = call.arguments[0]
        elif name in _ON_LIST and call.arguments[1]:
            # The first of several is what a server's thread waits on: others wake it up.
            descriptor = self._first_of_list(call.arguments[0])
        return name, None if descriptor is None else self._link(descriptor)

    def _first_of_list(self, address: int) -> int | None:
        try:
            with Path(f"/proc/{self.pid}/mem").open("rb", buffering=0) as memory:
                memory.seek(address)
                return int.from_bytes(memory.read(_DESCRIPTOR_BYTES), "little")
        except (OSError, ValueError, OverflowError):
            return None

    def _link(self, descriptor: int) -> str | None:
        try:
            return str(Path(f"/proc/{self.pid}/fd/{descriptor}").readlink())
        except OSError:
            return None

    def _thread(self, tid: int, seen: Seen) -> Thread:
        looks = [look_of[tid] for look_of in self._looks if tid in look_of]
        links = {*seen.waited_on, *(look.waits_on for look in looks if look.waits_on is not None)}
        uses = frozenset(use for use in map(self.sockets().use, links) if use is not None)
        if not looks:  # it lived in between
            told = self._told.get(tid)
            return Thread(tid, seen.name, 0, True, told, uses, seen.waited_for_io)
        first, last = proc.stat(looks[0].stat), proc.stat(looks[-1].stat)
        lived_through = len(looks) == len(self._looks) and first.started_ticks == last.started_ticks
        return Thread(
            tid=tid,
            name=last.name,
            started_ticks=last.started_ticks,
            ran=not lived_through or _ran(looks[0], looks[-1]),
            told=self._told.get(tid),
            sockets=uses,
            waited_for_io=seen.waited_for_io or any(look.call in FOR_IO for look in looks),
        )


def ready_ticks(instance: Instance | AttachedInstance) -> int | None:
    """When a server was about to take connections, in ticks since boot; None where that is not
    known. Servers write their process number down at that moment."""
    if not isinstance(instance, Instance):
        return None
    try:
        written_s = instance.pid_file.stat().st_mtime
    except OSError:
        return None
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return int((written_s - booted_s) * os.sysconf("SC_CLK_TCK"))


def _questions(instance: Instance | AttachedInstance) -> list[str]:
    """What a server is asked of its threads."""
    server = instance.server
    if not isinstance(server, InstalledServer):
        return []
    version = version_key(server.version)
    asked = families.get(server.family).threads
    return [question for since, question in asked if version_key(since) <= version]


def _ran(first: Look, last: Look) -> bool:
    if first.schedstat is not None and last.schedstat is not None:
        return proc.schedstat(first.schedstat) != proc.schedstat(last.schedstat)
    before, after = proc.stat(first.stat), proc.stat(last.stat)
    ticks = (before.user_ticks + before.system_ticks, after.user_ticks + after.system_ticks)
    return ticks[0] != ticks[1]
