"""Declare the steps of an attached server, in a database of the trial's own."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from millrace.databases.client import QUERY_LIMIT_S
from millrace.loadgen.spec import Connection, ConnectionTls
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance
from millrace.trial.file_removal import drop
from millrace.trial.hooks import LiveServer
from millrace.trial.spec import ServerSpec
from millrace.trial.steps import EXPECTED_FAILURES, Step
from millrace.trial.trial_server import (
    STOP_LIMIT_S,
    TrialContext,
    loading_steps,
    refuse_unavailable,
)


def database_name(trial: str) -> str:
    """Return a trial's own database, one for all attempts: each drops what an earlier one left."""
    return f"millrace_{hashlib.sha256(trial.encode()).hexdigest()[:16]}"


@dataclass
class ExternalServer:
    """One server; each method is a step."""

    spec: ServerSpec
    server: AttachedServer
    trial: TrialContext
    _attached: AttachedInstance = field(init=False)

    def ready_steps(self) -> Iterator[Step]:
        """Yield the steps that make the trial's database with its tables."""
        yield Step("prepare", self._prepare, QUERY_LIMIT_S)
        yield Step("record", self._record, QUERY_LIMIT_S)
        yield Step("database", self._create, QUERY_LIMIT_S)
        yield Step("table_format", self._verify_table_format, QUERY_LIMIT_S)
        keep_facts = partial(self.trial.outputs.add_facts, self.spec.role)
        yield from loading_steps(self.trial, self.live(), keep_facts)

    def end_steps(self) -> Iterator[Step]:
        """Yield the step that drops the database."""
        measures = self.trial.spec.workload.drops_after
        yield Step("drop", self._measured_drop if measures else self._drop, STOP_LIMIT_S)

    def live(self) -> LiveServer:
        """Return the server with the trial's database."""
        connection = self._connection()
        return LiveServer(
            role=self.spec.role,
            client=self._attached,
            database=self._database,
            connection=connection,
            measured_connection=connection,
            check=lambda: None,
        )

    @property
    def _database(self) -> str:
        return database_name(self.trial.spec.name)

    def _prepare(self, _limit_s: float) -> None:
        refuse_unavailable(self.spec)
        self._attached = AttachedInstance(self.server)

    def _record(self, _limit_s: float) -> None:
        limits = list(self._attached.limits)
        self.trial.record(self.spec, self._attached, {"limits": limits})

    def _create(self, limit_s: float) -> None:
        self._drop(limit_s)
        self.trial.opened.callback(self._clean_up)
        administration = self._attached.family.administration
        administration.create_database(self._attached, self._database, limit_s)

    def _verify_table_format(self, _limit_s: float) -> None:
        attached = self._attached
        attached.family.table_formats.verify(
            attached, self._database, self.spec.table_format, table_bytes=None
        )

    def _connection(self) -> Connection:
        """Return the same way as every other session's: a socket precedes host and port."""
        attached = self._attached
        by_socket = attached.socket is not None
        return Connection(
            socket=attached.socket,
            host=None if by_socket else attached.host,
            port=None if by_socket else attached.port,
            user=attached.user,
            password=attached.password,
            database=self._database,
            tls=self._tls(),
            allow_unverified=attached.tls.allow_unverified,
        )

    def _tls(self) -> ConnectionTls:
        """Return the address's TLS settings; the experiment may require TLS where it has none."""
        tls = self._attached.tls
        if tls.mode == "disabled" and self.trial.spec.workload.values.get("tls"):
            return ConnectionTls("required")
        return ConnectionTls(tls.mode, tls.ca)

    def _drop(self, limit_s: float) -> None:
        """Drop the trial's database, and those that its workload's statements make."""
        administration = self._attached.family.administration
        for database in (self._database, *self.trial.spec.workload.checked.databases):
            administration.drop_database(self._attached, database, limit_s)

    def _measured_drop(self, limit_s: float) -> None:
        drop(self.live(), self.trial.outputs, limit_s)

    def _clean_up(self) -> None:
        """Drop the database after a failure; another failure must not hide the first."""
        with contextlib.suppress(*EXPECTED_FAILURES):
            self._drop(STOP_LIMIT_S)
