"""Create snapshots of instances, and restore data directories from them.

A snapshot leaves out files that each start of a server creates, and truncates some others (see the
family's rules). Everything else stays as it was after the clean stop.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from millrace import paths
from millrace.databases.base import ServerClient, SnapshotRules
from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.databases.table_checks import KeptTable, difference, read
from millrace.errors import DatabaseError, HostError, TrialFailed
from millrace.model.servers import FittedOptions
from millrace.quantities import readable_size, utc_now
from millrace.servers.instances.closing import close_tree, give, give_tree
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import data_files, manifest, repository
from millrace.servers.snapshots.data_files import State as PageCache
from millrace.servers.snapshots.data_files import bring, copy_tree, write_back
from millrace.servers.snapshots.key import SnapshotKey
from millrace.servers.snapshots.manifest import Snapshot
from millrace.shown_text import shown_line

# Saving copies, reads and records each file: 100,000 tables with two files each.
_MOST_FILES = 200_000


class NotSaved(HostError):
    """An error for a data directory that cannot become a snapshot; the trial goes on with it."""


@dataclass(frozen=True)
class Restored:
    """The result of a restore."""

    seconds: float  # including write-back and page cache
    how: str  # reflink or copy
    bytes: int
    page_cache: PageCache


def prepare(instance: Instance, *, limit_s: float = QUERY_LIMIT_S) -> tuple[KeptTable, ...]:
    """Finish a running server's pending work before it is stopped, and record its tables.

    Return the tables, for the comparison with a restored server's. ``limit_s`` limits each wait for
    an answer. Raise NotSaved if tables would not survive the stop or cannot be compared,
    TrialFailed if the server reports an error.
    """
    rules = instance.family.snapshots
    if (lost := rules.prepare(instance)) is not None:
        raise NotSaved(lost)
    try:
        with contextlib.closing(instance.connect(limit_s=limit_s)) as session:
            return rules.record_tables(session)
    except DatabaseError as error:
        raise NotSaved(f"cannot read its tables: {error.message}") from error
    except ValueError as error:
        raise NotSaved(f"cannot read its tables: {error}") from error


def save(
    instance: Instance,
    key: SnapshotKey,
    facts: Mapping[str, object],
    *,
    made_s: float,
    tables: Sequence[KeptTable] = (),
) -> Snapshot:
    """Save the data directory of an instance that was stopped cleanly as a snapshot.

    ``facts`` are plain data (JSON) for users of the snapshot; ``made_s`` is the time for
    initialising and loading, in seconds; ``tables`` are those that ``prepare`` returned, empty if
    none were loaded. Evict older snapshots to make room. The instance's data directory is empty
    afterwards: restore the snapshot into it. Raise NotSaved, with the data directory unchanged, if
    there is too little room or the directory is not self-contained.
    """
    if instance.pid is not None:
        raise ValueError(f"{instance.id} is running: stop it before making a snapshot")
    owner = instance.data_dir.stat()
    try:
        close_tree(instance.data_dir)
    except OSError as error:
        raise HostError(
            f"cannot save {instance.data_dir} as a snapshot: taking ownership of it failed: "
            f"{error.strerror}"
        ) from error
    try:
        _refuse_what_is_not_whole(instance, owner.st_uid)
        allocated = manifest.usage(instance.data_dir)[1]
        _make_room(key, allocated)
        with repository.draft(key) as draft:
            snapshot = _make(
                instance, key, draft, facts=dict(facts), made_s=made_s, tables=tuple(tables)
            )
    except BaseException as reason:
        give_tree(instance.data_dir, owner.st_uid, owner.st_gid)
        if isinstance(reason, repository.Unusable):
            raise NotSaved(reason.message, hint=reason.hint) from reason
        if isinstance(reason, OSError):
            raise NotSaved(
                f"cannot save the data directory of {instance.server.name} as a snapshot: "
                f"{reason.strerror} ({reason.filename or paths.snapshots_dir()})",
                hint="free space there, or set MILLRACE_SNAPSHOTS to another directory",
            ) from reason
        raise
    try:
        empty(instance.data_dir)  # of files that were copied, not moved
    except OSError as error:
        raise HostError(
            f"cannot empty {instance.data_dir} after copying it to a snapshot: {error.strerror}"
        ) from error
    return snapshot


def restore(instance: Instance, snapshot: Snapshot, *, page_cache: PageCache = "cold") -> Restored:
    """Restore a snapshot into the empty data directory of an instance.

    The instance then has the snapshot's accounts and password. ``page_cache`` is the wanted state
    of its files in the page cache. Raise ``Unusable``, with the directory empty again, if the
    snapshot is gone or was changed, and HostError for a disk error.
    """
    data_dir, uid = instance.data_dir, instance.uid
    if any(data_dir.iterdir()):
        raise ValueError(f"{data_dir} is not empty: restore a snapshot before initialising")
    began = time.monotonic()
    try:
        close_tree(data_dir)  # no other user gets access before all files are there
        with repository.in_use(snapshot):
            copied = copy_tree(snapshot.data_dir, data_dir, uid)
        bring(data_dir, page_cache)
        give(data_dir, uid)
    except OSError as error:
        _empty_for(uid, data_dir)
        raise HostError(
            f"cannot restore snapshot {snapshot.name} into {data_dir}: {error.strerror}",
            hint="free space there, or set MILLRACE_WORK to another directory",
        ) from error
    except BaseException:
        _empty_for(uid, data_dir)
        raise
    instance.set_password(snapshot.password)
    return Restored(time.monotonic() - began, copied.how, copied.bytes, page_cache)


def empty(directory: Path) -> None:
    """Remove everything in a directory, but not the directory itself."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def _empty_for(uid: int | None, directory: Path) -> None:
    empty(directory)
    give(directory, uid)


