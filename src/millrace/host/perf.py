"""Find and start the program perf, and report its features and the reasons for its failures.

Problem. For functions in JIT-compiled code, perf reads names from ``/tmp/perf-PID.map``, whoever
created that file. The file may have another user's names, be a link to a file that only root may
read, or be a pipe that never ends. perf looks for the file for every sampled process, in the mount
namespace of that process.

Solution. If perf runs as root, it gets a private mount namespace: all mounts are read-only, and
``/tmp`` has only this user's directories, because servers or perf itself may be there. perf keeps
only the capabilities for reading files and kernel symbols. Without CAP_SYS_CHROOT it cannot enter
the mount namespace of another process.
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
_TMP_BYTES = 64 << 20  # perf writes a copy of the vDSO there

_PR_CAPBSET_DROP = 24
_CAP_DAC_READ_SEARCH, _CAP_SYSLOG = 2, 34

FOR_WHOLE_CPUS, FOR_KERNEL = 0, 1

_ASK_LIMIT_S = 10.0


@dataclass(frozen=True)
class Perf:
    """A perf that runs on this host."""

    program: str
    unwinds: bool  # supports call stacks by DWARF
    has_control: bool  # --control: starts and stops recording on command
    has_size_limit: bool  # --max-size


def find() -> Perf:
    """Return the perf on PATH. Raise Unavailable if there is none or it does not run here."""
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
    """Return the environment for perf, without variables that change what or where it records."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "LC_ALL": "C", "PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": ""}


@contextlib.contextmanager
def reading(perf: Perf, arguments: Sequence[str], memory: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a perf process that prints a recording from a descriptor; end it after the block."""
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
    """Return the path by which a child process opens an inherited descriptor."""
    return f"/proc/self/fd/{memory}"


def refused(said: str) -> Unavailable:
    """Return the error for a perf that could not record, from its standard error."""
    lines = [line.strip() for line in said.splitlines()]
    telling = (line for line in lines if line not in ("", "Error:", "Events disabled"))
    why = next(telling, "it ended without a message")
    if re.search(r"(?i)permi|paranoi|limited", said):
        return Unavailable(
            f"perf is not permitted to sample the server: {why}", hint=rights(FOR_WHOLE_CPUS)
        )
    return Unavailable(f"perf cannot record: {why}")


def rights(wanted: int) -> str:
    """Return the hint for an operation that needs ``kernel.perf_event_paranoid`` <= ``wanted``."""
    return (
        "run millrace as root, give perf CAP_PERFMON and CAP_SYS_PTRACE, or set "
        f"kernel.perf_event_paranoid ({setting('perf_event_paranoid')} now) to {wanted}"
    )


def setting(name: str) -> str:
    """Return a kernel setting; ``unknown`` if it cannot be read."""
    try:
        return Path("/proc/sys/kernel", name).read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def _output(program: str, *arguments: str) -> tuple[int, str]:
    """Run perf; return its exit status and output, or -1 and an empty text if it cannot run."""
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
    """Start a perf that prints to a pipe, in its own session and isolated as described above.

    If this process is not root or the host does not allow mount namespaces, perf is not isolated.
    Raise OSError if it cannot start.
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
    """Mount an empty ``/tmp``, and bind-mount this user's directories of the shared one in it."""
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
    """Yield the names of this user's directories, but not links, in an open directory."""
    # A descriptor opened with O_PATH cannot list a directory.
    with os.scandir(f"/proc/self/fd/{place}") as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    yield entry.name


def _drop_capabilities() -> None:
    """Let programs that this thread starts keep only capabilities for reading. Raise OSError."""
    for capability in range(64):
        if capability in (_CAP_DAC_READ_SEARCH, _CAP_SYSLOG):
            continue
        try:
            checked(libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
        except OSError as error:
            if error.errno == errno.EINVAL:  # this kernel has no further capabilities
                return
            raise
