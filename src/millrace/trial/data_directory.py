"""Provide the data directory of a server: restored from a snapshot, made first if there is none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from millrace.loadgen import datasets
from millrace.model import measurements as names
from millrace.servers import snapshots
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import PageCache, SnapshotKey
from millrace.store.records import MeasurementRecord
from millrace.trial.resolved_workload import ResolvedWorkload

DATABASE = "millrace"


class DataDirectory:
    """The data directory of ``instance``, and the origin of its content."""

    @classmethod
    def with_tables(cls, instance: Instance, workload: ResolvedWorkload) -> DataDirectory:
        """Return the data directory with the tables of ``workload``."""
        content = {**workload.content_key, "versions": datasets.versions()}
        key = snapshots.key(instance.server, instance.options, content, user=instance.runs_as)
        return cls(instance, key, workload.page_cache, is_warmed=bool(workload.warming_phases))

    @classmethod
    def initialised(cls, instance: Instance) -> DataDirectory:
        """Return the directory as the server initialises it, with its files in the page cache."""
        options = replace(instance.options, applied=instance.init_options())
        key = snapshots.key(instance.server, options, {"initialised": True}, user=instance.runs_as)
        return cls(instance, key, "warm", is_warmed=False)

    def __init__(
        self, instance: Instance, key: SnapshotKey, page_cache: PageCache, *, is_warmed: bool
    ) -> None:
        self._instance = instance
        self._page_cache = page_cache
        self._key = key
        self._restored: snapshots.Restored | None = None
        self._why_not_saved: str | None = None
        self._making_began: float | None = None
        self._tables: tuple[snapshots.KeptTable, ...] = ()
        self._is_warmed = is_warmed
        self.snapshot = snapshots.find(self._key)  # to restore; None where it must be made
        self.is_there = False  # with its data, so that the server can start
        self.can_be_saved = True  # as a snapshot
        self.loaded_by: Mapping[str, object] = {} if self.snapshot is None else self.snapshot.facts

    def begin(self) -> None:
        """Note the time at which the data is made."""
        self._making_began = time.monotonic()

    def prepare(self, limit_s: float) -> None:
        """Make the running server complete its pending work, and record its tables."""
        try:
            self._tables = snapshots.prepare(self._instance, limit_s=limit_s)
        except snapshots.NotSaved as reason:
            self._do_without(reason)

    def save(self, _limit_s: float) -> None:
        """Save the data directory of the stopped server; the directory is empty afterwards."""
        assert self._making_began is not None
        made_s = time.monotonic() - self._making_began
        try:
            self.snapshot = snapshots.save(
                self._instance, self._key, self.loaded_by, made_s=made_s, tables=self._tables
            )
        except snapshots.NotSaved as reason:
            self._do_without(reason)
            self.is_there = True

    def restore(self, _limit_s: float) -> None:
        """Fill the data directory from the snapshot; ignore a damaged one."""
        assert self.snapshot is not None
        try:
            self._restored = snapshots.restore(
                self._instance, self.snapshot, page_cache=self._page_cache
            )
            self.is_there = True
        except snapshots.Unusable as reason:
            self._do_without(reason)
            self.snapshot = None

    @property
    def is_restored(self) -> bool:
        """True where the directory is a copy of ``snapshot``."""
        return self.snapshot is not None and self._restored is not None

    def check_tables(self, _limit_s: float) -> None:
        """Raise TrialFailed unless the server has the snapshot's tables; read whole if warmed."""
        assert self.snapshot is not None
        snapshots.verify_tables(self._instance, self.snapshot, whole=self._is_warmed)

    def _do_without(self, reason: Exception) -> None:
        self.can_be_saved = False
        self._why_not_saved = str(reason)

    def facts(self) -> dict[str, object]:
        """Return the origin of the data, for the record of the instance."""
        if self.snapshot is None or self._restored is None:
            return {"snapshot": None, "snapshot_not_kept": self._why_not_saved, **self.loaded_by}
        return {
            **self.loaded_by,
            "snapshot": self.snapshot.name,
            "snapshot_restored_by": self._restored.how,
            "page_cache": self._restored.page_cache,
        }

    def measurements(self, role: str) -> tuple[MeasurementRecord, ...]:
        """Return the time of restoring, and the time that it saved, if any."""
        if self.snapshot is None or self._restored is None:
            return ()
        restore = MeasurementRecord(names.SNAPSHOT_RESTORE_S, self._restored.seconds, role)
        if self._making_began is not None:
            return (restore,)
        return restore, MeasurementRecord(names.SNAPSHOT_SAVED_S, self.snapshot.made_s, role)
