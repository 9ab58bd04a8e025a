"""Record a server with perf between the marks of a trial, then read the recording.

The recording lies in memory without a name: it writes to no measured disk, and ends with the last
process that holds it. perf starts before the measured part, because at its start it reads the
mappings of all processes, which would disturb. At the marks it only gets the commands to begin and
to end. A perf without ``--control`` starts and ends at the marks themselves. perf ends with
millrace, however millrace ends, with one exception: where perf's file has capabilities and millrace
does not run as root, the kernel does not signal perf when millrace is killed. perf then goes on
until its memory is full or a user ends it.

Where permitted, perf samples whole CPUs, and millrace selects the server's samples afterwards. To
follow threads the kernel sets a timer or a counter whenever one of them gets a CPU. In a virtual
machine that took 22 % of the throughput of a client that reads single rows, and 42 % at 997 Hz.
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

# The limits of the recording in memory; perf ends when it reaches them.
_LARGEST_BYTES = 1 << 30
_LARGEST_SHARE = 0.1

# Samples wait in the kernel until perf gets a CPU; each carries a stack, so they take many bytes.
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
    """The settings of a recording; ``stack_bytes`` of each sample's stack are kept for DWARF."""

    frequency_hz: int
    call_graph: CallGraph
    stack_bytes: int = 0

    @property
    def buffer_bytes(self) -> int:
        """The bytes that a CPU produces while samples may wait, rounded up to a power of two."""
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
    """The actual kind of samples: perf and the kernel may permit less than requested.

    ``event`` ends in ``:u`` where it is counted only outside of the kernel.
    """

    event: str
    frequency_hz: int
    with_kernel: bool
    whole_cpus: bool


class Recording:
    """A recording of one process, from each ``begin`` to its ``end``, of ``seconds`` in all.

    ``was_cut`` says that perf ended early at the size limit. Every method raises Unavailable, with
    perf's own message, where it cannot go on.
    """

    def __init__(self, by: Perf, pid: int, settings: Settings, *, recordings: int = 1) -> None:
        """Prepare to record; this takes tens of milliseconds, or a second on a crowded host.

        This is one of some ``recordings`` at the same time, which share the memory.
        """
        self._largest_share = _LARGEST_SHARE / recordings
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
        """Return whether another ``begin`` adds to it: without ``--control`` it starts over."""
        return self._perf.has_control and not self._running().has_ended_well()

    def begin(self) -> None:
        if self._perf.has_control:
            self._running().send("enable", _CONTROL_LIMIT_S)
        else:
            self._start(self._way)
        self._began_s = time.monotonic()

    def end(self) -> None:
        """Stop sampling."""
        self.seconds += time.monotonic() - self._began_s
        recorder = self._running()
        if not recorder.has_ended_well():
            if not self._perf.has_control:
                recorder.interrupt()
                return
            try:
                recorder.send("disable", _CONTROL_LIMIT_S)
            except Unavailable:
                if not recorder.has_ended_well():  # at the size limit, instead of an answer
                    raise
            else:
                return
        self.was_cut = True
        self.seconds -= time.time() - os.fstat(self._memory).st_mtime

    def close(self) -> None:
        """End perf and discard the recording."""
        self._opened.close()

    def granted(self) -> Granted:
        """Return the actual kind of samples."""
        self._finish()
        with perf.reading(self._perf, ["evlist", "--verbose"], self._memory) as process:
            try:
                said = process.communicate(timeout=_ASK_LIMIT_S)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                raise Unavailable("perf evlist does not answer") from None
        return granted(said, whole_cpus=_ALL_CPUS in self._way)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the samples as text; see folding.parse.

        Where perf follows calls by DWARF, a thousand samples take a second. Inlined functions are
        left out: finding them takes hours.
        """
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
        """Start perf with the best permitted events, and return them as arguments of perf.

        perf then waits for ``begin``, if it can. On its own it takes another event where there is
        no counter of cycles, and leaves the kernel out where it must.
        """
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
                self._require_ready()
            except Unavailable as why:
                refusal = why
                self._drop_recorder()
            else:
                return way
        assert refusal is not None
        raise refusal

    def _require_ready(self) -> None:
        if self._perf.has_control:
            self._running().send("disable", _START_LIMIT_S)
        else:
            self._running().rehearse()
            self._drop_recorder()

    def _start(self, way: tuple[str, ...]) -> None:
        os.ftruncate(self._memory, 0)
        # Otherwise perf would look for build ids in all samples at the end, and copy the programs.
        arguments = [*way, *self._settings.arguments(), "--no-buildid", "--no-buildid-cache"]
        if self._perf.has_size_limit:
            available = psutil.virtual_memory().available
            largest = min(_LARGEST_BYTES, self._largest_share * available)
            arguments.append(f"--max-size={largest:.0f}B")
        self._recorder = _Recorder(self._perf, arguments, self._memory)

    def _running(self) -> _Recorder:
        if self._recorder is None:
            raise Unavailable("perf was not begun")
        return self._recorder

    def _finish(self) -> None:
        """Make perf write the rest of its samples."""
        if self._recorder is not None:
            self._recorder.finish()
            self._drop_recorder()

    def _drop_recorder(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()


def granted(said: str, *, whole_cpus: bool) -> Granted:
    """Return the kind of samples in a recording, from the output of ``perf evlist --verbose``."""
    found = re.search(r"(?m)^(?!dummy)(\S+): .*?sample_freq \}: (\d+).*$", said)
    if found is None:
        raise Unavailable(f"perf does not tell what it recorded, but {said.strip()[:200]!r}")
    with_kernel = "exclude_kernel: 1" not in found[0]
    # Processors with two kinds of cores have one event for each kind.
    event = "cycles" if "cycles" in found[1] else found[1].partition(":")[0]
    return Granted(
        event=event if with_kernel else f"{event}:u",
        frequency_hz=int(found[2]),
        with_kernel=with_kernel,
        whole_cpus=whole_cpus,
    )


class _Recorder:
    """A running perf record, with a pipe for its commands and one for its answers."""

    def __init__(self, by: Perf, arguments: list[str], memory: int) -> None:
        with contextlib.ExitStack() as opened:
            self._stderr = opened.enter_context(tempfile.TemporaryFile())
            with contextlib.ExitStack() as theirs:
                passed = [memory]
                if by.has_control:
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
                    stderr=self._stderr,
                    pass_fds=passed,
                    env=perf.environment(),
                    cwd="/",
                    start_new_session=True,
                )
            opened.callback(self._kill)
            self._opened = opened.pop_all()

    def send(self, command: str, limit_s: float) -> None:
        """Send perf a command, and wait until perf has executed it."""
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
        """Check that a perf that samples at once is permitted to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REHEARSAL_S)
            raise self._refusal()

    def has_ended_well(self) -> bool:
        return self._process.poll() == 0

    def interrupt(self) -> None:
        """Make perf write its samples, and end."""
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
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CONTROL_LIMIT_S)
        self._stderr.seek(0)
        return perf.refused(self._stderr.read().decode(errors="replace"))
