"""The steps of a trial on a server that is not ours: in a database of its own, dropped after."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from contextlib import ExitStack

from millrace.load.spec import Connection
from millrace.runner import measuring, phases
from millrace.runner.measuring import ASK_LIMIT_S, SETTLE_LIMIT_S, STOP_LIMIT_S
from millrace.runner.steps import EXPECTED_FAILURES, Step
from millrace.servers.attached import AttachedInstance
from millrace.servers.model import AttachedServer
from millrace.store.records import StepRecord


def database_name(trial: str) -> str:
    """The trial's own database: the same for each of its attempts, so that what an interrupted one
    left there is dropped by the next, and another in every run, whatever host it comes from."""
    return f"millrace_{hashlib.sha256(trial.encode()).hexdigest()[:16]}"


class AttachedServerTrial:
    """One trial; each method is a step."""

    _attached: AttachedInstance

    def __init__(
        self,
        given: measuring.TrialInput,
        server: AttachedServer,
        opened: ExitStack,
        found: measuring.Found,
        announce: measuring.Announce,
    ) -> None:
        self._given = given
        self._server = server
        self._opened = opened
        self._found = found
        self._announce = announce
        self._database = database_name(given.name)

    def steps(self) -> Sequence[Step]:
        """The steps in their order, with their time limits."""
        return (
            Step("prepare", self._prepare, ASK_LIMIT_S),
            Step("record", self._record, ASK_LIMIT_S),
            Step("database", self._create, ASK_LIMIT_S),
            Step("settle", self._settle, SETTLE_LIMIT_S),
            Step("measure", self._measure, phases.limit_s(self._given.work)),
            Step("drop", self._drop, STOP_LIMIT_S),
        )

    def _prepare(self, _limit_s: float) -> None:
        self._attached = AttachedInstance(self._server)

    def _record(self, _limit_s: float) -> None:
        attached = self._attached
        facts = {"attached": True, "limits": list(attached.limits)}
        self._found.instances.append(
            measuring.instance_record(self._given, attached.version(), attached.effective(), facts)
        )

    def _create(self, limit_s: float) -> None:
        self._drop(limit_s)
        self._opened.callback(self._clean_up)
        self._attached.query(f"CREATE DATABASE {self._database}")

    def _settle(self, _limit_s: float) -> None:
        measuring.settle(None)

    def _measure(self, limit_s: float) -> Sequence[StepRecord]:
        return measuring.measure(
            self._given,
            phases.spec(self._given.work, self._connection(), None),
            self._found,
            announce=self._announce,
            watch=lambda: None,
            limit_s=limit_s,
        )

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
            database=self._database,
        )

    def _drop(self, _limit_s: float) -> None:
        self._attached.query(f"DROP DATABASE IF EXISTS {self._database}")

    def _clean_up(self) -> None:
        """After a failure: what is lost already must not hide why it was lost."""
        with contextlib.suppress(*EXPECTED_FAILURES):
            self._drop(STOP_LIMIT_S)
