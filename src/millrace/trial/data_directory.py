"""The data directory of a trial: restored from a snapshot, made first if there is none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millrace.loadgen import client as load
from millrace.model import measurements as names
from millrace.servers import snapshots
from millrace.servers.instances.lifecycle import Instance
from millrace.servers.snapshots import PageCache, SnapshotKey
from millrace.store.records import MeasurementRecord
from millrace.trial.resolved_workload import ResolvedWorkload


class DataDirectory:
    """What is in the data directory of ``instance``, and how it came there.

    ``is_there`` says whether the data is in it and its server is to be started; ``snapshot`` is
    what it can be restored from, None where it has to be made; ``is_kept`` is false where none can
    be made, so that the trial goes on with what it made itself. ``loaded_by`` are facts about how
    tables were loaded, which a snapshot keeps.
    """

    @classmethod
    def with_tables(cls, instance: Instance, work: ResolvedWorkload) -> DataDirectory:
        """Return the data directory with the tables of ``work``."""
        made_of = {**work.made_of, "versions": load.versions()}
        key = snapshots.key(instance.server, instance.options, made_of, user=instance.runs_as)
        return cls(instance, key, work.values["page_cache"], is_warmed=bool(work.warming))

    @classmethod
    def initialised(cls, instance: Instance) -> DataDirectory:
        """Return the data directory as the server initialises it, with nothing loaded. Its files
        are in the page cache, where initialising leaves them."""
        options = replace(instance.options, applied=instance.shaping_options())
        key = snapshots.key(instance.server, options, {"initialised": True}, user=instance.runs_as)
        return cls(instance, key, "warm", is_warmed=False)

    def __init__(
        self, instance: Instance, key: SnapshotKey, page_cache: PageCache, *, is_warmed: bool
    ) -> None:
        self._instance = instance
        self._page_cache = page_cache
        self._key = key
        self._restored: snapshots.Restored | None = None
        self._not_kept: str | None = None
        self._making_began: float | None = None
        self._tables: tuple[snapshots.KeptTable, ...] = ()
        self._is_warmed = is_warmed
        self.snapshot = snapshots.find(self._key)
        self.is_there = False
        self.is_kept = True
        self.loaded_by: Mapping[str, Any] = {} if self.snapshot is None else self.snapshot.facts

    def begin(self) -> None:
        """The making of the data begins."""
        self._making_began = time.monotonic()

    def prepare(self, limit_s: float) -> None:
        """Have the running server leave nothing for the trials to do, and read its tables."""
        try:
            self._tables = snapshots.prepare(self._instance, limit_s=limit_s)
        except snapshots.NotKept as reason:
            self._do_without(reason)

    def save(self, _limit_s: float) -> None:
        """Keep the data directory, whose server was stopped; it is empty then."""
        assert self._making_began is not None
        made_s = time.monotonic() - self._making_began
        try:
            self.snapshot = snapshots.save(
                self._instance, self._key, self.loaded_by, made_s=made_s, tables=self._tables
            )
        except snapshots.NotKept as reason:
            self._do_without(reason)
            self.is_there = True

    def restore(self, _limit_s: float) -> None:
        """Fill the data directory from the snapshot; one that is damaged is done without."""
        assert self.snapshot is not None
        try:
            self._restored = self._instance.restore(self.snapshot, page_cache=self._page_cache)
            self.is_there = True
        except snapshots.Unusable as reason:
            self._do_without(reason)
            self.snapshot = None

    @property
    def is_restored(self) -> bool:
        """Whether the data directory is a copy of ``snapshot``."""
        return self.snapshot is not None and self._restored is not None

    def check_tables(self, _limit_s: float) -> None:
        """Raise TrialFailed unless the started server has the tables of the snapshot.

        Tables that are warmed up afterwards are read as a whole where they are small; others are to
        stay out of memory.
        """
        assert self.snapshot is not None
        snapshots.verify_tables(self._instance, self.snapshot, whole=self._is_warmed)

    def _do_without(self, reason: Exception) -> None:
        self.is_kept = False
        self._not_kept = str(reason)

    def facts(self) -> dict[str, Any]:
        """How the data came there, for the record of the instance."""
        if self.snapshot is None or self._restored is None:
            return {"snapshot": None, "snapshot_not_kept": self._not_kept, **self.loaded_by}
        return {
            **self.loaded_by,
            "snapshot": self.snapshot.name,
            "snapshot_restored_by": self._restored.how,
            "page_cache": self._restored.page_cache,
        }

    def measurements(self) -> tuple[MeasurementRecord, ...]:
        """What restoring took, and what it saved: the making of the data, unless it was made just
        now."""
        if self.snapshot is None or self._restored is None:
            return ()
        restore = MeasurementRecord(names.SNAPSHOT_RESTORE_S, self._restored.seconds)
        if self._making_began is not None:
            return (restore,)
        return (restore, MeasurementRecord(names.SNAPSHOT_SAVED_S, self.snapshot.made_s))
