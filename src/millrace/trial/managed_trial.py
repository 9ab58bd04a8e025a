"""The steps of a trial on a server of ours: from a fresh data directory to a clean stop."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.databases.client import QUERY_LIMIT_S
from millrace.errors import HostError, TrialFailed
from millrace.loadgen import client as load
from millrace.loadgen.spec import Connection, Tls
from millrace.model import measurements as names
from millrace.model.servers import InstalledServer
from millrace.servers.instances import error_log, instance_paths, lifecycle
from millrace.servers.instances.closing import close_tree
from millrace.servers.instances.lifecycle import Instance
from millrace.servers.snapshots import manifest
from millrace.store.records import MeasurementRecord, StepRecord
from millrace.trial import measure, time_limits
from millrace.trial.barrier import LIMIT_S, READY, Meet, alone
from millrace.trial.client_preparation import ClientPreparation, note
from millrace.trial.data_directory import DataDirectory
from millrace.trial.measure import SETTLE_LIMIT_S, STOP_LIMIT_S
from millrace.trial.phase_spec import spec as phase_spec
from millrace.trial.resolved_workload import DataFile
from millrace.trial.steps import Step
from millrace.workloads import Phase

DATABASE = "millrace"

_COPY_LIMIT_S = 3600.0
_PREPARE_LIMIT_S = _COPY_LIMIT_S  # may copy the data file to another filesystem
_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 180.0


@dataclass
class ManagedTrial:
    """One trial; each method is a step. The instance lives until ``opened`` is closed."""

    given: measure.TrialSpec
    server: InstalledServer
    opened: ExitStack
    found: measure.Found
    announce: measure.Announce
    meet: Meet = alone
    _instance: Instance = field(init=False)
    _data_file: DataFile | None = field(init=False, default=None)
    _data: DataDirectory = field(init=False)
    _driving: ClientPreparation | None = field(init=False, default=None)

    def steps(self) -> Iterator[Step]:
        """The steps in their order, with their time limits."""
        work = self.given.work
        yield Step("prepare", self._prepare, _PREPARE_LIMIT_S)
        if work.is_restorable:
            yield from self._restored(self._tables_kept)
            yield Step("record", self._record, QUERY_LIMIT_S)
            if self._data.is_restored:
                yield Step("check_tables", self._data.check_tables, QUERY_LIMIT_S)
        else:
            yield from (
                self._restored(self._nothing_kept) if work.keeps_snapshots else self._started()
            )
            yield Step("record", self._record, QUERY_LIMIT_S)
            yield from self._made()
        if work.workload.drives:
            self._driving = ClientPreparation(
                work, self._instance, DATABASE, self._run,
                self.found.measurements, self.found.instances,
            )  # fmt: skip
            yield from self._driving.steps()
        else:
            yield Step("settle", self._settle, SETTLE_LIMIT_S)
        if self.given.half is not None:
            yield Step("meet", self._meet, LIMIT_S)
        yield Step("measure", self._measure, measure.limit_s(work))
        if self.given.stops_cleanly:
            yield Step("stop", self._stop, STOP_LIMIT_S)
            yield Step("sizes", self._sizes, QUERY_LIMIT_S)
        else:
            yield Step("kill", self._kill, STOP_LIMIT_S)

    def _restored(self, make: Callable[[], Iterator[Step]]) -> Iterator[Step]:
        """A server that runs on a data directory restored from a snapshot, also in the trial that
        makes it, so that all start alike. Where ``make`` made one that cannot be kept, its server
        runs and goes on."""
        data = self._data
        while not data.is_there:
            if data.snapshot is not None:
                yield Step("restore", data.restore, _COPY_LIMIT_S)
                continue
            data.begin()
            yield from make()
            if not data.is_kept:
                return
            yield Step("save", data.save, _COPY_LIMIT_S)
        yield Step("start", self._start, _START_LIMIT_S)

    def _nothing_kept(self) -> Iterator[Step]:
        """A data directory with what the server initialises alone, to be kept."""
        yield Step("initialise", self._initialise, _INITIALISE_LIMIT_S)
        if not self._data.is_kept:
            yield Step("start", self._start, _START_LIMIT_S)

    def _tables_kept(self) -> Iterator[Step]:
        """A data directory with the loaded tables, to be kept."""
        yield from self._started()
        yield from self._made()
        if self._data.is_kept:
            yield Step("keep", self._data.prepare, time_limits.scan_limit_s(self.given.work))
        if self._data.is_kept:
            yield Step("stop", self._stop, STOP_LIMIT_S)

    def _started(self) -> Iterator[Step]:
        yield Step("initialise", self._initialise, _INITIALISE_LIMIT_S)
        yield Step("start", self._start, _START_LIMIT_S)

    def _made(self) -> Iterator[Step]:
        """The trial's database, and the tables that are loaded before anything is measured."""
        yield Step("database", self._database, QUERY_LIMIT_S)
        yield from measure.make_steps(
            self.given.work, self._instance, DATABASE, self._run, self._note_loading
        )

    def _prepare(self, _limit_s: float) -> None:
        # Another user of the host could take the port before the server does.
        by_tcp = self._transport() == "tcp"
        instance = lifecycle.create(self.server, self.given.options, by_tcp=by_tcp)
        self._instance = self.opened.enter_context(instance)
        self.found.log_tail = self._instance.log_tail
        self.found.log = self._log
        if self.given.data_file is not None:
            self._data_file = _linked_into(self._instance.load_dir, self.given.data_file)
        work = self.given.work
        self._data = (
            DataDirectory.with_tables(self._instance, work)
            if work.is_restorable
            else DataDirectory.initialised(self._instance)
        )

    def _note_loading(self, facts: Mapping[str, Any]) -> None:
        if self.given.work.is_restorable:
            self._data.loaded_by = facts
        else:
            note(self.found.instances, facts)

    def _initialise(self, limit_s: float) -> None:
        self._instance.initialise(limit_s)

    def _start(self, limit_s: float) -> None:
        try:
            self._instance.start(limit_s)
        except TrialFailed as failure:
            self._refuse_taken_port(failure)
            raise

    def _refuse_taken_port(self, failure: TrialFailed) -> None:
        """Raise HostError where another process listens at the server's port: who takes a port
        makes no server fail."""
        if self._transport() != "tcp":
            return
        instance = self._instance
        instance.kill()
        if instance_paths.is_listened_at(instance.port):
            raise HostError(
                f"another process of this host listens at the port {instance.port}, which was "
                f"chosen for {instance.server.name}",
                hint="end that process, which ss -ltnp names, and run the command again, or "
                "use the transport socket",
            ) from failure

    def _record(self, _limit_s: float) -> None:
        instance = self._instance
        facts: dict[str, Any] = {"runs_as": instance.runs_as, **self._data.facts()}
        self.found.measurements.extend(self._data.measurements())
        self.found.instances.append(
            measure.instance_record(self.given, instance.version(), instance.settings(), facts)
        )

    def _database(self, _limit_s: float) -> None:
        self._instance.family.administration.create_database(
            self._instance, DATABASE, QUERY_LIMIT_S
        )

    def _settle(self, _limit_s: float) -> None:
        measure.write_back(self._data_file)

    def _meet(self, _limit_s: float) -> None:
        self.meet(READY)
        self._watch()

    def _run(self, phases: Sequence[Phase], limit_s: float) -> load.LoadResult:
        """Phases that only prepare go by the shortest way."""
        spec = phase_spec(phases, self.given.work, self._connection("socket"))
        return measure.run_phases(spec, self._listener(), limit_s)

    def _measure(self, limit_s: float) -> Sequence[StepRecord]:
        values = self.given.work.values
        connection = self._connection(
            self._transport(), Tls("required") if values.get("tls") else None
        )
        return measure.measure(
            self.given,
            connection,
            self.found,
            instance=self._instance,
            database=DATABASE,
            listener=self._listener(),
            driving=self._driving,
            limit_s=limit_s,
            data_file=self._data_file,
            meet=self.meet,
        )

    def _transport(self) -> str:
        return str(self.given.work.values.get("transport", "socket"))

    def _connection(self, transport: str, tls: Tls | None = None) -> Connection:
        instance = self._instance
        by_socket = transport == "socket"
        return Connection(
            socket=instance.client_socket if by_socket else None,
            host=None if by_socket else "127.0.0.1",
            port=None if by_socket else instance.port,
            user=instance.user,
            password=instance.password,
            database=DATABASE,
            tls=tls,
            # The kernel confirmed that the process which listens is the one that was started.
            allow_unverified=True,
        )

    def _listener(self) -> measure.Listener:
        return measure.Listener(self.announce, self._watch)

    def _watch(self) -> None:
        self._instance.check_alive()
        trouble = self._instance.trouble()
        if trouble is not None:
            raise TrialFailed(trouble, log_tail=self._instance.log_tail())

    def _stop(self, limit_s: float) -> None:
        self._instance.stop(limit_s)

    def _kill(self, _limit_s: float) -> None:
        """End the server, whose data nobody reads again; one that has crashed fails the trial."""
        self._instance.check_alive(step="kill")
        self._instance.kill()

    def _sizes(self, _limit_s: float) -> None:
        data = self.given.work.workload.data
        table = None if data is None else data.table
        self.found.measurements.extend(sizes(self._instance.data_dir, table))

    def _log(self) -> bytes | None:
        return error_log.whole(self._instance.error_log)


