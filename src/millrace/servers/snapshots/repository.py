"""Find, publish and evict snapshots, each of which is kept whole or not at all.

    <snapshots>/<server>-<digest>/           a snapshot: snapshot.json and data/
    <snapshots>/.<server>-<digest>.<x>.part  an unfinished one, or the leftover of a dead process
    <snapshots>/.<server>-<digest>.<x>.gone  one that is being removed

A directory gets its own name by one rename, when all of it is on the disk. A process that creates,
restores or removes a snapshot holds a lock on the directory itself (flock), which ends with the
process: a ``.part`` or ``.gone`` that can be locked is a leftover. A snapshot in use has a shared
lock, so nobody removes it. The directory's modification time is the time of the last use.
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

# Snapshots whose contents this process has verified: device, inode, and files with their times.
_VERIFIED: set[tuple[int, int, tuple[SnapshotFile, ...]]] = set()


class Unusable(HostError):
    """An error for a snapshot that can no longer be used; the trial continues without it."""


@dataclass(frozen=True)
class SnapshotListing:
    """A directory among the snapshots, and its damage, if any."""

    name: str
    snapshot: Snapshot | None  # None where its manifest cannot be read
    damage: str | None
    allocated_bytes: int
    used_s: float  # since the epoch


def find(key: SnapshotKey) -> Snapshot | None:
    """Return the snapshot for a key, intact by the names, sizes and times of its files.

    Remove one that is not intact, or that another user could have changed.
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
    """Protect an intact snapshot in the block, and count it as used. Raise Unusable, OSError."""
    with _locked(snapshot.directory, fcntl.LOCK_SH) as there:
        damage = _damage(snapshot) if there else "it is gone"
        if damage is None:
            os.utime(snapshot.directory)
            yield
            return
    _remove(snapshot.directory)
    raise Unusable(f"the snapshot {snapshot.name} cannot be used: {damage}")


def _damage(snapshot: Snapshot) -> str | None:
    """Return why a snapshot is not intact, or None; read contents once in this process."""
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

    The directory of all snapshots may once have been open to other users.
    """
    status = directory.lstat()
    return status.st_uid in (0, os.geteuid()) and not may_others_write(status)


def listing() -> list[SnapshotListing]:
    """Return all snapshots, the least recently used first."""
    return sorted(_kept(), key=lambda kept: (kept.used_s, kept.name))


def named_limit_bytes() -> int | None:
    """Return the limit that ``MILLRACE_SNAPSHOTS_LIMIT`` names, if any. Raise UserError."""
    named = os.environ.get(LIMIT_VARIABLE)
    if not named:
        return None
    try:
        return parse_size(named)
    except ValueError as error:
        raise UserError(
            f"{LIMIT_VARIABLE}: {error}", hint="write a size such as 50G, or 0 to keep no more"
        ) from error


def limit_bytes() -> int:
    """Return the maximum size of all snapshots on the disk, in bytes.

    It is ``MILLRACE_SNAPSHOTS_LIMIT`` (such as ``50G``; with 0 no more are kept), or half of the
    sum of their size and the free space, at most 100 GB. It is half because a snapshot is of use
    only if its copy fits on the disk too. Raise UserError for a limit that is not a size.
    """
    if (limit := named_limit_bytes()) is not None:
        return limit
    held = sum(kept.allocated_bytes for kept in _kept())
    return min(_DEFAULT_LIMIT_BYTES, (free_bytes(paths.snapshots_dir()) + held) // 2)


def evict(limit_bytes: int, *, spared: Collection[str] = ()) -> list[str]:
    """Remove leftovers, and old snapshots, unless used or spared, beyond a limit; return names."""
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
        hint = f"did you mean {near!r}?" if near else "millrace snapshots list shows all"
        raise UserError(f"unknown snapshot {name!r}", hint=hint)
    if not _remove(directory):
        raise UserError(
            f"the snapshot {name} is in use", hint="wait for the millrace that uses it to end"
        )


def reap() -> None:
    """Remove the leftovers of processes that died while they created or removed a snapshot."""
    root = paths.snapshots_dir()
    for pattern in (f".*{_MAKING}", f".*{_LEAVING}"):
        for directory in root.glob(pattern):
            with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB) as ours:
                if ours:
                    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def draft(key: SnapshotKey) -> Iterator[Path]:
    """Yield an empty directory for a new snapshot, and remove it afterwards unless published."""
    root = paths.snapshots_dir()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = paths.snapshots_dir()  # check that no other user created it first
    while True:
        directory = root / f".{key.name}.{secrets.token_hex(4)}{_MAKING}"
        directory.mkdir(mode=0o700)
        with _locked(directory, fcntl.LOCK_EX) as ours:
            if not ours:
                continue  # another process took it for a leftover before it was locked
            try:
                yield directory
                return
            finally:
                shutil.rmtree(directory, ignore_errors=True)


def publish(directory: Path, key: SnapshotKey) -> Snapshot:
    """Rename a complete draft to its own name, and return the snapshot.

    Return the other process's snapshot, which has the same key, if that process was quicker. Raise
    OSError, or Unusable, with the draft unchanged.
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
            final.rename(directory)  # it is still locked, so nobody uses it
            raise
        return replace(made, directory=final)
    raise Unusable(f"the snapshot {key.name} is damaged, but in use, so it cannot be replaced")


def free_bytes(path: Path) -> int:
    """Return the bytes a user can write to the file system of a path that need not exist."""
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
    """Remove a snapshot unless it is in use; hide it first under a name that begins with a dot."""
    with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB) as ours:
        if not ours:
            return False
        leaving = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}{_LEAVING}")
        directory.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)
        return True


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[bool]:
    """Yield whether the directory exists under its name and is now locked, until the block ends."""
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
    """Return whether an open directory still has its name, which it may lose during the wait."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
