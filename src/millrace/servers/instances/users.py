"""Reserve users for servers: if millrace is root, each instance has its own user id.

A server is not trusted, so its user must own nothing else and share nothing with another instance.
``nobody`` and ``mysql`` are unsuitable, because other services of the host may run as them. An id
comes from a range that no distribution assigns; it must have no passwd entry and no process. The
file ``/run/millrace-users/ID`` is locked (flock) while the id is in use, so two millrace processes
never take the same id. The kernel releases the lock when the process ends.

The kernel's keyrings of a user id outlive its processes, so the next instance with that id would
find the keys of an earlier server. They are removed. If the kernel has no keyrings, or denies them
to this process (as most containers do), servers have none either.
"""

import contextlib
import fcntl
import grp
import os
import pwd
import random
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

from millrace.errors import HostError
from millrace.system_calls import call, in_own_thread

# https://systemd.io/UIDS-GIDS: between the ranges of systemd-homed and of its dynamic users.
IDS = range(60_706, 61_184)
_NOBODY = IDS.start - 1  # an id under which nothing ever runs

_SETRESUID = 117 if os.uname().machine == "x86_64" else 147  # the number of aarch64 and newer ones

_RESERVATIONS = Path("/run/millrace-users")


@contextlib.contextmanager
def reserved(*, spared: Collection[int] = ()) -> Iterator[int | None]:
    """Reserve an unused user id, which is also used as a group id, until the block ends.

    ``spared`` are ids that must not be taken. Yield None if this process cannot become another
    user: it is not root, or root of a user namespace without other users.
    """
    ids = usable()
    if not ids:
        yield None
        return
    random.SystemRandom().shuffle(ids)
    for uid in ids:
        if uid in spared or _is_named(uid):
            continue
        with held(uid) as ours:
            # Also kill processes that /proc does not list: only servers have these ids.
            if ours and not pids_of(uid):
                kill_all(uid)
                _clear_keys(uid)
                try:
                    yield uid
                finally:
                    _clear_keys(uid)
                return
    raise HostError(
        f"no free user id for a server between {IDS.start} and {IDS.stop - 1}",
        hint="end processes of these users; `ps -eo uid,pid,args` lists them",
    )


@contextlib.contextmanager
def held(uid: int) -> Iterator[bool]:
    """Yield whether the id could be reserved for this block; False if another process has it."""
    try:
        _RESERVATIONS.mkdir(mode=0o755, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(_RESERVATIONS / str(uid), flags, 0o600)
    except OSError as error:
        raise HostError(
            f"{_RESERVATIONS / str(uid)}: cannot reserve a user id for a server: {error.strerror}",
            hint=f"make {_RESERVATIONS.parent} writable for root, "
            "or run millrace as an ordinary user",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def kill_all(uid: int) -> None:
    """Kill all processes of the user id at once.

    The kernel signals all of them and delays forks meanwhile. Reading ``/proc`` would miss a
    process that forks and exits quickly. A thread of this process sends the signal: it has the id
    as its effective id, and a real id that no process has. So nobody can signal or trace the
    thread, and its signal reaches no other user.
    """

    def kill() -> None:
        call(_SETRESUID, _NOBODY, uid, 0)  # the C library's function would change all threads
        try:
            os.kill(-1, signal.SIGKILL)
        finally:
            call(_SETRESUID, 0, 0, 0)

    with contextlib.suppress(ProcessLookupError):  # no process
        in_own_thread(kill)


def _clear_keys(uid: int) -> None:
    """Remove the kernel keys of the id, which has no process."""

    def clear() -> None:
        call(_SETRESUID, uid, uid, 0)
        try:
            for keyring in (_OF_THE_USER, _OF_THE_USERS_SESSIONS):
                with contextlib.suppress(OSError):
                    call(_KEYCTL, _CLEAR, keyring)
            with contextlib.suppress(OSError):  # many kernels have no persistent keyrings
                call(_KEYCTL, _CLEAR, call(_KEYCTL, _GET_PERSISTENT, -1, _OF_THIS_PROCESS))
        finally:
            call(_SETRESUID, 0, 0, 0)

    in_own_thread(clear)


def pids_of(uid: int) -> list[int]:
    """Return the processes that run under the id, without zombies."""
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return [pid for pid in pids if runs_under(pid, uid)]


def runs_under(pid: int, uid: int) -> bool:
    """Return whether the real, effective, saved or file system id of a process is this one."""
    try:
        text = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False
    status = {key: value for key, _, value in (line.partition(b":") for line in text.splitlines())}
    # The first thread may have ended while others still run.
    has_ended = status[b"State"].strip()[:1] in b"ZX" and int(status[b"Threads"]) <= 1
    return not has_ended and uid in map(int, status[b"Uid"].split())


def usable() -> list[int]:
    """Return the ids of the range that this process can assume; none if it is not root."""
    if os.geteuid() != 0:
        return []
    mapped = [_mapped(Path(f"/proc/self/{kind}_map")) for kind in ("uid", "gid")]
    ids = (_NOBODY, *IDS)
    there = [uid for uid in ids if all(any(uid in each for each in every) for every in mapped)]
    return there[1:] if there[:1] == [_NOBODY] else []


def _mapped(file: Path) -> list[range]:
    lines = [tuple(map(int, line.split())) for line in file.read_text("ascii").splitlines()]
    return [range(first, first + count) for first, _, count in lines]


def _is_named(uid: int) -> bool:
    with contextlib.suppress(KeyError):
        pwd.getpwuid(uid)
        return True
    with contextlib.suppress(KeyError):
        grp.getgrgid(uid)
        return True
    return False


_KEYCTL = 250 if os.uname().machine == "x86_64" else 219  # the number of aarch64 and newer ones
_JOIN_SESSION, _CLEAR, _GET_PERSISTENT = 1, 7, 22
_OF_THIS_PROCESS, _OF_THE_USER, _OF_THE_USERS_SESSIONS = -2, -4, -5


def leave_session_keyring() -> None:
    """Give this thread, and the processes it starts, a session keyring of its own."""
    with contextlib.suppress(OSError):
        call(_KEYCTL, _JOIN_SESSION, None)