def _linked_into(directory: Path, data_file: DataFile) -> DataFile:
    """The data file under the only directory the server may read; a hard link costs no disk."""
    place = directory / data_file.path.name
    try:
        os.link(data_file.path, place)
    except OSError:
        shutil.copyfile(data_file.path, place)  # another filesystem
        place.chmod(0o644)
    return DataFile(place)


def sizes(data_dir: Path, table: str | None) -> tuple[MeasurementRecord, ...]:
    """Bytes on disk after a clean stop, apparent and allocated: holes are not allocated. ``table``
    None stands for all of the trial's tables. Nobody else reaches the directory afterwards."""
    close_tree(data_dir)
    apparent = allocated = table_apparent = table_allocated = 0
    for path, status in manifest.walk(data_dir):
        if not stat.S_ISREG(status.st_mode):
            continue
        apparent += status.st_size
        allocated += status.st_blocks * 512
        if path.parent.name == DATABASE and table in (None, path.name.split(".")[0]):
            table_apparent += status.st_size
            table_allocated += status.st_blocks * 512
    return (
        MeasurementRecord(names.DATA_DIR_APPARENT_BYTES, apparent),
        MeasurementRecord(names.DATA_DIR_ALLOCATED_BYTES, allocated),
        MeasurementRecord(names.TABLE_APPARENT_BYTES, table_apparent),
        MeasurementRecord(names.TABLE_ALLOCATED_BYTES, table_allocated),
    )
