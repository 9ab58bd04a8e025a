"""Trace kernel events (the scheduler's, or system calls) in a private trace instance.

An instance is a directory in the tracing file system (tracefs) with its own buffers; removing the
directory ends it. If a process is killed, the next process removes the instance left behind.

Most distributions mount tracefs at boot; containers and small virtual machines do not. In that
case, root mounts it to a descriptor instead of a directory (fsopen and fsmount, Linux 5.2). The
mount ends with the last descriptor, so a killed process leaves no mount behind.
"""

import contextlib
import errno
import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from millrace.errors import Unavailable
from millrace.system_calls import call

_PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_TRACEFS = "tracefs"

# These numbers are the same on all architectures; glibc has functions for them since 2.36.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8

_AS_ROOT = (
    f"sudo mount -t {_TRACEFS} {_TRACEFS} {_PLACES[0]}; for a container, on its host, and start it "
    f"with --volume {_PLACES[0]}:{_PLACES[0]}"
)

_NAME = re.compile(r"millrace-(\d+)-\d+")
_OVERRUN = re.compile(r"(?m)^(?:overrun|dropped events): (\d+)")
_numbers = itertools.count()

# For all CPUs together: an event takes about 80 bytes.
_BUFFERS_KB = 8 << 10
_LEAST_BUFFER_KB = 256

_RIGHTS = "run millrace as root, or give its user write permission for /sys/kernel/tracing"
_HOST_NUMBERS = "start the container in the pid namespace of its host: docker run --pid=host"
_OF_THE_HOST = "pid:[4026531836]"  # the initial pid namespace, the same in every kernel


@contextmanager
def opened_tracefs() -> Iterator[Path]:
    """Yield the directory of the tracing file system. Raise Unavailable if it cannot be used."""
    writable = next((place for place in _PLACES if _may_use(place)), None)
    if writable is not None:
        yield writable
        return
    if not _is_supported():
        raise Unavailable("this kernel does not support event tracing")
    if os.geteuid() != 0:
        raise Unavailable("permission denied to trace kernel events", hint=_mount_command())
    try:
        descriptor = _mount_detached()
    except OSError as error:
        why = f"cannot mount the kernel's tracing file system: {error.strerror}"
        raise Unavailable(why, hint=_AS_ROOT) from error
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _may_use(place: Path) -> bool:
    return os.access(place / "instances", os.W_OK | os.X_OK, effective_ids=True)


def _is_supported() -> bool:
    try:
        return _TRACEFS in Path("/proc/filesystems").read_text(encoding="ascii").split()
    except OSError:
        return False


def _mount_command() -> str:
    """Return the command that gives the current user access to kernel tracing."""
    user = os.geteuid()
    if os.path.ismount(_PLACES[0]):
        return f"sudo mount -o remount,uid={user},mode=700 {_PLACES[0]}"
    return f"sudo mount -t {_TRACEFS} -o uid={user},mode=700 {_TRACEFS} {_PLACES[0]}"


def _mount_detached() -> int:
    """Mount tracefs without a directory; return a descriptor of its root."""
    context = call(_FSOPEN, _TRACEFS.encode(), _FSOPEN_CLOEXEC)
    try:
        call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, _NOSUID | _NODEV | _NOEXEC)
    finally:
        os.close(context)


class Tracing:
    """A trace of kernel events of one ``system``; ``close`` discards it."""

    def __init__(self, events: Collection[str], system: str = "sched") -> None:
        """Prepare a trace without starting it. Raise Unavailable if tracing is not permitted."""
        self._events = [f"events/{system}/{event}" for event in events]
        with contextlib.ExitStack() as opened:
            self._directory = _create_instance(opened)
            self._opened = opened.pop_all()
        try:
            self._write("trace_clock", "mono")
            # Events contain thread names; recording the names of every switch, too, would double
            # the overhead.
            self._write("trace_options", "norecord-cmd")
            self._write("tracing_on", "0")
            size_kb = max(_BUFFERS_KB // (os.cpu_count() or 1), _LEAST_BUFFER_KB)
            self._write("buffer_size_kb", str(size_kb))
        except OSError as error:
            self.close()
            raise Unavailable(f"cannot set up a kernel trace: {error}") from error

    def follow(self, threads: Collection[int]) -> None:
        """Record only events of these threads and of threads that they start."""
        self._write("set_event_pid", " ".join(map(str, threads)))
        self._write("options/event-fork", "1")

    def set_filters(self, filters: Mapping[str, str]) -> None:
        """Record only events that match their filter; ``filters`` maps event names to filters."""
        for event, text in filters.items():
            self._write(f"events/sched/{event}/filter", text)

    def start(self) -> None:
        """Enable all events, then start recording: enabling an event takes milliseconds."""
        for event in self._events:
            self._write(f"{event}/enable", "1")
        self._write("tracing_on", "1")

    def stop(self) -> None:
        self._write("tracing_on", "0")
        for event in self._events:
            self._write(f"{event}/enable", "0")

    def text(self) -> str:
        """Return the recorded events, one per line; comments begin with #."""
        return (self._directory / "trace").read_text(encoding="utf-8", errors="replace")

    def lost(self) -> int:
        """Return the number of events lost because the buffers were full."""
        stats = self._directory.glob("per_cpu/cpu*/stats")
        return sum(int(number) for each in stats for number in _OVERRUN.findall(each.read_text()))

    def close(self) -> None:
        self._opened.close()

    def _write(self, name: str, text: str) -> None:
        with (self._directory / name).open("w", encoding="ascii") as file:
            file.write(text)


def check() -> None:
    """Raise Unavailable if scheduler events cannot be traced; nothing changes."""
    with contextlib.ExitStack() as opened:
        _instances(opened)


def _create_instance(opened: contextlib.ExitStack) -> Path:
    """Create an instance that is removed when ``opened`` closes."""
    instances = _instances(opened)
    try:
        _remove_orphans(instances)
        made = instances / f"millrace-{os.getpid()}-{next(_numbers)}"
        made.mkdir()
    except OSError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        raise Unavailable(
            f"cannot create a kernel trace instance: {error}", hint=_RIGHTS if refused else None
        ) from error
    opened.callback(_removed, made)
    return made


def _instances(opened: contextlib.ExitStack) -> Path:
    """Return the directory of all instances, usable until ``opened`` closes."""
    if not is_in_host_pid_namespace():
        raise Unavailable("kernel events have other process ids here", hint=_HOST_NUMBERS)
    return opened.enter_context(opened_tracefs()) / "instances"


def _removed(instance: Path) -> None:
    with contextlib.suppress(OSError):
        instance.rmdir()


def is_in_host_pid_namespace() -> bool:
    """Return whether process ids here are the same as in kernel events."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _OF_THE_HOST
    except OSError:
        return False


def _remove_orphans(instances: Path) -> None:
    """Remove instances whose process has ended."""
    for left in instances.iterdir():
        owner = _NAME.fullmatch(left.name)
        if owner and not Path("/proc", owner[1]).exists():
            _removed(left)
