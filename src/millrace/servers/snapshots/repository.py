"""Where templates are kept: found, saved whole or not at all, and evicted when they take too much.

    <templates>/<server>-<digest>/           a template: template.json and data/
    <templates>/.<server>-<digest>.<x>.part  one that is being made, or was when its maker died
    <templates>/.<server>-<digest>.<x>.gone  one that is being removed

A directory gets its own name by one rename, when all of it is on the disk. Who makes, restores or
removes one holds a lock on the directory itself (flock), which ends with the process: a ``.part``
or ``.gone`` that can be locked is a leftover. A template in use is locked for sharing, so nobody
removes it. Its directory's time of change says when it was last used.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from millrace import paths, sizes
from millrace.errors import HostError, UserError, nearest
from millrace.servers.snapshots import manifest
from millrace.servers.snapshots.key import TemplateKey
from millrace.servers.snapshots.manifest import KeptFile, Template
from millrace.shared_directories import may_others_write

LIMIT_VARIABLE = "MILLRACE_TEMPLATES_LIMIT"
_DEFAULT_LIMIT_BYTES = 100_000_000_000

_MAKING, _LEAVING = ".part", ".gone"

# Templates whose contents this process has verified: device, inode, and files with their times.
_VERIFIED: set[tuple[int, int, tuple[KeptFile, ...]]] = set()


class Unusable(HostError):
    """A template that was there cannot be used any more; without it the trial goes on as ever."""


@dataclass(frozen=True)
class Kept:
    """A directory among the templates. ``template`` is None where its manifest cannot be read,
    ``damage`` then, and where its files have changed, says what is wrong."""

    name: str
    template: Template | None
    damage: str | None
    allocated_bytes: int
    used_s: float  # since the epoch


def find(key: TemplateKey) -> Template | None:
    """The template for a key, whole by the names, sizes and times of its files; one that is not, or
    that another user could have changed, is thrown away."""
    directory = paths.templates_dir() / key.name
    with _locked(directory, fcntl.LOCK_SH) as there:
        template = manifest.read(directory) if there and _is_own(directory) else None
        if template is not None and template.key.digest == key.digest and not template.damage():
            return template
    if directory.exists():
        _remove(directory)
    return None


@contextlib.contextmanager
def in_use(template: Template) -> Iterator[None]:
    """Inside, nobody removes the template, which is whole; it counts as used now.

    Raises Unusable when it is gone, or was changed and is thrown away; OSError when it cannot be
    read.
    """
    with _locked(template.directory, fcntl.LOCK_SH) as there:
        damage = _damage(template) if there else "it is gone"
        if damage is None:
            os.utime(template.directory)
            yield
            return
    _remove(template.directory)
    raise Unusable(f"the template {template.name} cannot be used: {damage}")


def _damage(template: Template) -> str | None:
    """Return why a template is not what was kept: by its files' names, sizes and times, and once in
    this process by their contents."""
    damage = (
        template.damage() if _is_own(template.directory) else "another user could have changed it"
    )
    state = template.directory.stat()
    this = (state.st_dev, state.st_ino, template.files)
    if damage is None and this not in _VERIFIED:
        damage = template.content_damage()
        if damage is None:
            _VERIFIED.add(this)
    return damage


def _is_own(directory: Path) -> bool:
    """Return whether only root and this process's user can have made or changed a template.

    The directory of all templates may have been open to others before.
    """
    status = directory.lstat()
    return status.st_uid in (0, os.geteuid()) and not may_others_write(status)


def listing() -> list[Kept]:
    """What is kept, the least recently used first."""
    return sorted(_kept(), key=lambda kept: (kept.used_s, kept.name))


def limit_bytes() -> int:
    """What templates may take on the disk: ``MILLRACE_TEMPLATES_LIMIT`` (such as ``50G``; with 0
    no more are kept), or half of what they and the free space are together, at most 100 GB.

    Half, because a template is of use only where its copy fits beside it. Raises UserError for a
    limit that is no size.
    """
    named = os.environ.get(LIMIT_VARIABLE)
    if named:
        try:
            return sizes.parse(named)
        except ValueError as error:
            raise UserError(
                f"{LIMIT_VARIABLE}: {error}",
                hint="write a size such as 50G, or 0 to keep no more",
            ) from error
    held = sum(kept.allocated_bytes for kept in _kept())
    return min(_DEFAULT_LIMIT_BYTES, (free_bytes(paths.templates_dir()) + held) // 2)


def evict(limit_bytes: int, *, spared: Collection[str] = ()) -> list[str]:
    """Remove the least recently used templates until the others take ``limit_bytes`` at most.

    Those in use and those ``spared`` (by name) stay. What dead processes left is removed first.
    Returns the names of the templates that were removed.
    """
    reap()
    removed = []
    kept = listing()
    held = sum(each.allocated_bytes for each in kept)
    for each in kept:
        if held <= limit_bytes:
            break
        if each.name not in spared and _remove(paths.templates_dir() / each.name):
            removed.append(each.name)
            held -= each.allocated_bytes
    return removed


def remove(name: str) -> None:
    """Remove a template by its name. Raises UserError when there is none, or it is in use."""
    directory = paths.templates_dir() / name
    if name not in (names := [kept.name for kept in _kept()]):
        near = nearest(name, names)
        hint = f"did you mean {near!r}?" if near else "millrace templates list shows all"
        raise UserError(f"there is no template {name!r}", hint=hint)
    if not _remove(directory):
        raise UserError(
            f"the template {name} is in use", hint="wait for the millrace that uses it to end"
        )


def reap() -> None:
    """Remove what processes left that died while they made or removed a template."""
    root = paths.templates_dir()
    for pattern in (f".*{_MAKING}", f".*{_LEAVING}"):
        for directory in root.glob(pattern):
            with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB) as ours:
                if ours:
                    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def draft(key: TemplateKey) -> Iterator[Path]:
    """An empty directory of ours in which a template can be made; it is removed at the end unless
    it was published."""
    root = paths.templates_dir()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = paths.templates_dir()  # nobody else was quicker in making it
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


def publish(directory: Path, key: TemplateKey) -> Template:
    """Give a draft that is complete its own name. Where another process was quicker, its template,
    which is for the same key, is the one.

    Raises OSError, or Unusable, with the draft as it was.
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
            if (theirs := find(key)) is not None:  # throws away what is not whole
                return theirs
            continue
        try:
            _flush(final.parent)
        except OSError:
            final.rename(directory)  # it is still locked, so nobody uses it
            raise
        return replace(made, directory=final)
    raise Unusable(f"the template {key.name} is damaged, but in use, so it cannot be replaced")


def free_bytes(path: Path) -> int:
    """What an ordinary user can still write on the file system of ``path``, which may not exist."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _kept() -> list[Kept]:
    root = paths.templates_dir()
    if not root.is_dir():
        return []
    found = []
    for entry in os.scandir(root):
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(FileNotFoundError):  # removed just now
            found.append(_look_at(Path(entry.path)))
    return found


def _look_at(directory: Path) -> Kept:
    template = manifest.read(directory)
    damage = "its manifest cannot be read" if template is None else template.damage()
    allocated = manifest.usage(directory)[1]
    return Kept(directory.name, template, damage, allocated, directory.stat().st_mtime)


def _remove(directory: Path) -> bool:
    """Remove a template unless it is in use; a name that begins with a dot hides it first."""
    with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB) as ours:
        if not ours:
            return False
        leaving = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}{_LEAVING}")
        directory.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)
        return True


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[bool]:
    """Whether the directory is there, under its name, and locked; the lock ends with the block."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
    """Whether what was opened still has that name: who waited for a lock may have lost it."""
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _flush(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
