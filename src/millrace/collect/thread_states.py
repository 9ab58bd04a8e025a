"""Collect the states of the server's threads at random moments: running, or waiting, and for what.

The load generator's ``threads`` command samples the threads during the measured part. This module
assigns the samples the classes of the time breakdown.

Where the clients publish their statements on a board, each look at a thread that serves a client is
a look at its statement, too. The section's ``statements`` holds these looks, summed over the
``threads`` that serve clients. In its list ``states``, each pair of a ``statement`` (null: none was
executing) and a ``class`` has ``count``, ``seconds`` and ``during_sync``, as the states of a thread
have. ``statements`` is null where the statements of threads are unknown.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.collect.model import Missing, Target
from millrace.collect.threads import state_classes
from millrace.collect.threads.connection_map import seats
from millrace.collect.threads.state_classes import State, Surroundings
from millrace.collect.threads.thread_watch import FOR_IO, Seen, ThreadWatch, needs_process
from millrace.databases.monitoring import POOL
from millrace.errors import MillraceError, TrialFailed, Unavailable
from millrace.host import procfs, syscalls
from millrace.loadgen import program
from millrace.loadgen.statement_activity import Board

NAME = "states"
COST = (
    "a process beside the server that looks at all its threads at random moments, at most a "
    "hundredth of one CPU and a four hundredth of all, or less with many clients, down to a "
    "thousandth (the section tells how much it was); the server is never stopped"
)

_OF_ONE_CPU, _OF_ALL_CPUS, _LEAST_OF_ALL_CPUS = 0.01, 0.0025, 0.001
_READY_LIMIT_S = 10.0
_ANSWER_LIMIT_S = 30.0
_END_LIMIT_S = 2.0
_READ_BYTES = 1 << 16
_LACK = "which statement a thread works for, so that there is no account of each"
_OF_A_STATE = ("class", "syscall", "target", "wchan", "stack")


def budget(connections: int) -> float:
    """Return the share of one CPU that sampling may use.

    Where few CPUs do all the work, the server loses that share, and the same again by the
    disturbance. With many ``connections`` each look at all threads shows more, so fewer looks
    suffice.
    """
    of_all = max(_OF_ALL_CPUS / math.sqrt(connections), _LEAST_OF_ALL_CPUS)
    return min(_OF_ONE_CPU, of_all * (os.cpu_count() or 1))


class Sampler:
    """The load generator's ``threads`` command: it begins, ends, and then reports its counts."""

    def __init__(self, pid: int, connections: int) -> None:
        """Start the command and wait until it can begin. Raise Unavailable where it cannot."""
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self._rest = b""
        try:
            command = [str(program.find_load_generator()), "--die-with-parent", "threads"]
            self._process = subprocess.Popen(
                [*command, "--pid", str(pid), "--budget", f"{budget(connections):g}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                start_new_session=True,
            )
        except (OSError, MillraceError) as error:
            self._words.close()
            raise Unavailable(f"threads cannot be sampled: {error}") from error
        try:
            self._answer("ready", _READY_LIMIT_S)
        except BaseException:
            self.close()
            raise

    def order(self, what: str) -> None:
        """Send the command an order: to begin, to end or, before that, to look at a board."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{what}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def counts(self) -> Mapping[str, Any]:
        """Return the counts of the samples, after the order to end."""
        return self._answer("threads", _ANSWER_LIMIT_S)

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
        self._words.close()

    def _answer(self, kind: str, limit_s: float) -> Mapping[str, Any]:
        line = self._line(limit_s)
        try:
            answer: Mapping[str, Any] = json.loads(line)
        except json.JSONDecodeError as error:
            raise Unavailable(f"threads cannot be sampled: {error}") from error
        if answer["type"] != kind:
            raise Unavailable(f"threads cannot be sampled: {program.NAME} said {answer['type']!r}")
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
                raise Unavailable(
                    f"threads cannot be sampled: {program.NAME} did not answer in {limit_s:g} s"
                )
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
        self._words.seek(0)
        said = program.last_words(1 if status is None else status, self._words.read())
        if "unrecognized subcommand" in said:
            return Unavailable(
                f"threads cannot be sampled: this {program.NAME} has no command for it",
                hint="run `make setup`",
            )
        return Unavailable(f"threads cannot be sampled: {said}")


@dataclass
class States:
    """A collector of thread states, sampled between the marks."""

    watch: ThreadWatch
    sampler: Sampler
    binary_logs: Collection[str]
    written_through: Collection[str]
    board: Board | None = None
    port: int | None = None
    _seated: bool = False
    _lack: Missing = field(default_factory=list)

    def connected(self) -> None:
        """Let the sampler learn which thread waits for which client."""
        if self.board is not None:
            self._seat(self.board)

    def begin(self) -> None:
        self.watch.look()
        self.sampler.order("begin")

    def end(self) -> None:
        self.sampler.order("end")
        self.watch.look()

    def result(self) -> Mapping[str, Any]:
        counts = self.sampler.counts()
        kinds = self.watch.kinds({thread["tid"]: seen(thread) for thread in counts["threads"]})
        around = Surroundings(self.watch.sockets(), self.binary_logs, self.written_through)
        found = section(counts, kinds, around)
        if self._seated and found["statements"] is None:
            what = f"{_LACK}: none was seen to wait for a client's next request"
            self._lack = [{"what": what, "remedy": None}]
        return {NAME: found, "missing": [*self.watch.missing(), *self._lack]}

    def close(self) -> None:
        self.watch.close()
        self.sampler.close()

    def _seat(self, board: Board) -> None:
        """Order the sampler to look at the statements on the board.

        Where a client has a single statement, all of its time belongs to that one, so no looks are
        needed.
        """
        if len(board.statements()) < 2:
            return
        if self.watch.serving == POOL:
            self._lack = [{"what": f"{_LACK}: clients share a pool of threads", "remedy": None}]
            return
        slots = seats(board, self.watch.pid, self.port)
        if slots:
            self._seated = True
            self.sampler.order(f"board {json.dumps({'path': str(board.path), 'slots': slots})}")
        else:
            what = f"{_LACK}: the other ends of the server's sockets are not told"
            self._lack = [{"what": what, "remedy": "use a kernel with CONFIG_UNIX_DIAG"}]


def collector(target: Target) -> States:
    """Create the collector. Raise Unavailable where the server's threads are not accessible."""
    pid = needs_process(target)
    binary_logs = frozenset(_binary_logs(target))
    watch = ThreadWatch(target)
    try:
        around = Surroundings(watch.sockets(), binary_logs)
        written_through = frozenset(_written_through(pid, around))
        return States(
            watch,
            Sampler(pid, target.connections),
            binary_logs,
            written_through,
            target.board,
            target.instance.port,
        )
    except BaseException:
        watch.close()
        raise


def seen(thread: Mapping[str, Any]) -> Seen:
    """Return the evidence for a thread's kind in its states."""
    states = thread["states"]
    calls = {syscalls.names().get(state["syscall"]) for state in states}
    return Seen(
        name=thread["name"],
        waited_on={state["target"] for state in states if state["target"] is not None},
        waited_for_io=not FOR_IO.isdisjoint(calls),
    )


def section(
    counts: Mapping[str, Any], kinds: Mapping[int, str], around: Surroundings
) -> dict[str, Any]:
    """Return the document's section, from the sampler's counts."""
    return {
        **{name: counts[name] for name in ("rate_hz", "ticks", "cpu_s", "realtime")},
        "threads": [
            {
                "tid": thread["tid"],
                "name": thread["name"],
                "kind": kinds.get(thread["tid"], "background"),
                "ticks": thread["ticks"],
                "states": _states(thread["states"], around),
            }
            for thread in counts["threads"]
        ],
        "statements": _statements(counts["threads"], around),
    }


def _statements(
    threads: Collection[Mapping[str, Any]], around: Surroundings
) -> dict[str, Any] | None:
    """Return the looks at statements, summed over all threads; None where there were none."""
    looked_at = [thread["statements"] for thread in threads if thread["statements"]]
    if not looked_at:
        return None
    by_name: defaultdict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for statements in looked_at:
        for each in statements:
            by_name[each["statement"]] += each["states"]
    return {
        "threads": len(looked_at),
        "states": [
            {"statement": name, **summed}
            for name, raw in by_name.items()
            for summed in _states(raw, around, ("class",))
        ],
    }


def _states(
    raw: Collection[Mapping[str, Any]], around: Surroundings, names: Sequence[str] = _OF_A_STATE
) -> list[dict[str, Any]]:
    """Return the states by class and the other fields in ``names``, the most frequent first.

    States that are equal in these fields are merged.
    """
    count: Counter[tuple[str | None, ...]] = Counter()
    during_sync: Counter[tuple[str | None, ...]] = Counter()
    seconds: defaultdict[tuple[str | None, ...], float] = defaultdict(float)
    for state in raw:
        did = state_classes.doing(State(state["state"], state["syscall"], state["target"]), around)
        told = (did.state_class, did.syscall, did.target, state["wchan"], state["stack"])
        known = dict(zip(_OF_A_STATE, told, strict=True))
        key = tuple(known[name] for name in names)
        count[key] += state["count"]
        during_sync[key] += state["during_sync"]
        seconds[key] += state["seconds"]
    return [
        {
            **dict(zip(names, key, strict=True)),
            "count": n,
            "seconds": seconds[key],
            "during_sync": during_sync[key],
        }
        for key, n in count.most_common()
    ]


def _binary_logs(target: Target) -> Iterator[str]:
    """Yield the base names of the server's binary logs; nothing where it keeps none."""
    with contextlib.suppress(TrialFailed):
        for name in target.instance.family.monitoring.change_logs(target.instance):
            yield state_classes.binary_log(name)


def _written_through(pid: int, around: Surroundings) -> Iterator[str]:
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
                yield state_classes.target_of(link, around)
