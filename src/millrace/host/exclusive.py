"""Lock a host so that only one measurement, of any user, runs on it at a time."""

import contextlib
import fcntl
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace import safe_json
from millrace.errors import HostError, UserError
from millrace.quantities import utc_now

# Not the user's own temporary directory: all users of the host must lock the same file.
HOST_LOCK = Path("/tmp/millrace-host.lock")  # noqa: S108 - opened without following links

# Set only by millrace's own tests: they run in parallel, and their measurements do not matter.
TESTS_VARIABLE = "MILLRACE_TESTS_HOST_LOCK"


@contextmanager
def host_lock(purpose: str, *, file: Path | None = None) -> Iterator[None]:
    """Hold the lock of this host for the block.

    ``purpose`` appears in the error of another process that requests the lock. The kernel releases
    the lock when this process ends. Raise UserError if another process holds the lock, and
    HostError if the lock file cannot be used.
    """
    file = file or lock_file()
    descriptor = _open(file)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another millrace measures on this host: {_read_holder(descriptor)}",
                hint="wait until that process has finished, or end it; two measurements at a time "
                "would disturb each other",
            ) from None
        _require_place(descriptor, file)
        _write_holder(descriptor, purpose)
        yield
    finally:
        os.close(descriptor)


def lock_file() -> Path:
    """Return the path of the lock file that all users of this host share."""
    return Path(os.environ.get(TESTS_VARIABLE) or HOST_LOCK)


def _open(file: Path) -> int:
    """Open the lock file, create it if missing, and return its descriptor.

    All users can write to /tmp, so millrace follows no symbolic link and accepts only a regular
    file with one hard link. It opens an existing file without O_CREAT, because the kernel refuses
    O_CREAT on another user's file (fs.protected_regular).
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(file, flags)
        except FileNotFoundError:
            try:
                descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(descriptor, 0o666)
            except FileExistsError:
                descriptor = os.open(file, flags)
    except OSError as error:
        raise _unusable(
            file, f"cannot be opened as the lock of this host: {error.strerror}"
        ) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        why = "not a regular file with one hard link, so it cannot be the lock of this host"
        raise _unusable(file, why)
    return descriptor


def _unusable(file: Path, why: str) -> HostError:
    return HostError(f"{file}: {why}", hint=f"remove {file} if no millrace process is running")


def _require_place(descriptor: int, file: Path) -> None:
    """Raise HostError if the locked file is no longer at its path, where other processes look.

    The owner of a file in /tmp can remove it, so root takes ownership of another user's file.
    """
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != 0:
        with contextlib.suppress(OSError):  # a file system without owners
            os.fchown(descriptor, 0, -1)
            os.fchmod(descriptor, 0o666)
    try:
        is_there = os.path.samestat(os.fstat(descriptor), file.lstat())
    except OSError:
        is_there = False
    if not is_there:
        raise HostError(
            f"{file}: the lock file of this host was removed while millrace locked it",
            hint="repeat the command",
        )


def _write_holder(descriptor: int, purpose: str) -> None:
    holder = {
        "pid": os.getpid(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        "purpose": purpose[:200],
        "since_utc": utc_now(),
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _read_holder(descriptor: int) -> str:
    """Return a description of the lock's holder, with printable characters only."""
    try:
        said = safe_json.parse_object(os.pread(descriptor, 4096, 0))
        text = f"process {said['pid']}, {said['command']!r}, {said['purpose']}"
        text += f", since {said['since_utc']}"
    except (ValueError, KeyError, TypeError):
        return "an unknown process"
    return "".join(character if character.isprintable() else "?" for character in text)
