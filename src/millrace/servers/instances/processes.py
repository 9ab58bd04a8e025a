"""Record the owner of every process and directory of an instance before it exists.

Problem. A server outlives a millrace that is killed with SIGKILL. The next millrace has to end
exactly the leftovers, never the server of another running millrace, and never a process that merely
has the same number.

Record. A file ``<state>/instances/<id>.json`` is written before the instance's directory is created
and removed after the directory is. It names the owner (process number, start time in ticks, boot
and process namespace), the directories, the server's user id if it has its own (``users``), and
each server process as soon as it is started. Every server process also carries
``MILLRACE_INSTANCE=<id>`` in its environment, so that a process that was forked, but not yet
recorded, is found as well.

Reaping. A record without a living owner is an orphan: its processes (recorded with their start
times, or found by environment) get SIGKILL through a pidfd, and so do all processes of its user id,
unless another instance has that id by now. Then its directories are removed, then the record.

Trust. A record makes root kill processes and remove directories, so it must be a regular file that
only the user can have written, in a directory in which nobody else can replace it. It names only
the directories that millrace creates for that id; those outside the present work directory stay
until a command works there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from millrace import atomic_file, paths, safe_json
from millrace.errors import HostError
from millrace.host.exclusive import host_lock
from millrace.servers.instances import users
from millrace.servers.instances.closing import close_tree
from millrace.servers.locks import exclusive
from millrace.servers.progress import Progress, Silent
from millrace.shared_directories import is_own, refuse_shared
from millrace.utc import utc_now

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "Account",
    "ProcessId",
    "boot_id",
    "close_account",
    "end",
    "end_all_of",
    "host_lock",
    "new_id",
    "open_account",
    "pid_namespace",
    "reap_orphans",
    "record_process",
    "running",
    "short_directory",
]

ENVIRONMENT_VARIABLE = "MILLRACE_INSTANCE"

_SHORT_PLACE = Path("/tmp")  # noqa: S108 - a fresh directory of ours, mode 0700

_ID = re.compile(r"[A-Za-z0-9._-]+-[0-9a-f]{8}")
_END_LIMIT_S = 30.0
_POLL_S = 0.01
_ENVIRONMENT_BYTES = 1 << 18  # a server starts with a few hundred bytes


@dataclass(frozen=True)
class ProcessId:
    """A process, which its start time distinguishes from a later one with the same number.

    The start time is field 22 of /proc/PID/stat, in ticks since boot.
    """

    pid: int
    started_ticks: int

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """Return the identity of a running process; None if none has this number."""
        ticks = _started_ticks(pid)
        return None if ticks is None else ProcessId(pid, ticks)

    def exists(self) -> bool:
        return _started_ticks(self.pid) == self.started_ticks


@dataclass(frozen=True)
class Account:
    """The ownership record of one instance; see the module's docstring."""

    id: str
    server: str
    role: str
    command: str
    created_utc: str
    boot_id: str
    pid_namespace: str
    owner: ProcessId
    directories: tuple[str, ...]
    processes: tuple[ProcessId, ...] = ()
    uid: int | None = None

    def owner_is_gone(self) -> bool:
        """Return whether its owner has ended.

        An owner in another process namespace of the same boot (a container that shares the state
        directory) is invisible from here, so it counts as alive.
        """
        if self.boot_id != boot_id():
            return True
        return self.pid_namespace == pid_namespace() and not self.owner.exists()

    def live_processes(self) -> list[ProcessId]:
        """Return its processes that exist now: the recorded ones, and those that carry its id."""
        if self.boot_id != boot_id():
            return []
        recorded = {process for process in self.processes if process.exists()}
        uid = os.geteuid() if self.uid is None else self.uid
        return sorted(recorded | _carriers(self.id, uid), key=lambda process: process.pid)


def boot_id() -> str:
    """Return the id of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace() -> str:
    """Return the id of this process namespace, which differs between containers."""
    return str(Path("/proc/self/ns/pid").readlink())


def new_id(server: str) -> str:
    """Return an id for an instance, readable in a process list and usable as a file name."""
    return f"{re.sub(r'[^A-Za-z0-9.-]', '_', server)}-{secrets.token_hex(4)}"


def short_directory(instance_id: str) -> Path:
    """Return the directory of an instance's socket where its own path would be too long."""
    return _SHORT_PLACE / f"millrace-{instance_id}"


