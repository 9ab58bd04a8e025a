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

# Only millrace's own tests set it: they run at the same time, and their measurements do not matter.
TESTS_VARIABLE = "MILLRACE_TESTS_HOST_LOCK"


@contextmanager
def host_lock(purpose: str, *, file: Path | None = None) -> Iterator[None]:
    """Lock this host for the block.

    Another process that asks for the lock meanwhile reads ``purpose`` in its error. The kernel
    releases the lock when the process ends, however it ends. Raise UserError, naming the holder,
    where another process holds the lock, and HostError where the file cannot be used.
    """
    file = file or lock_file()
    descriptor = _open(file)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another millrace measures on this host: {_read_holder(descriptor)}",
                hint="wait until it has finished, or end it; "
                "two measurements at a time would disturb each other",
            ) from None
        _require_place(descriptor, file)
        _write_holder(descriptor, purpose)
        yield
    finally:
        os.close(descriptor)


def lock_file() -> Path:
    """Return the lock file that all users of this host share."""
    return Path(os.environ.get(TESTS_VARIABLE) or HOST_LOCK)


def _open(file: Path) -> int:
    """Open the lock file, creating it where it is missing, and return its descriptor.

    All users can write /tmp, so millrace follows no link and uses only a regular file with one
    name. It opens an existing file without O_CREAT, which kernels refuse (fs.protected_regular) on
    a file of another user.
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
        why = "not a plain file with one name, so it cannot be the lock of this host"
        raise _unusable(file, why)
    return descriptor


def _unusable(file: Path, why: str) -> HostError:
    return HostError(f"{file}: {why}", hint=f"look at {file} and remove it if no millrace runs")


def _require_place(descriptor: int, file: Path) -> None:
    """Raise HostError unless the locked file is still at its path, where the next process looks.

    The owner of a file in /tmp can remove it; root takes ownership of another user's file.
    """
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != 0:
        with contextlib.suppress(OSError):  # the file system may have no owners
            os.fchown(descriptor, 0, -1)
            os.fchmod(descriptor, 0o666)
    try:
        is_there = os.path.samestat(os.fstat(descriptor), file.lstat())
    except OSError:
        is_there = False
    if not is_there:
        raise HostError(
            f"{file}: somebody removed the lock of this host while it was being locked",
            hint="try again",
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
    """Describe the holder of the lock, in printable characters only."""
    try:
        said = safe_json.parse_object(os.pread(descriptor, 4096, 0))
        text = f"process {said['pid']}, {said['command']!r}, {said['purpose']}"
        text += f", since {said['since_utc']}"
    except (ValueError, KeyError, TypeError):
        return "it has not said which process it is"
    return "".join(character if character.isprintable() else "?" for character in text)
