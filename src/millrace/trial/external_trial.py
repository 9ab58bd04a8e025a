"""The steps of a trial on a server that is not ours: in a database of its own, dropped after."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from millrace.databases.client import QUERY_LIMIT_S
from millrace.loadgen import client as load
from millrace.loadgen.spec import Connection, Tls
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance
from millrace.store.records import StepRecord
from millrace.trial import measure
from millrace.trial.client_preparation import ClientPreparation, note
from millrace.trial.measure import SETTLE_LIMIT_S, STOP_LIMIT_S
from millrace.trial.phase_spec import spec as phase_spec
from millrace.trial.steps import EXPECTED_FAILURES, Step
from millrace.workloads import Phase


def database_name(trial: str) -> str:
    """The trial's own database: the same for each of its attempts, so that what an interrupted one
    left there is dropped by the next, and another in every run, whatever host it comes from."""
    return f"millrace_{hashlib.sha256(trial.encode()).hexdigest()[:16]}"


@dataclass
class ExternalTrial:
    """One trial; each method is a step."""

    given: measure.TrialSpec
    server: AttachedServer
    opened: ExitStack
    found: measure.Found
    announce: measure.Announce
    _attached: AttachedInstance = field(init=False)
    _driving: ClientPreparation | None = field(init=False, default=None)

    def steps(self) -> Iterator[Step]:
        """The steps in their order, with their time limits."""
        work = self.given.work
        yield Step("prepare", self._prepare, QUERY_LIMIT_S)
        yield Step("record", self._record, QUERY_LIMIT_S)
        yield Step("database", self._create, QUERY_LIMIT_S)
        database = database_name(self.given.name)
        yield from measure.make_steps(
            work, self._attached, database, self._run, partial(note, self.found.instances)
        )
        if work.workload.drives:
            self._driving = ClientPreparation(
                work, self._attached, database, self._run,
                self.found.measurements, self.found.instances,
            )  # fmt: skip
            yield from self._driving.steps()
        else:
            yield Step("settle", self._settle, SETTLE_LIMIT_S)
        yield Step("measure", self._measure, measure.limit_s(work))
        yield Step("drop", self._drop, STOP_LIMIT_S)

    def _prepare(self, _limit_s: float) -> None:
        self._attached = AttachedInstance(self.server)

    def _record(self, _limit_s: float) -> None:
        attached = self._attached
        facts = {"attached": True, "limits": list(attached.limits)}
        self.found.instances.append(
            measure.instance_record(self.given, attached.version(), attached.settings(), facts)
        )

    def _create(self, limit_s: float) -> None:
        self._drop(limit_s)
        self.opened.callback(self._clean_up)
        name = database_name(self.given.name)
        self._attached.family.administration.create_database(self._attached, name, limit_s)

    def _settle(self, _limit_s: float) -> None:
        measure.write_back(None)

    def _run(self, phases: Sequence[Phase], limit_s: float) -> load.LoadResult:
        spec = phase_spec(phases, self.given.work, self._connection())
        return measure.run_phases(spec, self._listener(), limit_s)

    def _measure(self, limit_s: float) -> Sequence[StepRecord]:
        return measure.measure(
            self.given,
            self._connection(),
            self.found,
            instance=self._attached,
            database=database_name(self.given.name),
            listener=self._listener(),
            driving=self._driving,
            limit_s=limit_s,
        )

    def _listener(self) -> measure.Listener:
        return measure.Listener(self.announce, lambda: None)

    def _connection(self) -> Connection:
        """Like every other session with it: a socket goes before host and port."""
        attached = self._attached
        by_socket = attached.socket is not None
        return Connection(
            socket=attached.socket,
            host=None if by_socket else attached.host,
            port=None if by_socket else attached.port,
            user=attached.user,
            password=attached.password,
            database=database_name(self.given.name),
            tls=self._tls(),
            allow_unverified=attached.tls.allow_unverified,
        )

    def _tls(self) -> Tls:
        """As the address says; where that has no TLS, the experiment may want it."""
        tls = self._attached.tls
        if tls.mode == "disabled" and self.given.work.values.get("tls"):
            return Tls("required")
        return Tls(tls.mode, tls.ca)

    def _drop(self, limit_s: float) -> None:
        name = database_name(self.given.name)
        self._attached.family.administration.drop_database(self._attached, name, limit_s)

    def _clean_up(self) -> None:
        """After a failure: what is lost already must not hide why it was lost."""
        with contextlib.suppress(*EXPECTED_FAILURES):
            self._drop(STOP_LIMIT_S)
