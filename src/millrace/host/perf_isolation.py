"""Start the perf that reads a recording so that other users of the host cannot influence it.

Problem. For functions in memory that belongs to no file, perf reads names from
``/tmp/perf-PID.map``, whoever created that file. It may hold another user's names, be a link to a
file that only root may read, or be a pipe without an end. perf looks for the file for every sampled
process, and in the mount namespace of that process.

Solution. Where perf runs as root, it gets mounts of its own, all read-only, with its own ``/tmp``.
That holds only the directories of this user, because servers or perf itself may be there. Without
CAP_SYS_CHROOT perf cannot enter the mounts of another process. Of root's capabilities it keeps
those that read files and the kernel's symbols.
"""

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from millrace.host import mounts
from millrace.system_calls import checked, in_own_thread, libc

_PLACE = Path("/tmp")  # noqa: S108 - perf looks for maps there
_SIZE_BYTES = 64 << 20  # perf writes the code there that the kernel maps into each process

_PR_CAPBSET_DROP = 24
_CAP_DAC_READ_SEARCH, _CAP_SYSLOG = 2, 34


def popen(
    argv: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a perf that prints to a pipe, in a session of its own.

    Where the host allows no mount namespace, or this process is not root, perf starts in the mounts
    of the host. Raise OSError where it cannot start.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            env=env,
            cwd="/",
            start_new_session=True,
        )

    def isolate_and_start() -> subprocess.Popen[bytes]:
        with contextlib.suppress(OSError):
            mounts.take_own(_cover_tmp, writable=[_PLACE])
        with contextlib.suppress(OSError):
            _drop_capabilities()
        return start()

    return in_own_thread(isolate_and_start) if os.geteuid() == 0 else start()


def _cover_tmp() -> None:
    """Mount an empty directory over the shared ``/tmp``, and show this user's directories in it."""
    covered = os.open(_PLACE, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mounts.mount_empty(_PLACE, size_bytes=_SIZE_BYTES)
        for name in _own_directories(covered):
            (_PLACE / name).mkdir()
            with contextlib.suppress(FileNotFoundError):  # removed a moment ago
                mounts.bind(Path(f"/proc/self/fd/{covered}/{name}"), _PLACE / name)
    finally:
        os.close(covered)


def _own_directories(place: int) -> Iterator[str]:
    """Yield the names of this user's directories in an open directory, without links."""
    # A descriptor opened with O_PATH cannot list a directory.
    with os.scandir(f"/proc/self/fd/{place}") as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    yield entry.name


def _drop_capabilities() -> None:
    """Drop root's capabilities but reading from programs this thread starts. Raise OSError."""
    for capability in range(64):
        if capability in (_CAP_DAC_READ_SEARCH, _CAP_SYSLOG):
            continue
        try:
            checked(libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
        except OSError as error:
            if error.errno == errno.EINVAL:  # the kernel has no more of them
                return
            raise