def _make(
    instance: Instance,
    key: SnapshotKey,
    draft: Path,
    *,
    facts: dict[str, object],
    made_s: float,
    tables: tuple[KeptTable, ...],
) -> Snapshot:
    """Move the data directory into the draft and publish that; undo everything on an error."""
    data_dir, kept = instance.data_dir, draft / manifest.DATA
    try:
        _move(data_dir, kept)
        _leave_out(kept, instance.options, instance.family.snapshots)
        bring(kept, "cold")
        # User ids of instances are reused, so a snapshot belongs to none of them.
        give_tree(kept, os.geteuid(), os.getegid())
        apparent, allocated = manifest.usage(kept)
        files = manifest.list_files(kept)
        snapshot = Snapshot(
            key=key,
            directory=draft,
            password=instance.password,
            facts=facts,
            made_s=made_s,
            made_utc=utc_now(),
            bytes=apparent,
            allocated_bytes=allocated,
            files=files,
            digests=data_files.digests(kept, [file.path for file in files]),
            tables=tables,
        )
        manifest.write(snapshot)
        if (defect := manifest.defect(draft)) is not None:
            raise repository.Unusable(f"its manifest could not be read back: {defect}")
        write_back(draft)
        return repository.publish(draft, key)  # the directory cannot be moved back after it
    except BaseException:
        moved = not data_dir.exists() or not any(data_dir.iterdir())
        if moved and kept.exists():
            kept.rename(data_dir)
        raise


def _move(data_dir: Path, kept: Path) -> None:
    """Move the directory and leave an empty one; copy it if it is on another file system."""
    if data_dir.stat().st_dev != kept.parent.stat().st_dev:
        kept.mkdir(mode=0o700)
        copy_tree(data_dir, kept, None)
        return
    data_dir.rename(kept)
    data_dir.mkdir(mode=0o700)


