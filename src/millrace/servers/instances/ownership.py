"""Record the owner of every process and directory of an instance before it exists.

Problem. If millrace is killed with SIGKILL, its servers go on. The next millrace has to end exactly
these leftovers, never the server of another running millrace, and never a process that merely has
the same id.

Record. A file ``<state>/instances/<id>.json`` is written before the instance's directory is created
and removed after the directory is. It names the owner (process number, start time in ticks, boot
and process namespace), the directories, the server's user id if it has its own (``users``), and
each server process as soon as it is started. Every server process also carries
``MILLRACE_INSTANCE=<id>`` in its environment, so that a process that was forked, but not yet
recorded, is found as well.

Reaping. A record without a living owner is an orphan: its processes (recorded with their start
times, or found by environment) get SIGKILL through a pidfd, and so do all processes of its user id,
unless another instance has that id by now. Then its directories are removed, then the record.

Keeping. If a data directory must survive the end of millrace, ``kept`` names a directory next to
the instance's (``snapshots/kept_data``): the data moves there before the rest is removed.

Trust. A record makes root kill processes and remove directories, so it must be a regular file that
only the user can have written, in a directory in which nobody else can replace it. It names only
the directories that millrace creates for that id, and one to keep data in. Directories
outside the current work directory stay until a command with that work directory runs.
"""

import contextlib
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from millrace import atomic_file, paths, safe_json
from millrace.errors import HostError
from millrace.model.documents import exact
from millrace.model.events import OnEvent, ignore
from millrace.quantities import utc_now
from millrace.servers.instances import processes, users
from millrace.servers.instances.closing import close_tree, open_without_links
from millrace.servers.instances.processes import END_LIMIT_S, ProcessId, boot_id, pid_namespace
from millrace.servers.locks import exclusive
from millrace.shared_directories import is_own, refuse_shared

_SHORT_PLACE = Path("/tmp")  # noqa: S108 - a fresh directory of ours, mode 0700
_ID = re.compile(r"[A-Za-z0-9._-]+-[0-9a-f]{8}")

DATA = "data"
"""The name of the data directory, in an instance's directory and where it is kept."""

KEPT = "kept"
KEPT_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
"""The directory of kept data directories, next to those of instances, and the names in it."""


@exact
@dataclass(frozen=True)
class OwnershipRecord:
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
    kept: str | None = None

    def owner_is_gone(self) -> bool:
        """Return whether the owner has ended.

        An owner in another process namespace of the same boot (a container that shares the state
        directory) is invisible from here, so it counts as alive.
        """
        if self.boot_id != boot_id():
            return True
        return self.pid_namespace == pid_namespace() and not self.owner.exists()

    def live_processes(self) -> list[ProcessId]:
        """Return the running processes of the instance: recorded, or with its id."""
        if self.boot_id != boot_id():
            return []
        recorded = {process for process in self.processes if process.exists()}
        uid = os.geteuid() if self.uid is None else self.uid
        return sorted(
            recorded | processes.of_instance(self.id, uid), key=lambda process: process.pid
        )


_RECORD = TypeAdapter(OwnershipRecord)


def new_id(server: str) -> str:
    """Return an id for an instance, readable in a process list and usable as a file name."""
    return f"{re.sub(r'[^A-Za-z0-9.-]', '_', server)}-{secrets.token_hex(4)}"


def short_directory(instance_id: str) -> Path:
    """Return the directory for an instance's socket if its normal path is too long."""
    return _SHORT_PLACE / f"millrace-{instance_id}"


