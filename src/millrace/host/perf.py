"""Find the program perf, and report its abilities and the reasons for its failures."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import Unavailable
from millrace.host import perf_isolation

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
    process = perf_isolation.popen(
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
