"""Find the kernel's tracing file system where it is mounted, or mount it privately.

Distributions mount it with systemd; containers and small virtual machines do not. Root then
attaches it to a descriptor instead of a directory (fsopen and fsmount, Linux 5.2). The mount ends
with the last descriptor, so a killed process leaves none behind.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.errors import Unavailable
from millrace.system_calls import call

_PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_NAME = "tracefs"

# The same numbers on all architectures from Linux 5.1 on; the C library names them since 2.36.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8

_AS_ROOT = (
    f"sudo mount -t {_NAME} {_NAME} {_PLACES[0]}; for a container, on its host, and start it with "
    f"--volume {_PLACES[0]}:{_PLACES[0]}"
)


@contextmanager
def opened() -> Iterator[Path]:
    """Yield the directory of the tracing file system. Raise Unavailable where it is forbidden."""
    writable = next((place for place in _PLACES if _may_use(place)), None)
    if writable is not None:
        yield writable
        return
    if not _is_supported():
        raise Unavailable("this kernel traces no events")
    if os.geteuid() != 0:
        raise Unavailable("only root may trace the kernel's events here", hint=_mount_command())
    try:
        descriptor = _mount_detached()
    except OSError as error:
        why = f"the kernel's tracing file system cannot be mounted: {error.strerror}"
        raise Unavailable(why, hint=_AS_ROOT) from error
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _may_use(place: Path) -> bool:
    return os.access(place / "instances", os.W_OK | os.X_OK, effective_ids=True)


def _is_supported() -> bool:
    try:
        return _NAME in Path("/proc/filesystems").read_text(encoding="ascii").split()
    except OSError:
        return False


def _mount_command() -> str:
    """Return the command that gives the current user access to the kernel's tracing."""
    user = os.geteuid()
    if os.path.ismount(_PLACES[0]):
        return f"sudo mount -o remount,uid={user},mode=700 {_PLACES[0]}"
    return f"sudo mount -t {_NAME} -o uid={user},mode=700 {_NAME} {_PLACES[0]}"


def _mount_detached() -> int:
    """Mount the file system at no directory and return a descriptor of its root."""
    context = call(_FSOPEN, _NAME.encode(), _FSOPEN_CLOEXEC)
    try:
        call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, _NOSUID | _NODEV | _NOEXEC)
    finally:
        os.close(context)
