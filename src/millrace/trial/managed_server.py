"""Declare the steps of a server that millrace runs: from a data directory to a clean stop."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from millrace.databases.client import QUERY_LIMIT_S
from millrace.databases.table_formats import FileBytes
from millrace.errors import HostError, TrialFailed
from millrace.host.limited_filesystem import LimitedFilesystem, limited_filesystem
from millrace.loadgen.spec import Connection, ConnectionTls
from millrace.model.roles import SOURCE
from millrace.model.servers import InstalledServer
from millrace.servers.instances import instance_paths, lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.launch import Tool
from millrace.servers.snapshots.kept_data import NotResumable
from millrace.trial import full_disk, time_limits, trial_server
from millrace.trial.client_preparation import ClientPreparation, quiesce
from millrace.trial.data_directory import DATABASE, DataDirectory
from millrace.trial.data_file import linked_into
from millrace.trial.file_removal import drop
from millrace.trial.hooks import LiveServer
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.sizes import sizes, table_bytes
from millrace.trial.spec import ServerSpec
from millrace.trial.steps import Step

_COPY_LIMIT_S = 3600.0
_PREPARE_LIMIT_S = _COPY_LIMIT_S  # may copy the data file to another filesystem
_INITIALISE_LIMIT_S = 180.0
_START_LIMIT_S = 180.0


@dataclass
class ManagedServer:
    """One server; each method is a step. The instance lives until the trial's stack closes.

    Steps decide the next ones, in four cases, after *prepare*:

    tables restored         (initialise · start · database · table_format · MAKE · keep · stop ·
                            save ·) (restore · start · warm · fits · age · analyse · keep · stop ·
                            save ·) restore · start · record · check_tables
    initialisation restored (initialise · save ·) restore · start · record · database ·
                            table_format · MAKE
    no snapshots            initialise · start · record · database · table_format · MAKE
    resumed loops           resume · start · record

    MAKE is *make · (age ·) analyse* for tables on which clients are driven; a measured load has
    none. Those in parentheses make the snapshots that are missing, the second ones that of each
    test which comes before the measured one and leaves it its tables. Where one cannot be saved,
    the trial goes on with the server that made it. A tool (``tool_of``) runs the server on the
    trial's own restored tables alone.
    """

    spec: ServerSpec
    server: InstalledServer
    trial: trial_server.TrialContext
    tool_of: Callable[[Instance], Tool] | None = None
    _instance: Instance = field(init=False)
    _data_file: Path | None = field(init=False, default=None)
    _data: DataDirectory = field(init=False)
    _rows: int | None = field(init=False, default=None)
    filesystem: LimitedFilesystem | None = field(init=False, default=None)  # of its data, to fill

    def ready_steps(self) -> Iterator[Step]:
        """Yield the steps that start the server with its tables."""
        workload = self.trial.spec.workload
        yield Step("prepare", self._prepare, _PREPARE_LIMIT_S)
        if self.trial.kept is not None and self.trial.kept.is_there():
            yield Step("resume", self._resume, _COPY_LIMIT_S)
            yield Step("start", self._start_resumed, _COPY_LIMIT_S)
            yield Step("record", self._record, QUERY_LIMIT_S)
            return
        if workload.is_restorable:
            yield from self._restored(self._data, partial(self._make_tables, self._data, workload))
            yield Step("record", self._record, QUERY_LIMIT_S)
            if self._data.is_restored:
                yield Step("check_tables", self._data.check_tables, QUERY_LIMIT_S)
            return
        if workload.keeps_snapshots:
            yield from self._restored(self._data, self._make_initial)
        else:
            yield from self._started()
        yield Step("record", self._record, QUERY_LIMIT_S)
        yield from self._generated(partial(self.trial.outputs.add_facts, self.spec.role))

    def end_steps(self) -> Iterator[Step]:
        """Yield the steps that end the server."""
        workload, measures_files = self.trial.spec.workload, self.trial.spec.stops_cleanly
        if measures_files:
            if workload.writes and not workload.checked.has_maintenance:
                yield Step("rows", self._count_rows, time_limits.scan_limit_s(workload))
            if self.spec.table_format.before_stop:
                yield Step("complete_files", self._complete_files, trial_server.STOP_LIMIT_S)
        if workload.drops_after:
            yield Step("write_back", self._write_back, trial_server.STOP_LIMIT_S)
            if measures_files:
                yield Step("sizes", self._sizes, QUERY_LIMIT_S)
            yield Step("drop", self._drop, trial_server.STOP_LIMIT_S)
        if measures_files:
            yield Step("stop", self._instance.stop, trial_server.STOP_LIMIT_S)
            if not workload.drops_after:
                yield Step("sizes", self._sizes, QUERY_LIMIT_S)
        else:
            yield Step("kill", self._kill, trial_server.STOP_LIMIT_S)

    @property
    def instance(self) -> Instance:
        """The instance, once it is prepared."""
        return self._instance

    @property
    def not_restored(self) -> str | None:
        """The reason why the server's tables do not come from a snapshot; None where they do."""
        if self._data.is_restored:
            return None
        return str(self._data.facts().get("snapshot_not_kept") or "snapshots are off")

    def live(self) -> LiveServer:
        """Return the running server."""
        values = self.trial.spec.workload.values
        tls = ConnectionTls("required") if values.get("tls") else None
        return LiveServer(
            role=self.spec.role,
            client=self._instance,
            database=DATABASE,
            connection=self._connection(by_tcp=False),
            measured_connection=self._connection(by_tcp=self._by_tcp, tls=tls),
            check=self._check,
            data_file=self._data_file,
        )

    def _restored(self, data: DataDirectory, make: Callable[[], Iterator[Step]]) -> Iterator[Step]:
        """Start the server on a data directory that is restored from a snapshot.

        The trial that makes the snapshot restores it too, so that all trials start alike:

        snapshot found          restore · start
        none                    make · save · restore · start
        save refused            make · save · start
        no snapshot possible    make, whose server goes on running
        snapshot damaged        restore, which fails · make, whose server goes on running
        """
        while not data.is_there:
            if data.snapshot is not None:
                yield Step("restore", data.restore, _COPY_LIMIT_S)
                continue
            data.begin()
            yield from make()
            if not data.can_be_saved:
                return
            yield Step("save", data.save, _COPY_LIMIT_S)
        is_measured = data is self._data
        yield Step("start", self._start_restored if is_measured else self._start, _START_LIMIT_S)

    def _make_initial(self) -> Iterator[Step]:
        """Make a data directory with nothing but the server's own initialisation."""
        yield Step("initialise", self._instance.initialise, _INITIALISE_LIMIT_S)
        if not self._data.can_be_saved:
            yield Step("start", self._start, _START_LIMIT_S)

    def _make_tables(self, data: DataDirectory, workload: ResolvedWorkload) -> Iterator[Step]:
        """Make a data directory with a test's tables, as loaded or as the test before left them."""
        if workload.prior:
            yield from self._aged(data, workload.prior[-1])
        else:
            yield from self._started()
            yield from self._generated(partial(self._keep_facts_of, data))
        if data.can_be_saved:
            yield Step("keep", data.prepare, time_limits.scan_limit_s(workload))
        if data.can_be_saved:
            yield Step("stop", self._instance.stop, trial_server.STOP_LIMIT_S)

    def _aged(self, data: DataDirectory, before: ResolvedWorkload) -> Iterator[Step]:
        """Run the test before on its own tables, prepared as if it were measured."""
        data_before = DataDirectory.with_tables(self._instance, before)
        yield from self._restored(data_before, partial(self._make_tables, data_before, before))
        data.begin()  # what comes before is saved by the snapshots of the tests before
        data.loaded_by = data_before.loaded_by
        server = self.live()
        preparation = ClientPreparation(before, server, self.trial.outputs, self.trial.emit)
        for step in preparation.warming_steps():
            yield replace(step, name=f"{step.name} for {before.values['test']}")
        yield trial_server.ageing_step(self.trial, server, [before])
        yield trial_server.analyse_step(server.client, server.database)

    def _started(self) -> Iterator[Step]:
        yield Step("initialise", self._instance.initialise, _INITIALISE_LIMIT_S)
        yield Step("start", self._start, _START_LIMIT_S)

    def _generated(self, keep_facts: Callable[..., None]) -> Iterator[Step]:
        """Make the trial's database, and the tables that are loaded before the measurement."""
        yield Step("database", self._create_database, QUERY_LIMIT_S)
        yield Step("table_format", self._verify_table_format, QUERY_LIMIT_S)
        yield from trial_server.loading_steps(self.trial, self.live(), keep_facts)

    def _prepare(self, _limit_s: float) -> None:
        trial_server.refuse_unavailable(self.spec)
        # Another user of the host could take the port before the server does.
        instance = lifecycle.create(
            self.server, self.spec.options, role=self.spec.role, by_tcp=self._listens
        )
        self._instance = self.trial.opened.enter_context(instance)
        self.trial.outputs.managed[self.spec.role] = self._instance
        if self.trial.spec.workload.checked.fills_disk:
            self.filesystem = self.trial.opened.enter_context(self._limited_filesystem())
        if self.trial.spec.data_file is not None:
            self._data_file = linked_into(self._instance.load_dir, self.trial.spec.data_file)
        workload = self.trial.spec.workload
        self._data = (
            DataDirectory.with_tables(self._instance, workload)
            if workload.is_restorable
            else DataDirectory.initialised(self._instance)
        )

    def _resume(self, _limit_s: float) -> None:
        """Take over the data directory of an attempt that did not end, from which it recovers."""
        assert self.trial.kept is not None
        try:
            self.trial.kept.adopt(self._instance)
        except NotResumable as reason:
            raise TrialFailed(f"the trial cannot go on with its loops: {reason}") from reason

    def _limited_filesystem(self) -> AbstractContextManager[LimitedFilesystem]:
        return limited_filesystem(
            self._instance.directory / "disk.image",
            self._instance.data_dir,
            full_disk.size_bytes(self.trial.spec.workload),
            owner=self._instance.uid,
        )

    @staticmethod
    def _keep_facts_of(data: DataDirectory, **facts: str | None) -> None:
        data.loaded_by = facts

    def _start_restored(self, limit_s: float) -> None:
        self._start(limit_s, None if self.tool_of is None else self.tool_of(self._instance))

    def _start_resumed(self, limit_s: float) -> None:
        """Let the server recover: it may find pages torn, and says so while it repairs them."""
        self._start(limit_s, may_recover=True)
        self._instance.trouble()  # of the recovery, which has ended well

    def _start(
        self, limit_s: float, tool: Tool | None = None, *, may_recover: bool = False
    ) -> None:
        try:
            self._instance.start(limit_s, tool=tool, may_recover=may_recover)
        except TrialFailed as failure:
            if self._listens:
                self._refuse_taken_port(failure)
            raise

    def _refuse_taken_port(self, failure: TrialFailed) -> None:
        """Raise HostError, no failure of the server, where another process has its port."""
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
        self.trial.outputs.measurements.extend(self._data.measurements(self.spec.role))
        facts = {"runs_as": self._instance.runs_as, **self._data.facts()}
        self.trial.record(self.spec, self._instance, facts)

    def _create_database(self, _limit_s: float) -> None:
        self._instance.family.administration.create_database(
            self._instance, DATABASE, QUERY_LIMIT_S
        )

    def _verify_table_format(self, _limit_s: float) -> None:
        instance = self._instance

        def bytes_of(table: str) -> FileBytes:
            return table_bytes(instance.data_dir, instance.family.snapshots, table)

        instance.family.table_formats.verify(instance, DATABASE, self.spec.table_format, bytes_of)

    @property
    def _by_tcp(self) -> bool:
        return self.trial.spec.workload.values.get("transport") == "tcp"

    @property
    def _listens(self) -> bool:
        """True where clients or a replica reach the server by TCP."""
        return self._by_tcp or self.spec.role == SOURCE

    def _connection(self, *, by_tcp: bool, tls: ConnectionTls | None = None) -> Connection:
        instance = self._instance
        return Connection(
            socket=None if by_tcp else instance.client_socket,
            host="127.0.0.1" if by_tcp else None,
            port=instance.port if by_tcp else None,
            user=instance.user,
            password=instance.password,
            database=DATABASE,
            tls=tls,
            # The kernel confirmed that the listening process is the one that millrace started.
            allow_unverified=True,
        )

    def _check(self) -> None:
        self._instance.check_alive()
        trouble = self._instance.trouble()
        if trouble is not None:
            raise TrialFailed(trouble, log_tail=self._instance.log_tail())

    def _kill(self, _limit_s: float) -> None:
        """End the server, whose data nobody reads again; a crashed server fails the trial."""
        self._instance.check_alive(step="kill")
        self._instance.kill()

    def _count_rows(self, limit_s: float) -> None:
        instance = self._instance
        self._rows = instance.family.administration.count_rows(instance, DATABASE, limit_s)

    def _complete_files(self, limit_s: float) -> None:
        for statement in self.spec.table_format.before_stop:
            self._instance.query(statement, limit_s=limit_s)

    def _write_back(self, limit_s: float) -> None:
        """Write every page, so that the files have their sizes and a DROP finds the same state."""
        quiesced = quiesce(self._instance, limit_s=limit_s / 2)
        if not quiesced.settled:
            self.trial.outputs.add_facts(self.spec.role, unsettled=list(quiesced.unsettled))

    def _drop(self, limit_s: float) -> None:
        self._instance.keep_data(None)  # without its tables, no attempt can go on with it
        drop(self.live(), self.trial.outputs, limit_s)

    def _sizes(self, _limit_s: float) -> None:
        instance = self._instance
        workload = self.trial.spec.workload
        # Those that the load generator has verified, where no client has changed them since.
        rows: int | None = workload.rows if self._rows is None else self._rows
        if workload.checked.has_maintenance:
            rows = None  # it may have dropped tables
        found = sizes(
            instance.data_dir,
            instance.family.snapshots,
            rows,
            self.spec.role,
            is_running=instance.pid is not None,
        )
        self.trial.outputs.measurements.extend(found)
