"""Run the user's own package clients, which know this host's mirrors, proxies and passwords."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from millrace.errors import HostError, NotServed
from millrace.model.events import DownloadMoved, OnEvent
from millrace.servers.instances.signals import signals_held
from millrace.shared_directories import is_closed

_PACKAGE_OF = {
    "mvn": "maven",
    "npm": "npm",
    "apt-get": "apt",
    "apt-cache": "apt",
    "dpkg-deb": "dpkg",
    "zstd": "zstd",
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MARK = re.compile(r"\[ERROR\] \S|npm (ERR!|error) |E: ")
# The messages of npm, mvn and apt for a package that the registry does not have.
_NOT_THERE = re.compile(r"E404|404 +Not Found|Could not find artifact|was not found in http", re.I)
_OURS = "MILLRACE_"
_POLL_S = 0.2
_GRACE_S = 10


def require(program: str, purpose: str) -> str:
    """Return the path of a program. Raise HostError with the package to install."""
    path = shutil.which(program)
    if path is None:
        raise HostError(
            f"{program} is not installed; millrace needs it {purpose}",
            hint=f"install {program} (on Debian: apt install {_PACKAGE_OF[program]}) and try again",
        )
    return path


def directory_of_settings() -> Path:
    """Return the directory to run clients in, where they find the settings of a project.

    mvn and npm read ``.mvn`` and ``.npmrc`` there and in its parents, and these settings can run
    programs. So return the current directory only if no other user can have left settings there;
    otherwise the root directory.
    """
    try:
        here = Path.cwd()
        is_safe = all(is_closed(each.stat()) for each in (here, *here.parents))
    except OSError:  # removed, or not accessible
        return Path("/")
    return here if is_safe else Path("/")


def run(
    command: Sequence[str],
    *,
    purpose: str,
    watch: Callable[[], None] = lambda: None,
    directory: Path | None = None,
) -> str:
    """Run a client and return its stdout, calling ``watch`` a few times a second.

    The client runs in ``directory``, by default in ``directory_of_settings()``. Raise HostError
    with the client's own message if it is missing or fails, and NotServed if that message says that
    the package does not exist. End the client when this process is interrupted.
    """
    program = require(command[0], purpose)
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        client = None
        try:
            with signals_held():  # a signal during the start would leave the client running
                client = subprocess.Popen(
                    [program, *command[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=_environment(),
                    cwd=directory or directory_of_settings(),
                )
            _wait(client, watch)
        finally:
            if client is not None:
                _end(client)
        stdout.seek(0)
        stderr.seek(0)
        output, complaints = stdout.read(), stderr.read()
    if client.returncode != 0:
        words = _words(complaints + "\n" + output)
        problem = NotServed if _NOT_THERE.search(words) else HostError
        raise problem(
            f"{command[0]} failed {purpose} (exit status {client.returncode}): {words}",
            hint=f"check that {command[0]} works on this host (network, proxy, mirror settings)",
        )
    return output


def watch_growth(
    directory: Path, what: str, total_bytes: int | None, on_event: OnEvent
) -> Callable[[], None]:
    """Return a ``watch`` that reports how many bytes have been added to ``directory``."""
    before = tree_bytes(directory)

    def report() -> None:
        done = tree_bytes(directory) - before
        on_event(DownloadMoved(what, min(done, total_bytes) if total_bytes else done, total_bytes))

    return report


def tree_bytes(directory: Path) -> int:
    """Return the bytes of all files below a directory that others may be changing."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
            except OSError:
                continue
    return total


def _environment() -> dict[str, str]:
    """Return the environment without millrace's variables, which may contain a password."""
    of_user = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**of_user, "LC_ALL": "C.UTF-8"}


def _wait(client: subprocess.Popen[bytes], watch: Callable[[], None]) -> None:
    while True:
        try:
            client.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            watch()
        else:
            return


def _end(client: subprocess.Popen[bytes]) -> None:
    if client.poll() is not None:
        return
    client.terminate()
    try:
        client.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()


def _words(text: str) -> str:
    """Return the first error lines of a client's output, or its first lines if none is marked."""
    lines = [line.strip() for line in _COLOUR.sub("", text).splitlines() if line.strip()]
    errors = [line for line in lines if _MARK.match(line)]
    return " / ".join((errors or lines)[:2]) or "it gave no reason"
