"""A recording of a server by perf: begun and ended at the marks of a trial, then read.

It is kept in memory that has no name: it writes to no disk that is measured, and is gone with the
last process that holds it. perf is started before the measured part, which it would disturb by
reading what is mapped into processes, and only told when that begins and ends; a perf that cannot
be told is started and ended at these moments. It is ended with us, however we end, but for one
case: the kernel forgets to tell it that we were killed where its file has capabilities and we are
not root. It then goes on until its memory is full or somebody ends it.

Whole CPUs are sampled where that is permitted, and the server's samples chosen afterwards. To
follow threads the kernel sets a timer or a counter whenever one of them gets a CPU: in a virtual
machine that took 22 % of the throughput of a client that reads single rows, 42 % at 997 Hz.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import psutil

from millrace.errors import Unavailable
from millrace.host import perf
from millrace.host.perf import Perf

CallGraph = Literal["fp", "dwarf", "none"]

_ALL_CPUS = "--all-cpus"

# Of memory; perf ends when it has recorded so much.
_LARGEST_BYTES = 1 << 30
_LARGEST_SHARE = 0.1

# Samples wait in the kernel until perf gets a CPU; a stack with each, and they are many bytes.
_WAITING_S = 1.0

_START_LIMIT_S = 20.0
_CONTROL_LIMIT_S = 5.0
_END_LIMIT_S = 30.0
_ASK_LIMIT_S = 10.0
_PRINT_LIMIT_S = 300.0
_REHEARSAL_S = 0.3

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Settings:
    """How to sample. Where calls are followed by DWARF, ``stack_bytes`` of the stack are kept with
    each sample."""

    frequency_hz: int
    call_graph: CallGraph
    stack_bytes: int = 0

    @property
    def buffer_bytes(self) -> int:
        """The next power of two to what a CPU yields while samples may wait."""
        wanted = int(self.frequency_hz * self.stack_bytes * _WAITING_S)
        return 1 << max(19, (wanted - 1).bit_length())

    def arguments(self) -> list[str]:
        frequency = f"--freq={self.frequency_hz}"
        if self.call_graph == "none":
            return [frequency]
        size = f",{self.stack_bytes}" if self.call_graph == "dwarf" else ""
        return [frequency, f"--call-graph={self.call_graph}{size}"]


@dataclass(frozen=True)
class Granted:
    """What the samples are of: perf and the kernel may allow less than was asked for.

    ``event`` ends in ``:u`` where it is counted outside of the kernel only.
    """

    event: str
    frequency_hz: int
    with_kernel: bool
    whole_cpus: bool


class Recording:
    """A recording of one process, from each ``begin`` to its ``end``; ``seconds`` is how long.

    ``was_cut`` says that perf ended by itself before that, because it had recorded so much. Every
    method raises Unavailable, with what perf said, where it cannot go on.
    """

    def __init__(self, by: Perf, pid: int, settings: Settings) -> None:
        """Make ready to record; takes tens of milliseconds, or a second on a crowded host."""
        self._perf = by
        self._pid = pid
        self._settings = settings
        self._recorder: _Recorder | None = None
        self._began_s = 0.0
        self.seconds = 0.0
        self.was_cut = False
        with contextlib.ExitStack() as opened:
            self._memory = os.memfd_create("profile")
            opened.callback(os.close, self._memory)
            opened.callback(self._drop_recorder)
            self._way = self._first_permitted()
            self._opened = opened.pop_all()

    @property
    def may_resume(self) -> bool:
        """Whether another ``begin`` adds to what is recorded: a perf that cannot be told starts
        anew, and one that has recorded so much is gone."""
        return self._perf.is_told and not self._running().has_ended_well()

    def begin(self) -> None:
        if self._perf.is_told:
            self._running().tell("enable", _CONTROL_LIMIT_S)
        else:
            self._start(self._way)
        self._began_s = time.monotonic()

    def end(self) -> None:
        """Stop sampling."""
        self.seconds += time.monotonic() - self._began_s
        if self._running().has_ended_well():
            self.was_cut = True
            self.seconds -= time.time() - os.fstat(self._memory).st_mtime
        elif self._perf.is_told:
            self._running().tell("disable", _CONTROL_LIMIT_S)
        else:
            self._running().interrupt()

    def close(self) -> None:
        """End perf and forget what it recorded."""
        self._opened.close()

    def granted(self) -> Granted:
        """What the samples are of."""
        self._finish()
        with perf.reading(self._perf, ["evlist", "--verbose"], self._memory) as process:
            try:
                said = process.communicate(timeout=_ASK_LIMIT_S)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                raise Unavailable("perf evlist does not answer") from None
        return granted(said, whole_cpus=_ALL_CPUS in self._way)

    def lines(self) -> Iterator[str]:
        """The samples as text, see folding.parse. Where calls are followed by DWARF, a thousand
        samples take a second. Inlined functions are not sought: that takes hours."""
        self._finish()
        arguments = ["script", "--fields=comm,tid,ip,sym,dso", "--no-inline", "--show-lost-events"]
        if _ALL_CPUS in self._way:
            arguments.append(f"--pid={self._pid}")
        with perf.reading(self._perf, arguments, self._memory) as process:
            alarm = threading.Timer(_PRINT_LIMIT_S, process.kill)
            alarm.daemon = True
            alarm.start()
            try:
                assert process.stdout is not None
                yield from io.TextIOWrapper(process.stdout, errors="replace")
                status = process.wait()
            finally:
                alarm.cancel()
        if status != 0:
            late = status == -signal.SIGKILL
            how = f"was not done after {_PRINT_LIMIT_S:g} s" if late else f"ended with {status}"
            raise Unavailable(f"perf script {how}")

    def _first_permitted(self) -> tuple[str, ...]:
        """What to sample, in the words of perf: the best that is permitted. perf waits for
        ``begin`` then, if it can. Of itself it takes another event where there is no counter of
        cycles, and leaves the kernel out where it must."""
        refusal: Unavailable | None = None
        threads = f"--pid={self._pid}"
        for way in (
            (_ALL_CPUS, "--event=cycles", f"--mmap-pages={self._settings.buffer_bytes}B"),
            (_ALL_CPUS, "--event=cycles"),
            (threads, "--event=cycles"),
            (threads, "--event=cpu-clock:u"),
        ):
            try:
                self._start(way)
                self._see_ready()
            except Unavailable as why:
                refusal = why
                self._drop_recorder()
            else:
                return way
        assert refusal is not None
        raise refusal

    def _see_ready(self) -> None:
        if self._perf.is_told:
            self._running().tell("disable", _START_LIMIT_S)
        else:
            self._running().rehearse()
            self._drop_recorder()

    def _start(self, way: tuple[str, ...]) -> None:
        os.ftruncate(self._memory, 0)
        # Build ids would be sought in all samples in the end, and the programs copied.
        arguments = [*way, *self._settings.arguments(), "--no-buildid", "--no-buildid-cache"]
        if self._perf.is_bounded:
            largest = min(_LARGEST_BYTES, _LARGEST_SHARE * psutil.virtual_memory().available)
            arguments.append(f"--max-size={largest:.0f}B")
        self._recorder = _Recorder(self._perf, arguments, self._memory)

    def _running(self) -> _Recorder:
        if self._recorder is None:
            raise Unavailable("perf was not begun")
        return self._recorder

    def _finish(self) -> None:
        """Have perf write what it still holds."""
        if self._recorder is not None:
            self._recorder.finish()
            self._drop_recorder()

    def _drop_recorder(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()


def granted(said: str, *, whole_cpus: bool) -> Granted:
    """What is in a recording, from what ``perf evlist --verbose`` said of it."""
    found = re.search(r"(?m)^(?!dummy)(\S+): .*?sample_freq \}: (\d+).*$", said)
    if found is None:
        raise Unavailable(f"perf does not tell what it recorded, but {said.strip()[:200]!r}")
    with_kernel = "exclude_kernel: 1" not in found[0]
    # Processors with two kinds of cores have an event for each.
    event = "cycles" if "cycles" in found[1] else found[1].partition(":")[0]
    return Granted(
        event=event if with_kernel else f"{event}:u",
        frequency_hz=int(found[2]),
        with_kernel=with_kernel,
        whole_cpus=whole_cpus,
    )


class _Recorder:
    """A perf record that runs, with the two pipes by which it is told and answers."""

    def __init__(self, by: Perf, arguments: list[str], memory: int) -> None:
        with contextlib.ExitStack() as opened:
            self._words = opened.enter_context(tempfile.TemporaryFile())
            with contextlib.ExitStack() as theirs:
                passed = [memory]
                if by.is_told:
                    commands, self._commands = os.pipe()
                    self._answers, answers = os.pipe()
                    for end in (commands, answers):
                        theirs.callback(os.close, end)
                    for end in (self._commands, self._answers):
                        opened.callback(os.close, end)
                    passed += [commands, answers]
                    arguments = [*arguments, "--delay=-1", f"--control=fd:{commands},{answers}"]
                program = [by.program, "record", f"--output={perf.path_of(memory)}", *arguments]
                wrapper = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
                self._process = subprocess.Popen(
                    [*wrapper, *program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    pass_fds=passed,
                    env=perf.environment(),
                    cwd="/",
                    start_new_session=True,
                )
            opened.callback(self._kill)
            self._opened = opened.pop_all()

    def tell(self, command: str, limit_s: float) -> None:
        """Tell perf what to do, and wait until it has done it."""
        deadline = time.monotonic() + limit_s
        said = b""
        try:
            os.write(self._commands, f"{command}\n".encode())
        except BrokenPipeError:
            raise self._refusal() from None
        while b"ack" not in said:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], left_s)[0]:
                raise Unavailable(f"perf does not {command} its sampling within {limit_s:g} s")
            part = os.read(self._answers, 64)
            if not part:
                raise self._refusal()
            said += part

    def rehearse(self) -> None:
        """See whether a perf that samples at once may do so."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REHEARSAL_S)
            raise self._refusal()

    def has_ended_well(self) -> bool:
        return self._process.poll() == 0

    def interrupt(self) -> None:
        """Have perf write what it holds, and end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def finish(self) -> None:
        """Wait for the end of an interrupted perf."""
        self.interrupt()
        try:
            status = self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"perf did not end within {_END_LIMIT_S:g} s") from None
        if status not in (0, -signal.SIGINT):
            raise self._refusal()

    def close(self) -> None:
        self._opened.close()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _refusal(self) -> Unavailable:
        """Why perf ended, in its own words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CONTROL_LIMIT_S)
        self._words.seek(0)
        return perf.refused(self._words.read().decode(errors="replace"))
