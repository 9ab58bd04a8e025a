"""The steps of a trial on a server of ours: from a fresh data directory to a clean stop."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from millrace.errors import TrialFailed
from millrace.load.spec import Connection, RunSpec
from millrace.runner import measuring, phases
from millrace.runner.measuring import ASK_LIMIT_S, SETTLE_LIMIT_S, STOP_LIMIT_S
from millrace.runner.phases import DataFile
from millrace.runner.steps import Step
from millrace.servers import instances
from millrace.servers.instances import Instance
from millrace.servers.model import InstalledServer
from millrace.store.records import MeasurementRecord, StepRecord

DATABASE = "millrace"

_PREPARE_LIMIT_S = 3600.0  # may copy the data file to another filesystem
_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 180.0


@dataclass
class OwnServerTrial:
    """One trial; each method is a step. The instance lives until ``opened`` is closed."""

    given: measuring.TrialInput
    server: InstalledServer
    opened: ExitStack
    found: measuring.Found
    announce: measuring.Announce
    _instance: Instance = field(init=False)
    _data_file: DataFile | None = field(init=False, default=None)

    def steps(self) -> Sequence[Step]:
        """The steps in their order, with their time limits."""
        return (
            Step("prepare", self._prepare, _PREPARE_LIMIT_S),
            Step("initialise", self._initialise, _INITIALISE_LIMIT_S),
            Step("start", self._start, _START_LIMIT_S),
            Step("record", self._record, ASK_LIMIT_S),
            Step("database", self._database, ASK_LIMIT_S),
            Step("settle", self._settle, SETTLE_LIMIT_S),
            Step("measure", self._measure, phases.limit_s(self.given.work)),
            Step("stop", self._stop, STOP_LIMIT_S),
            Step("sizes", self._sizes, ASK_LIMIT_S),
        )

    def _prepare(self, _limit_s: float) -> None:
        instance = instances.create(self.server, self.given.options)
        self._instance = self.opened.enter_context(instance)
        self.found.log_tail = self._instance.log_tail
        self.found.log = self._log
        if self.given.data_file is not None:
            self._data_file = _linked_into(self._instance.load_dir, self.given.data_file)

    def _initialise(self, limit_s: float) -> None:
        self._instance.initialise(limit_s)

    def _start(self, limit_s: float) -> None:
        self._instance.start(limit_s)

    def _record(self, _limit_s: float) -> None:
        instance = self._instance
        facts = {"runs_as": instance.runs_as}
        self.found.instances.append(
            measuring.instance_record(self.given, instance.version(), instance.effective(), facts)
        )

    def _database(self, _limit_s: float) -> None:
        self._instance.query(f"CREATE DATABASE {DATABASE}")

    def _settle(self, _limit_s: float) -> None:
        measuring.settle(self._data_file)

    def _measure(self, limit_s: float) -> Sequence[StepRecord]:
        return measuring.measure(
            self.given,
            self._spec(),
            self.found,
            announce=self.announce,
            watch=self._watch,
            limit_s=limit_s,
        )

    def _spec(self) -> RunSpec:
        connection = Connection(
            socket=self._instance.socket,
            user=self._instance.user,
            password=self._instance.password,
            database=DATABASE,
        )
        return phases.spec(self.given.work, connection, self._data_file)

    def _watch(self) -> None:
        self._instance.check_alive()
        trouble = self._instance.trouble()
        if trouble is not None:
            raise TrialFailed(trouble, log_tail=self._instance.log_tail())

    def _stop(self, limit_s: float) -> None:
        self._instance.stop(limit_s)

    def _sizes(self, _limit_s: float) -> None:
        table = self.given.work.workload.data.table
        self.found.measurements.extend(sizes(self._instance.data_dir, table))

    def _log(self) -> bytes | None:
        path = self._instance.error_log
        return path.read_bytes() if path.is_file() else None


def _linked_into(directory: Path, data_file: DataFile) -> DataFile:
    """The data file under the only directory the server may read; a hard link costs no disk."""
    place = directory / data_file.path.name
    try:
        os.link(data_file.path, place)
    except OSError:
        shutil.copyfile(data_file.path, place)  # another filesystem
    return DataFile(place)


def sizes(data_dir: Path, table: str) -> tuple[MeasurementRecord, ...]:
    """Bytes on disk after a clean stop, apparent and allocated: holes are not allocated."""
    apparent = allocated = table_apparent = table_allocated = 0
    for path in data_dir.rglob("*"):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            continue
        apparent += status.st_size
        allocated += status.st_blocks * 512
        if path.parent.name == DATABASE and path.name.split(".")[0] == table:
            table_apparent += status.st_size
            table_allocated += status.st_blocks * 512
    return (
        MeasurementRecord("data_dir_apparent_bytes", apparent),
        MeasurementRecord("data_dir_allocated_bytes", allocated),
        MeasurementRecord("table_apparent_bytes", table_apparent),
        MeasurementRecord("table_allocated_bytes", table_allocated),
    )
