"""Find the program perf, start it, and report its abilities and the reasons for its failures.

Problem. For functions in memory that belongs to no file, the perf that reads a recording takes
names from ``/tmp/perf-PID.map``, whoever created that file. It may hold another user's names, be a
link to a file that only root may read, or be a pipe without an end. perf looks for the file for
every sampled process, and in the mount namespace of that process.

Solution. Where perf runs as root, it gets mounts of its own, all read-only, with its own ``/tmp``.
That holds only the directories of this user, because servers or perf itself may be there. Without
CAP_SYS_CHROOT perf cannot enter the mounts of another process. Of root's capabilities it keeps
those that read files and the kernel's symbols.
"""

import contextlib
import errno
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import Unavailable
from millrace.host import mounts
from millrace.system_calls import checked, in_own_thread, libc

_TMP = Path("/tmp")  # noqa: S108 - perf looks for maps there
_TMP_BYTES = 64 << 20  # perf writes the code there that the kernel maps into each process

_PR_CAPBSET_DROP = 24
_CAP_DAC_READ_SEARCH, _CAP_SYSLOG = 2, 34

FOR_WHOLE_CPUS, FOR_KERNEL = 0, 1

_ASK_LIMIT_S = 10.0


@dataclass(frozen=True)
class Perf:
    """A perf that runs on this host."""

    program: str
    unwinds: bool  # it follows calls by DWARF
    has_control: bool  # --control: it starts in advance, begins and ends on command
    has_size_limit: bool  # --max-size


def find() -> Perf:
    """Return the perf on PATH. Raise Unavailable for none, or one for another kernel."""
    program = shutil.which("perf")
    if program is None:
        raise Unavailable(
            "the program perf is not installed",
            hint="install the package linux-perf (Debian), linux-tools-generic (Ubuntu) or perf",
        )
    status, built = _output(program, "version", "--build-options")
    if status != 0:
        raise Unavailable(
            f"{program} does not run on this kernel",
            hint=f"install the perf of Linux {os.uname().release}",
        )
    _, offered = _output(program, "record", "-h")
    return Perf(
        program=program,
        unwinds=re.search(r"(?mi)^\s*(libunwind|libdw\S*)\s*:\s*\[\s*on", built) is not None,
        has_control="--control" in offered,
        has_size_limit="--max-size" in offered,
    )


def environment() -> dict[str, str]:
    """Return every perf's environment, without settings that change what or where it records."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "LC_ALL": "C", "PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": ""}


@contextlib.contextmanager
def reading(perf: Perf, arguments: Sequence[str], memory: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a perf that prints the recording in a descriptor; end it after the block."""
    process = popen_isolated(
        [perf.program, *arguments, f"--input={path_of(memory)}"],
        pass_fds=[memory],
        env=environment(),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def path_of(memory: int) -> str:
    """Return the path by which a child opens a descriptor that was passed to it."""
    return f"/proc/self/fd/{memory}"


def refused(said: str) -> Unavailable:
    """Return the reason why perf could not record, from its standard error."""
    lines = [line.strip() for line in said.splitlines()]
    telling = (line for line in lines if line not in ("", "Error:", "Events disabled"))
    why = next(telling, "it ended without a word")
    if re.search(r"(?i)permi|paranoi|limited", said):
        return Unavailable(
            f"perf is not permitted to sample the server: {why}", hint=rights(FOR_WHOLE_CPUS)
        )
    return Unavailable(f"perf cannot record: {why}")


def rights(wanted: int) -> str:
    """Return the hint for work that needs ``kernel.perf_event_paranoid`` at most ``wanted``."""
    return (
        "run millrace as root, give perf CAP_PERFMON and CAP_SYS_PTRACE, or set "
        f"kernel.perf_event_paranoid ({setting('perf_event_paranoid')} now) to {wanted}"
    )


def setting(name: str) -> str:
    """Return a setting of the kernel; ``unknown`` where it cannot be read."""
    try:
        return Path("/proc/sys/kernel", name).read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _output(program: str, *arguments: str) -> tuple[int, str]:
    """Run perf and return its exit status and its output; -1 and no text where it cannot run."""
    try:
        ran = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ASK_LIMIT_S,
            env=environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1, ""
    return ran.returncode, ran.stdout.decode(errors="replace")


def popen_isolated(
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
            mounts.take_own(_cover_tmp, writable=[_TMP])
        with contextlib.suppress(OSError):
            _drop_capabilities()
        return start()

    return in_own_thread(isolate_and_start) if os.geteuid() == 0 else start()


def _cover_tmp() -> None:
    """Mount an empty directory over the shared ``/tmp``, and show this user's directories in it."""
    covered = os.open(_TMP, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mounts.mount_empty(_TMP, size_bytes=_TMP_BYTES)
        for name in _own_directories(covered):
            (_TMP / name).mkdir()
            with contextlib.suppress(FileNotFoundError):  # removed a moment ago
                mounts.bind(Path(f"/proc/self/fd/{covered}/{name}"), _TMP / name)
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