def _make_room(key: SnapshotKey, needed_bytes: int) -> None:
    """Evict older snapshots to make room for a new one. Raise NotSaved if there is too little."""
    limit = repository.limit_bytes()
    size = readable_size(needed_bytes)
    if needed_bytes > limit:
        raise NotSaved(
            f"a data directory of {size} exceeds the limit for snapshots ({readable_size(limit)})",
            hint=f"raise the limit with {repository.LIMIT_VARIABLE}",
        )
    repository.evict(limit - needed_bytes, spared=[key.name])
    for place in (paths.snapshots_dir(), paths.work_dir()):
        if repository.free_bytes(place) < needed_bytes:
            raise NotSaved(
                f"not enough space in {place} for the snapshot and a copy of {size}",
                hint="free space there",
            )


def _refuse_what_is_not_whole(instance: Instance, uid: int) -> None:
    """Raise NotSaved unless a data directory is self-contained.

    A part of the data may be outside of it, belong to another user than ``uid``, or be of a type or
    number that no server creates.
    """
    rules = instance.family.snapshots
    for option in instance.options.applied:
        if instance.family.options.leads_away(option.name, option.value or ""):
            raise NotSaved(
                f"{option.name} = {option.value} is outside of the data directory, "
                "so a snapshot would lack those files"
            )
    try:
        for path, status in manifest.walk(instance.data_dir, most=_MOST_FILES):
            refuse_file(path.relative_to(instance.data_dir), status, uid, rules.link_suffixes)
    except manifest.NoDataDirectory as reason:
        raise NotSaved(f"the data directory has {reason.holds}") from reason


def refuse_file(
    name: Path, status: os.stat_result, uid: int, link_suffixes: Collection[str]
) -> None:
    """Raise NotSaved for a file that leads out of the data directory, or not owned by ``uid``."""
    if not str(name).isprintable():
        raise NotSaved(f"no server creates a file named {str(name)!r}")
    if stat.S_ISLNK(status.st_mode) or name.suffix in link_suffixes:
        raise NotSaved(f"{name} is a link to a place outside of the data directory")
    if stat.S_ISREG(status.st_mode) and (status.st_uid != uid or status.st_nlink > 1):
        raise NotSaved(f"{name} has another hard link, or belongs to another user")


def _leave_out(data_dir: Path, options: FittedOptions, rules: SnapshotRules) -> None:
    for path, status in manifest.walk(data_dir):
        if not stat.S_ISREG(status.st_mode) or (
            path.parent == data_dir
            and any(fnmatch(path.name, name) for name in rules.excluded_files)
        ):
            path.unlink()
    for name in rules.truncated_files(options.applied):
        if (dump := data_dir / name).is_file():
            os.close(os.open(dump, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW))


def verify_tables(client: ServerClient, snapshot: Snapshot, *, whole: bool) -> None:
    """Raise TrialFailed if a server on a restored copy returns other rows than recorded.

    Compare samples of each table, or all rows if ``whole``.
    """
    server = client.server.name
    try:
        with contextlib.closing(client.connect(limit_s=QUERY_LIMIT_S)) as session:
            found = ((table, _problem(session, table, whole=whole)) for table in snapshot.tables)
            wrong = next(((table, why) for table, why in found if why is not None), None)
    except DatabaseError as error:
        raise TrialFailed(f"{server}: cannot read its tables: {error.message}") from error
    if wrong is not None:
        table, why = wrong
        raise TrialFailed(
            f"{server}: table {shown_line(table.name)} differs from the snapshot {snapshot.name}: "
            f"{why}",
            hint=f"remove the snapshot with `millrace snapshots remove {snapshot.name}`; the next "
            "trial creates it again",
        )


def _problem(session: Session, table: KeptTable, *, whole: bool) -> str | None:
    """Return why a table differs from the record, or None. Raise DatabaseError if disconnected."""
    expected = (table.whole if whole else None) or table.sample
    try:
        found = read(session, expected.statements)
    except DatabaseError as error:
        if error.kind in ("unreachable", "lost"):
            raise
        return f"cannot be read: {error.message}"
    except ValueError as error:
        return f"cannot be read: {error}"
    return None if found == expected else difference(expected, found)