def register(
    instance_id: str, *, server: str, role: str, directories: list[Path], uid: int | None = None
) -> OwnershipRecord:
    """Record this process as the owner of an instance, before its directories are created."""
    owner = ProcessId.of(os.getpid())
    assert owner is not None
    record = OwnershipRecord(
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
    _write(record)
    return record


def add_process(record: OwnershipRecord, process: ProcessId) -> OwnershipRecord:
    """Return the record with a new server process, and without those that have ended."""
    living = tuple(known for known in record.processes if known.exists())
    record = replace(record, processes=(*living, process))
    _write(record)
    return record


def keep_data(record: OwnershipRecord, directory: Path | None) -> OwnershipRecord:
    """Return the record with the directory to keep the data in; None: do not keep it."""
    record = replace(record, kept=None if directory is None else str(directory))
    _write(record)
    return record


def release(record: OwnershipRecord) -> bool | None:
    """End the remaining processes of an instance, remove its directories, then its record.

    Keep its data directory if the newest record requires that. Return whether that succeeded; None
    if there was nothing to keep.
    """
    _end_processes(record)
    kept = (_read(_file_of(record.id)) or record).kept
    is_kept = None
    if kept is not None:
        is_kept = _keep_data(Path(record.directories[0]) / DATA, Path(kept) / DATA)
    for directory in map(Path, record.directories):
        if record.id in directory.name:
            remove_tree(directory)
    atomic_file.remove_drafts(_file_of(record.id))
    _file_of(record.id).unlink(missing_ok=True)
    return is_kept


def running() -> list[OwnershipRecord]:
    """Return all recorded instances, oldest first. Raise HostError if others can write there."""
    folder = _folder()
    if not folder.is_dir():
        return []
    refuse_shared(folder, "MILLRACE_STATE")
    records = [_read(file) for file in folder.glob("*.json")]
    return sorted(
        (each for each in records if each is not None), key=lambda each: (each.created_utc, each.id)
    )


def reap_orphans(on_event: OnEvent = ignore) -> list[str]:
    """End and remove the instances whose millrace has ended, and nothing else.

    Return a sentence for each. Raise HostError if a directory cannot be removed, or another user
    could have put a record into the state directory.
    """
    sentences = []
    with _one_reaper_at_a_time(on_event):
        for record in running():
            if not record.owner_is_gone():
                continue
            pids = [str(process.pid) for process in record.live_processes()]
            elsewhere = _elsewhere(record)
            with _user_ended(record.uid):
                if elsewhere is None:
                    is_kept = release(record)
                else:
                    is_kept = None if record.kept is None else True  # it stays where it is
                    _end_processes(record)
            ended = f"ended process {', '.join(pids)} of {record.server}"
            sentences.append(
                f"{'removed' if elsewhere is None else 'kept'} the instance {record.id} left by "
                f"process {record.owner.pid}, which is gone: "
                f"{ended if pids else 'no process of it was running'}"
                f"{_DATA_OF_ORPHAN[is_kept]}"
                f"{'' if elsewhere is None else _how_to_remove(elsewhere)}"
            )
    return sentences


_DATA_OF_ORPHAN = {
    None: "",
    True: "; its data is kept for its trial",
    False: "; its data could not be kept, so its trial starts over",
}


def _keep_data(data: Path, kept: Path) -> bool:
    """Close a data directory to its server, and move it; return whether data is kept now.

    The data is lost if the disk refuses. An instance that was about to take over kept data has an
    empty directory or none; then nothing moves.
    """
    with contextlib.suppress(OSError):
        close_tree(data)
        data.rename(kept)
    return kept.is_dir()


def _end_processes(record: OwnershipRecord) -> None:
    for process in record.live_processes():
        processes.end(process, signal.SIGKILL, limit_s=END_LIMIT_S)


def _elsewhere(record: OwnershipRecord) -> Path | None:
    """Return a directory of an orphan that is outside of this command's work directory.

    Return None if there is none.
    """
    work_dir = paths.work_dir().resolve()
    for directory in map(Path, record.directories):
        is_here = directory.name == record.id and directory.parent.resolve() == work_dir
        is_short = directory == short_directory(record.id)
        if not (is_here or is_short) and os.path.lexists(directory):
            return directory
    return None


def _how_to_remove(directory: Path) -> str:
    variable = f"MILLRACE_WORK={shlex.quote(str(directory.parent))}"
    return f"; {directory} is in another work directory: a command with {variable} removes it"


@contextlib.contextmanager
def _user_ended(uid: int | None) -> Iterator[None]:
    """Kill all processes of an orphan's user id and reserve the id, unless it is in use again."""
    if uid is None or uid not in users.IDS:
        yield
        return
    with users.held(uid) as ours:
        if ours:
            processes.end_all_of(uid)
        yield


def remove_tree(directory: Path) -> None:
    """Remove a directory tree that a server filled, of any depth. Raise HostError if it stays.

    The tree is closed to other users first. Otherwise a process with a file descriptor of a
    directory in it could keep creating files.
    """
    with contextlib.suppress(OSError):
        close_tree(directory)
    # Unlike shutil.rmtree, rm needs neither a descriptor nor a stack frame per level, and does not
    # block on a pipe that another user put in place of the directory.
    subprocess.run(["rm", "-rf", "--", directory], check=False, capture_output=True)
    if os.path.lexists(directory):
        raise HostError(
            f"{directory}: the directory of an instance cannot be removed",
            hint="remove it by hand, as the user that created it",
        )


@contextlib.contextmanager
def _one_reaper_at_a_time(on_event: OnEvent) -> Iterator[None]:
    """Wait for another reaper, if any; its work leaves nothing to do."""
    if not _folder().is_dir():
        yield
        return
    lock = paths.state_dir() / ".instances.lock"
    with exclusive(lock, "removing leftovers of killed commands", on_event):
        yield


def _folder() -> Path:
    return paths.state_dir() / "instances"


def _file_of(instance_id: str) -> Path:
    return _folder() / f"{instance_id}.json"


def _write(record: OwnershipRecord) -> None:
    """Replace the record's file atomically: a reader sees the old content or the new one."""
    file = _file_of(record.id)
    try:
        # Ids name directories in /tmp: nobody else may learn them before these exist.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_shared(file.parent, "MILLRACE_STATE")
        atomic_file.write_text(file, json.dumps(asdict(record), indent=1))
    except OSError as error:
        raise paths.problem(
            error,
            f"{file}: cannot write the record of an instance: {error.strerror}",
            hint="free space there, or set MILLRACE_STATE to another directory",
        ) from error


def _read(file: Path) -> OwnershipRecord | None:
    """Return a record; None if its file is gone or invalid, in which case the file stays."""
    try:
        with open(file, "rb", opener=open_without_links) as opened:
            if not is_own(os.fstat(opened.fileno())):
                return None
            content = safe_json.read_bounded(opened, safe_json.SMALL.size_bytes)
        record = _RECORD.validate_python(safe_json.parse_object(content))
        return record if _names_its_own(record) and file == _file_of(record.id) else None
    except (OSError, ValueError):
        return None


def _names_its_own(record: OwnershipRecord) -> bool:
    """Return whether the id is valid and each directory is one that millrace would create."""
    if record.kept is not None:
        kept, beside = Path(record.kept), Path(record.directories[0]).parent
        if kept.parent != beside / KEPT or KEPT_NAME.fullmatch(kept.name) is None:
            return False
    return _ID.fullmatch(record.id) is not None and all(
        directory == short_directory(record.id)
        or (directory.is_absolute() and directory.name == record.id)
        for directory in map(Path, record.directories)
    )
