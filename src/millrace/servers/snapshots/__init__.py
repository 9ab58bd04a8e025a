"""Keep loaded data directories as snapshots, and restore them for every trial.

A restored trial starts from the same bytes, and the same state of the page cache, as every other
trial with the same key. It starts much sooner than a trial that initialises and loads:

    wanted = snapshots.key(server, options, data, user=instance.runs_as)
    snapshot = snapshots.find(wanted)
    if snapshot is None:
        instance.initialise(...); instance.start(...); load, verify
        tables = snapshots.prepare(instance)  # still running: finishes pending work
        instance.stop(...)
        snapshot = snapshots.save(instance, wanted, facts, made_s=..., tables=tables)
    restored = snapshots.restore(instance, snapshot, page_cache="cold")
    instance.start(...)
    snapshots.verify_tables(instance, snapshot, whole=...)

Two errors do not fail a trial. After ``NotSaved`` (from prepare and save), the data directory is
unchanged, and the trial continues with it. After ``Unusable`` (from restore), the snapshot was
damaged and has been removed; the data directory is empty, ready to be initialised and loaded.

``page_cache`` is ``cold`` by default: every file is written back and dropped from the page cache,
which is possible with any amount of memory. If a workload needs its data in the server's memory,
its own warm-up reads the data, equally for buffered and for direct I/O. ``warm`` reads every file
into the page cache, for buffered I/O with the page cache as fast storage.

A reflink shares blocks with the snapshot, so the file system allocates a new block at the first
write to each block. This is the same for all trials of a run, but differs from a copy. Saving
evicts the least recently used snapshots to stay below ``limit_bytes()``.
"""

from millrace.databases.table_checks import KeptTable
from millrace.servers.snapshots.create_restore import (
    NotSaved,
    Restored,
    prepare,
    restore,
    save,
    verify_tables,
)
from millrace.servers.snapshots.data_files import State as PageCache
from millrace.servers.snapshots.key import SnapshotKey, key
from millrace.servers.snapshots.manifest import Snapshot
from millrace.servers.snapshots.repository import (
    LIMIT_VARIABLE,
    SnapshotListing,
    Unusable,
    evict,
    find,
    limit_bytes,
    listing,
    named_limit_bytes,
    reap,
    remove,
)

__all__ = [
    "LIMIT_VARIABLE", "KeptTable", "NotSaved", "PageCache", "Restored", "Snapshot", "SnapshotKey",
    "SnapshotListing", "Unusable", "evict", "find", "key", "limit_bytes", "listing",
    "named_limit_bytes", "prepare", "reap", "remove", "restore", "save", "verify_tables",
]  # fmt: skip
