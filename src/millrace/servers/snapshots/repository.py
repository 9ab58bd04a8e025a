"""Find, publish and evict snapshots; a snapshot is complete or does not exist.

    <snapshots>/<server>-<digest>/           a snapshot: snapshot.json and data/
    <snapshots>/.<server>-<digest>.<x>.part  an unfinished one, or the leftover of a dead process
    <snapshots>/.<server>-<digest>.<x>.gone  one that is being removed

A directory gets its final name by one rename, when all of it is on the disk. A process that
creates, restores or removes a snapshot holds a lock on the directory (flock), which ends with the
process. So a ``.part`` or ``.gone`` directory that can be locked is a leftover. A snapshot in use
has a shared lock, so nobody removes it. The directory's modification time is the time of the last
use.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from millrace import atomic_file, paths
from millrace.errors import HostError, UserError, nearest
from millrace.quantities import parse_size
from millrace.servers.snapshots import manifest
from millrace.servers.snapshots.key import SnapshotKey
from millrace.servers.snapshots.manifest import Snapshot, SnapshotFile
from millrace.shared_directories import may_others_write

LIMIT_VARIABLE = "MILLRACE_SNAPSHOTS_LIMIT"
_DEFAULT_LIMIT_BYTES = 100_000_000_000

_MAKING, _LEAVING = ".part", ".gone"

# Snapshots whose contents this process has verified: device, inode, files with their times.
_VERIFIED: set[tuple[int, int, tuple[SnapshotFile, ...]]] = set()


class Unusable(HostError):
    """An error for a snapshot that can no longer be used; the trial continues without it."""


@dataclass(frozen=True)
class SnapshotListing:
    """An entry in the list of snapshots, with its damage, if any."""

    name: str
    snapshot: Snapshot | None  # None if its manifest cannot be read
    damage: str | None
    allocated_bytes: int
    used_s: float  # since the epoch


def find(key: SnapshotKey) -> Snapshot | None:
    """Return the snapshot for a key, if its files have the saved names, sizes and times; or None.

    Remove a snapshot that is damaged, or that another user could have changed.
    """
    directory = paths.snapshots_dir() / key.name
    with _locked(directory, fcntl.LOCK_SH) as there:
        snapshot = manifest.read(directory) if there and _is_own(directory) else None
        if snapshot is not None and snapshot.key.digest == key.digest and not snapshot.damage():
            return snapshot
    if directory.exists():
        _remove(directory)
    return None


@contextlib.contextmanager
def in_use(snapshot: Snapshot) -> Iterator[None]:
    """Lock an intact snapshot for the block, and count it as used. Raise Unusable, OSError."""
    with _locked(snapshot.directory, fcntl.LOCK_SH) as there:
        damage = _damage(snapshot) if there else "it is gone"
        if damage is None:
            os.utime(snapshot.directory)
            yield
            return
    _remove(snapshot.directory)
    raise Unusable(f"snapshot {snapshot.name} is unusable: {damage}")


def _damage(snapshot: Snapshot) -> str | None:
    """Return why a snapshot is damaged, or None. Verify contents once per process."""
    damage = (
        snapshot.damage() if _is_own(snapshot.directory) else "another user could have changed it"
    )
    state = snapshot.directory.stat()
    this = (state.st_dev, state.st_ino, snapshot.files)
    if damage is None and this not in _VERIFIED:
        damage = snapshot.content_damage()
        if damage is None:
            _VERIFIED.add(this)
    return damage


def _is_own(directory: Path) -> bool:
    """Return whether only root and this process's user can have created or changed a snapshot.

    The directory of all snapshots may have been writable for other users earlier.
    """
    status = directory.lstat()
    return status.st_uid in (0, os.geteuid()) and not may_others_write(status)


def listing() -> list[SnapshotListing]:
    """Return all snapshots, the least recently used first."""
    return sorted(_kept(), key=lambda kept: (kept.used_s, kept.name))


def named_limit_bytes() -> int | None:
    """Return the limit in ``MILLRACE_SNAPSHOTS_LIMIT``; None if unset. Raise UserError."""
    named = os.environ.get(LIMIT_VARIABLE)
    if not named:
        return None
    try:
        return parse_size(named)
    except ValueError as error:
        raise UserError(
            f"{LIMIT_VARIABLE}: {error}",
            hint="use a size such as 50G, or 0 to keep no more snapshots",
        ) from error


def limit_bytes() -> int:
    """Return the maximum disk usage of all snapshots, in bytes.

    The limit is ``MILLRACE_SNAPSHOTS_LIMIT`` (such as ``50G``; with 0 no more are kept). The
    default is half of the sum of their size and the free space, at most 100 GB: a snapshot is
    useful only if its copy fits on the disk too. Raise UserError for a limit that is not a size.
    """
    if (limit := named_limit_bytes()) is not None:
        return limit
    held = sum(kept.allocated_bytes for kept in _kept())
    return min(_DEFAULT_LIMIT_BYTES, (free_bytes(paths.snapshots_dir()) + held) // 2)


def evict(limit_bytes: int, *, spared: Collection[str] = ()) -> list[str]:
    """Remove leftovers, and the oldest snapshots beyond a limit; return the removed names.

    Snapshots that are in use or ``spared`` stay.
    """
    reap()
    removed = []
    kept = listing()
    held = sum(each.allocated_bytes for each in kept)
    for each in kept:
        if held <= limit_bytes:
            break
        if each.name not in spared and _remove(paths.snapshots_dir() / each.name):
            removed.append(each.name)
            held -= each.allocated_bytes
    return removed


def remove(name: str) -> None:
    """Remove a snapshot by its name. Raise UserError if it does not exist or is in use."""
    directory = paths.snapshots_dir() / name
    if name not in (names := [kept.name for kept in _kept()]):
        near = nearest(name, names)
        hint = f"did you mean {near!r}?" if near else "`millrace snapshots list` shows all"
        raise UserError(f"unknown snapshot {name!r}", hint=hint)
    if not _remove(directory):
        raise UserError(
            f"the snapshot {name} is in use",
            hint="wait until the millrace process that uses it has finished",
        )


def reap() -> None:
    """Remove leftovers of processes that died while they created or removed a snapshot."""
    root = paths.snapshots_dir()
    for pattern in (f".*{_MAKING}", f".*{_LEAVING}"):
        for directory in root.glob(pattern):
            with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB) as ours:
                if ours:
                    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def draft(key: SnapshotKey) -> Iterator[Path]:
    """Yield an empty directory for a new snapshot; remove it afterwards unless published."""
    root = paths.snapshots_dir()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = paths.snapshots_dir()  # check that no other user created it first
    while True:
        directory = root / f".{key.name}.{secrets.token_hex(4)}{_MAKING}"
        directory.mkdir(mode=0o700)
        with _locked(directory, fcntl.LOCK_EX) as ours:
            if not ours:
                continue  # another process removed it as a leftover before it was locked
            try:
                yield directory
                return
            finally:
                shutil.rmtree(directory, ignore_errors=True)


def publish(directory: Path, key: SnapshotKey) -> Snapshot:
    """Rename a complete draft to its final name, and return the snapshot.

    If another process was faster, return its snapshot, which has the same key. Raise OSError, or
    Unusable, with the draft unchanged.
    """
    final = directory.with_name(key.name)
    made = manifest.read(directory)
    if made is None:
        raise OSError(errno.EIO, "the manifest cannot be read back", str(directory))
    for _ in range(2):
        try:
            directory.rename(final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if (theirs := find(key)) is not None:  # removes a damaged one
                return theirs
            continue
        try:
            atomic_file.flush(final.parent)
        except OSError:
            final.rename(directory)  # nobody uses it: it is still locked
            raise
        return replace(made, directory=final)
    raise Unusable(f"snapshot {key.name} is damaged and in use, so it cannot be replaced")


def free_bytes(path: Path) -> int:
    """Return the free bytes of a path's file system; the path may not exist yet."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _kept() -> list[SnapshotListing]:
    root = paths.snapshots_dir()
    if not root.is_dir():
        return []
    found = []
    for entry in os.scandir(root):
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            directory = Path(entry.path)
            snapshot = manifest.read(directory)
            damage = "its manifest cannot be read" if snapshot is None else snapshot.damage()
            allocated, used_s = manifest.usage(directory)[1], directory.stat().st_mtime
            found.append(SnapshotListing(entry.name, snapshot, damage, allocated, used_s))
    return found


def _remove(directory: Path) -> bool:
    """Remove a snapshot and return True, or return False if it is in use."""
    with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB) as ours:
        if not ours:
            return False
        leaving = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}{_LEAVING}")
        directory.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)
        return True


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[bool]:
    """Lock the directory for the block; yield False if it is gone or locked by another process."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            yield False
            return
        yield _is_the_same(directory, descriptor)
    finally:
        os.close(descriptor)


def _is_the_same(directory: Path, descriptor: int) -> bool:
    """Return whether the path still leads to the open directory, after waiting for the lock."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