def open_account(
    instance_id: str, *, server: str, role: str, directories: list[Path], uid: int | None = None
) -> Account:
    """Record this process as the owner of an instance, before its directories are created."""
    owner = ProcessId.of(os.getpid())
    assert owner is not None
    account = Account(
        id=instance_id,
        server=server,
        role=role,
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        created_utc=utc_now(),
        boot_id=boot_id(),
        pid_namespace=pid_namespace(),
        owner=owner,
        directories=tuple(str(directory) for directory in directories),
        uid=uid,
    )
    _write(account)
    return account


def record_process(account: Account, process: ProcessId) -> Account:
    """Return the record with a newly started server process, without those that have ended."""
    living = tuple(known for known in account.processes if known.exists())
    account = replace(account, processes=(*living, process))
    _write(account)
    return account


def close_account(account: Account) -> None:
    """End the processes left of an instance, remove its directories, then its record."""
    _end_processes(account)
    for directory in map(Path, account.directories):
        if account.id in directory.name:
            _remove_tree(directory)
    atomic_file.remove_drafts(_file_of(account.id))
    _file_of(account.id).unlink(missing_ok=True)


def end_all_of(uid: int) -> None:
    """End all processes of an instance's user id, which the caller has reserved (``users``)."""
    if uid not in users.IDS:
        raise ValueError(f"{uid} is no user id of an instance")
    deadline = time.monotonic() + _END_LIMIT_S
    users.kill_all(uid)
    while pids := users.pids_of(uid):
        if time.monotonic() > deadline:
            raise HostError(
                f"processes of the user {uid}, which a server ran as, do not end: "
                f"{', '.join(map(str, pids))}",
                hint="end them, or restart this host, and run the command again",
            )
        time.sleep(_POLL_S)


def running() -> list[Account]:
    """Return the instances of this state directory, orphans included, oldest first.

    Raise HostError where another user could have put a record there.
    """
    folder = _folder()
    if not folder.is_dir():
        return []
    refuse_shared(folder, "MILLRACE_STATE")
    accounts = [_read(file) for file in folder.glob("*.json")]
    return sorted((a for a in accounts if a is not None), key=lambda a: (a.created_utc, a.id))


def reap_orphans(progress: Progress | None = None) -> list[str]:
    """End and remove the instances whose millrace has ended, and nothing else.

    Return a sentence for each. Raise HostError where a directory cannot be removed, or another user
    could have put a record into the state directory.
    """
    sentences = []
    with _one_reaper_at_a_time(progress or Silent()):
        for account in running():
            if not account.owner_is_gone():
                continue
            pids = [str(process.pid) for process in account.live_processes()]
            elsewhere = _elsewhere(account)
            with _user_ended(account.uid):
                if elsewhere is None:
                    close_account(account)
                else:
                    _end_processes(account)
            ended = f"ended process {', '.join(pids)} of {account.server}"
            sentences.append(
                f"{'removed' if elsewhere is None else 'kept'} the instance {account.id} left by "
                f"process {account.owner.pid}, which is gone: "
                f"{ended if pids else 'nothing of it ran'}"
                f"{'' if elsewhere is None else _how_to_remove(elsewhere)}"
            )
    return sentences


def _end_processes(account: Account) -> None:
    for process in account.live_processes():
        end(process, signal.SIGKILL, limit_s=_END_LIMIT_S)


def _elsewhere(account: Account) -> Path | None:
    """Return an existing directory of an orphan outside of this command's work directory."""
    work_dir = paths.work_dir().resolve()
    for directory in map(Path, account.directories):
        is_here = directory.name == account.id and directory.parent.resolve() == work_dir
        is_short = directory == short_directory(account.id)
        if not (is_here or is_short) and os.path.lexists(directory):
            return directory
    return None


def _how_to_remove(directory: Path) -> str:
    variable = f"MILLRACE_WORK={shlex.quote(str(directory.parent))}"
    return f"; {directory} is in another work directory: a command with {variable} removes it"


