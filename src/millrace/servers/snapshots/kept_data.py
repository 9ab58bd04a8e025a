"""Keep the data directory of a trial that outlives its millrace, until the trial continues.

    <work>/kept/<run>-<trial>/         owned by millrace, closed to others; names are digests
    <work>/kept/<run>-<trial>/trial    the trial's id in the store
    <work>/kept/<run>-<trial>/password of the server's accounts
    <work>/kept/<run>-<trial>/progress a line for each part of the trial that has ended
    <work>/kept/<run>-<trial>/data/    the data directory, while no instance has it

The data directory is moved by renaming, so it needs no extra space: from the instance when that is
removed (``instances/ownership``), and into the instance of the trial that continues. The directory
is removed once the trial's result is stored (``campaign/attempts``), or with its run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from millrace import atomic_file, paths
from millrace.errors import HostError
from millrace.servers.instances.closing import close_tree, give_tree
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.ownership import DATA, KEPT, KEPT_NAME, remove_tree
from millrace.servers.snapshots import manifest
from millrace.servers.snapshots.create_restore import NotSaved, refuse_file
from millrace.shared_directories import is_own, may_others_write, refuse_shared

_MOST_FILES = 200_000


class NotResumable(HostError):
    """An error for a kept data directory with files that no server creates."""


@dataclass
class KeptData:
    """The kept data directory of one trial, and its progress.

    ``was_adopted`` is True once an instance of this process has taken the data directory over.
    """

    directory: Path
    trial: str
    was_adopted: bool = False

    @classmethod
    def of(cls, trial: str) -> KeptData:
        """Return the kept data of a trial; its id in the store starts with that of its run."""
        run, _, rest = trial.partition("/")
        return cls(_root() / f"{_digest(run)}-{_digest(rest)}", trial)

    @property
    def data(self) -> Path:
        """The path of the data directory while no instance has it."""
        return self.directory / DATA

    def is_there(self) -> bool:
        """Return whether there is a data directory to continue, kept by millrace itself."""
        try:
            place = self.directory.lstat()
            is_ours = place.st_uid == os.geteuid() and not may_others_write(place)
            own = is_ours and is_own((self.directory / _PASSWORD).lstat())
            return own and stat.S_ISDIR(self.data.lstat().st_mode)
        except OSError:
            return False

    def allocated_bytes(self) -> int:
        return manifest.usage(self.data)[1]

    def begin(self, instance: Instance | None) -> None:
        """Create the directory for a new trial; ``instance`` leaves its data there at its end."""
        self.remove()
        try:
            self.directory.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise HostError(
                f"{self.directory}: cannot create the directory for the trial's data: "
                f"{error.strerror}",
                hint="free space there, or set MILLRACE_WORK to another directory",
            ) from error
        _root()  # check that no other user created it first
        _append(self.directory / _TRIAL, self.trial)
        if instance is not None:
            _append(self.directory / _PASSWORD, instance.password)
            instance.keep_data(self.directory)

    def adopt(self, instance: Instance) -> None:
        """Move the data directory into an instance; when the instance ends, it is kept again.

        Raise NotResumable if it has files that no server creates, HostError for a disk error.
        """
        try:
            close_tree(self.data)
            give_tree(self.data, os.geteuid(), os.getegid())
            suffixes = instance.family.snapshots.link_suffixes
            for path, status in manifest.walk(self.data, most=_MOST_FILES):
                refuse_file(path.relative_to(self.data), status, os.geteuid(), suffixes)
            # First, because the removal of the instance then moves the only copy back.
            instance.keep_data(self.directory)
            instance.data_dir.rmdir()
            self.data.rename(instance.data_dir)
            if instance.uid is not None:
                give_tree(instance.data_dir, instance.uid, instance.uid)
            instance.set_password((self.directory / _PASSWORD).read_text("utf-8"))
        except manifest.NoDataDirectory as reason:
            raise NotResumable(f"the kept data directory has {reason.holds}") from reason
        except NotSaved as reason:
            raise NotResumable(reason.message) from reason
        except OSError as error:
            raise HostError(
                f"cannot use the kept data directory {self.data}: {error.strerror}"
            ) from error
        self.was_adopted = True

    def append(self, line: str) -> None:
        """Add a line to the progress, and flush it to the disk."""
        _append(self.directory / _PROGRESS, f"{line}\n")

    def progress(self) -> bytes:
        try:
            content = (self.directory / _PROGRESS).read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def replace_progress(self, content: bytes) -> None:
        atomic_file.write_text(self.directory / _PROGRESS, content.decode())

    def remove(self) -> None:
        """Remove everything. Raise HostError if that fails."""
        remove_tree(self.directory)
        with contextlib.suppress(OSError):  # it is missing, or has other entries
            self.directory.parent.rmdir()


def remove_of_runs(runs: Collection[str]) -> None:
    """Remove the kept data of all trials of these runs."""
    digests = {_digest(run) for run in runs}
    for kept in all_kept():
        if kept.directory.name.partition("-")[0] in digests:
            kept.remove()


def all_kept() -> list[KeptData]:
    """Return all kept data, sorted by name."""
    root = _root()
    if not root.is_dir():
        return []
    return [
        KeptData(Path(entry.path), _trial_of(Path(entry.path)))
        for entry in sorted(os.scandir(root), key=lambda each: each.name)
        if entry.is_dir(follow_symlinks=False) and KEPT_NAME.fullmatch(entry.name)
    ]


_TRIAL, _PASSWORD, _PROGRESS = "trial", "password", "progress"


def _root() -> Path:
    """Return the directory of all kept data, which may not exist yet. Raise HostError if unsafe.

    Its name is predictable: in a work directory that every user may write to, anybody can create
    it.
    """
    root = paths.work_dir() / KEPT
    refuse_shared(root, "MILLRACE_WORK")
    return root


def _trial_of(directory: Path) -> str:
    try:
        return (directory / _TRIAL).read_text("utf-8")
    except (OSError, ValueError):
        return "of an unknown run"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _append(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
