"""Templates: loaded data directories that are kept, and restored for every trial.

A trial that restores starts from the same bytes as every other one of its key, with the same state
of the page cache, and much sooner than one that initialises and loads:

    wanted = templates.key(server, options, data, user=instance.runs_as)
    template = templates.find(wanted)
    if template is None:
        instance.initialise(...); instance.start(...); load, verify
        tables = templates.prepare(instance)  # still running: what is left to do is done
        instance.stop(...)
        template = templates.save(instance, wanted, facts, made_s=..., tables=tables)
    restored = instance.restore(template, page_cache="cold")
    instance.start(...)
    templates.verify_tables(instance, template, whole=...)

Two errors are no failures of a trial. ``NotKept`` (from prepare and save): the data directory is
where it was, and the trial goes on with it. ``Unusable`` (from restore): the template was damaged
and has been thrown away; the data directory is empty, to be initialised and loaded.

``page_cache`` is ``cold``, the default: every file is written back and dropped from the page cache;
this is a state that can always be reached, whatever the memory, and a server that wants its data in
memory gets it by the workload's own warm-up, equally for buffered and for direct I/O. ``warm``
reads every file in: for buffered I/O where the page cache is meant to be the fast storage.

A reflink shares blocks with the template, so the first write to each of them makes the file system
allocate another one. That is the same for all trials of a run, but it is not the same as a copy.

Eviction: ``evict(limit_bytes)``, least recently used first, never one in use; saving evicts by
itself to stay below ``limit_bytes()``.
"""

from __future__ import annotations

from millrace.databases.table_checks import KeptTable
from millrace.servers.snapshots.create_restore import NotKept, Restored, prepare, save
from millrace.servers.snapshots.key import TemplateKey, key
from millrace.servers.snapshots.manifest import Template
from millrace.servers.snapshots.page_cache import State as PageCache
from millrace.servers.snapshots.repository import (
    LIMIT_VARIABLE,
    Kept,
    Unusable,
    evict,
    find,
    limit_bytes,
    listing,
    reap,
    remove,
)
from millrace.servers.snapshots.tables import verify_tables

__all__ = [
    "LIMIT_VARIABLE",
    "Kept",
    "KeptTable",
    "NotKept",
    "PageCache",
    "Restored",
    "Template",
    "TemplateKey",
    "Unusable",
    "evict",
    "find",
    "key",
    "limit_bytes",
    "listing",
    "prepare",
    "reap",
    "remove",
    "save",
    "verify_tables",
]