def end(process: ProcessId, with_signal: signal.Signals, *, limit_s: float) -> bool:
    """Send a signal to exactly this process and wait for its end; return False if it lives on.

    Compare the start time after opening the pidfd, so that the signal cannot reach a later process
    with the same number.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.exists():
            return True
        try:
            signal.pidfd_send_signal(descriptor, with_signal)
        except ProcessLookupError:
            return True
        except PermissionError as error:
            raise HostError(
                f"process {process.pid} belongs to another user and cannot be ended",
                hint="end it with the rights of that user",
            ) from error
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(limit_s * 1000))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _user_ended(uid: int | None) -> Iterator[None]:
    """End all processes of an orphan's user id, and reserve it, unless another instance has it."""
    if uid is None or uid not in users.IDS:
        yield
        return
    with users.held(uid) as ours:
        if ours:
            end_all_of(uid)
        yield


def _remove_tree(directory: Path) -> None:
    """Remove a directory in which a server may have put anything, however deep.

    Close it first: a process with a descriptor of a directory in it could create files without end.
    """
    with contextlib.suppress(OSError):
        close_tree(directory)
    # Unlike shutil.rmtree, rm needs neither a descriptor nor a stack frame per level, and does not
    # block at a pipe that another user put in place of the directory.
    subprocess.run(["rm", "-rf", "--", directory], check=False, capture_output=True)
    if os.path.lexists(directory):
        raise HostError(
            f"{directory}, the directory of an instance, cannot be removed",
            hint="remove it by hand, with the rights of the user who made it",
        )


@contextlib.contextmanager
def _one_reaper_at_a_time(progress: Progress) -> Iterator[None]:
    """Make a second reaper wait, unless there are no records; it then finds nothing to do."""
    if not _folder().is_dir():
        yield
        return
    lock = paths.state_dir() / ".instances.lock"
    with exclusive(lock, "removing what killed commands left", progress):
        yield


def _carriers(instance_id: str, uid: int) -> set[ProcessId]:
    """Return the processes of the user ``uid`` whose environment begins with the instance's.

    The read is limited: a process can make its environment arbitrarily long, and slow to read.
    """
    wanted = f"{ENVIRONMENT_VARIABLE}={instance_id}".encode()
    found = set()
    for pid in _pids():
        if pid == os.getpid() or not users.runs_under(pid, uid):
            continue
        process = ProcessId.of(pid)
        try:
            with Path(f"/proc/{pid}/environ").open("rb") as file:
                environment = file.read(_ENVIRONMENT_BYTES).split(b"\0")
        except OSError:  # an unreadable process is not the instance's
            continue
        if process is not None and wanted in environment:
            found.add(process)
    return found


def _pids() -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            yield int(entry.name)


def _started_ticks(pid: int) -> int | None:
    """Return the start time of a process; None if there is none, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program's name in brackets, which may itself contain brackets.
    state, *fields = stat[stat.rindex(b")") + 2 :].split()
    return None if state in (b"Z", b"X") else int(fields[18])


def _folder() -> Path:
    return paths.state_dir() / "instances"


def _file_of(instance_id: str) -> Path:
    return _folder() / f"{instance_id}.json"


def _write(account: Account) -> None:
    """Replace the record's file in one step: a reader finds the old one or the new one."""
    file = _file_of(account.id)
    try:
        # Ids name directories in /tmp: nobody else may learn them before these exist.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_shared(file.parent, "MILLRACE_STATE")
        atomic_file.write_text(file, json.dumps(asdict(account), indent=1))
    except OSError as error:
        refused = paths.refusal(error)
        if refused is not None:
            raise refused from error
        raise HostError(
            f"{file}: the account of an instance cannot be written: {error.strerror}",
            hint="free space there, or name another place with MILLRACE_STATE",
        ) from error


def _read(file: Path) -> Account | None:
    """Return a record; None, and leave the file alone, if it has been removed or is invalid."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(file, flags), "rb") as opened:
            if not is_own(os.fstat(opened.fileno())):
                return None
            content = safe_json.read_bounded(opened, safe_json.SMALL.size_bytes)
        data = safe_json.parse_object(content)
        account = Account(
            **{
                **data,
                "owner": ProcessId(**data["owner"]),
                "directories": tuple(data["directories"]),
                "processes": tuple(ProcessId(**process) for process in data["processes"]),
            }
        )
        return account if _names_its_own(account) and file == _file_of(account.id) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _names_its_own(account: Account) -> bool:
    """Return whether the id is valid, and each directory is named as millrace names it."""
    return _ID.fullmatch(account.id) is not None and all(
        directory == short_directory(account.id)
        or (directory.is_absolute() and directory.name == account.id)
        for directory in map(Path, account.directories)
    )
