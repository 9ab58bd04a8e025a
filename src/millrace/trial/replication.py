"""Let a replica apply what the load generator changes on its source, and time it.

    after_load    load · attach · receive · apply · checks
    before_load   attach · load, while the replica applies it · apply · checks

After the load the replica applies alone: it has copied the source's log to its own disk, and
nothing else works. Otherwise the time counts from the beginning of the load until the replica has
applied all of it. To the hooks of the measurement, its part is a phase of the load generator.

A thread samples the lag a few times a second. Positions in the source's log show how much is not
applied yet. A heartbeat, a row of the source with the time, shows how old the newest change is that
the replica shows: a server's own account counts only what its applier works on, in whole seconds. A
sample's lag is the last time that the source committed less the one that the replica shows: a
source that stalls does not count as lag, and a lag below the interval is 0.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from millrace.databases.client import QUERY_LIMIT_S, Session
from millrace.databases.replication import LogEnd, LogProgress, Replication, SourceAddress
from millrace.errors import DatabaseError, TrialFailed
from millrace.loadgen import events
from millrace.model import measurements as names
from millrace.model.documents import as_lines
from millrace.model.events import StepBegan
from millrace.model.phases import COMPARE_TABLES, DRIVE, LOADING
from millrace.model.roles import REPLICA
from millrace.model.servers import version_of
from millrace.servers.instances.instance import Instance
from millrace.shown_text import shown_line
from millrace.store.attempt_files import LAG
from millrace.store.records import LagSample, NewArtefact
from millrace.trial import measurements
from millrace.trial.hooks import LiveServer, MeasurementContext
from millrace.trial.load_run import Emit, OnEvent, run_phases
from millrace.trial.time_limits import limit_s, phase_limit_s, scan_limit_s
from millrace.workloads.phases import Phase
from millrace.workloads.settings import ReplicationSettings

_INTERVAL_S = 0.25

_ACCOUNT = "replica"
_POLL_S = 0.02
_WAIT_S = 1  # for the replica, between two looks at the servers

RunLoad = Callable[[OnEvent], events.LoadResult]
"""Run the load generator on the source; it calls the argument with each event."""


class LagSampler:
    """The samples of a replica while the block of ``sampling`` lasts."""

    def __init__(
        self, replication: Replication, source: Session, replica: Session, *, with_heartbeat: bool
    ) -> None:
        self._replication = replication
        self._source = source
        self._replica = replica
        self._with_heartbeat = with_heartbeat
        self._began_s = time.monotonic()
        self._beat_s = 0.0  # the last one that the source has committed
        self._over = threading.Event()
        self._is_whole = False
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.samples: list[LagSample] = []

    def start(self) -> None:
        """Take the first sample, and the others in a thread."""
        if self._with_heartbeat:
            self._replication.begin_heartbeat(self._source)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which may wait for an answer."""
        self._over.set()
        self._thread.join(timeout=QUERY_LIMIT_S)

    @property
    def lags_s(self) -> list[float]:
        """All lags by the heartbeat; none where a server's failure ended them early."""
        if not self._is_whole:
            return []
        return [each.lag_s for each in self.samples if each.lag_s is not None]

    def _sample(self) -> None:
        # Where a server is gone, the trial notices it, with more detail.
        with contextlib.suppress(DatabaseError, OSError, LookupError, TypeError, ValueError):
            while not self._over.is_set():
                self.samples.append(self._take())
                self._over.wait(_INTERVAL_S)
            self._is_whole = True

    def _take(self) -> LagSample:
        lag_s = None
        if self._with_heartbeat:
            lag_s = max(self._beat_s - (self._replication.last_beat_s(self._replica) or 0.0), 0.0)
            beat_s = round(time.monotonic() - self._began_s, 6)  # as it is written
            self._replication.beat(self._source, beat_s)
            self._beat_s = beat_s
        found = self._replication.progress(self._source, self._replica)
        return LagSample(
            t_s=time.monotonic() - self._began_s,
            written_bytes=found.written_bytes,
            received_bytes=found.received_bytes,
            applied_bytes=found.applied_bytes,
            lag_s=lag_s,
            reported_lag_s=found.reported_lag_s,
        )


class ReplicatedLoad:
    """The measurement of a replica; ``on_event`` are the hooks of the measurement."""

    def __init__(self, measurement: MeasurementContext, on_event: OnEvent, emit: Emit) -> None:
        self.measurement, self.on_event, self.emit = measurement, on_event, emit
        workload = measurement.spec.workload
        self._source, self._replica = measurement.servers
        replication = self._source.client.family.replication
        assert replication is not None  # others are refused
        self._replication: Replication = replication
        source, replica = (version_of(each.client.server) for each in measurement.servers)
        self._settings = ReplicationSettings.model_validate(workload.values)
        self._by_gtid = replication.uses_gtids(source, replica, self._settings.gtid)
        self._workload = workload
        self._kinds = {phase.name: phase.kind for phase in workload.checked.phases}
        assert workload.apply_phase is not None
        self._phase: Phase = workload.apply_phase
        self._limit_s = phase_limit_s(self._phase, workload)
        self._began_s = 0.0
        server = self._source.client
        assert isinstance(server, Instance)  # others are refused
        # No account of the source that may do more is entrusted to its replica.
        self._address = SourceAddress("127.0.0.1", server.port, _ACCOUNT, secrets.token_hex(16))
        self._warmed = 0  # transactions of the warm-up, which the replica applies too

    def run(self, run_load: RunLoad) -> events.LoadResult:
        """Return the result of the load with the replica's phase and the checks of its tables."""
        self._replication.create_account(self._source.client, self._address)
        for server in self.measurement.servers:  # each has made its own database and tables
            self._replication.forget_log(server.client)
        if self._settings.attach == "before_load":
            result, applied = self._apply_during_load(run_load)
        else:
            result, applied = self._apply_after_load(run_load)
        if (driven := result.driven()) is not None:
            succeeded = sum(each.count for each in driven.transactions)
            self._add(names.REPLICATED_TRANSACTIONS, self._warmed + succeeded)
        return replace(result, phases=(*result.phases, applied, *self._check_tables()))

    def _apply_after_load(self, run_load: RunLoad) -> tuple[events.LoadResult, events.PhaseResult]:
        """Load the source alone, then let the replica copy its log, then apply it."""
        result = run_load(self._forward)
        end = self._log_end()
        self._attach()
        self._receive()
        with self._sampling(with_heartbeat=False) as sampler:
            self.emit(StepBegan(name=self._phase.name))
            self._begin()
            self._start("applier")
            self._wait(end)
            applied = self._end_phase()
        self._keep_samples(sampler)
        return result, applied

    def _apply_during_load(self, run_load: RunLoad) -> tuple[events.LoadResult, events.PhaseResult]:
        """Let the replica apply while the source is loaded, and catch up afterwards."""
        self._attach()
        self._start("receiver")
        self._start("applier")
        with self._sampling(with_heartbeat=True) as sampler:
            result = run_load(self._begin_with_load)
            loaded_s = time.monotonic()
            self.emit(StepBegan(name=self._phase.name))
            self._wait(self._log_end())
            self._add(names.CATCH_UP_S, time.monotonic() - loaded_s)
            applied = self._end_phase()
        self._keep_samples(sampler)
        if lags_s := sampler.lags_s:
            self._add(names.MEAN_LAG_S, sum(lags_s) / len(lags_s))
            self._add(names.MAX_LAG_S, max(lags_s))
        return result, applied

    def _forward(self, event: events.Event) -> None:
        if isinstance(event, events.DriveInterval) and event.part == "warmup":
            self._warmed += event.transactions
        self.on_event(event)

    def _begin_with_load(self, event: events.Event) -> None:
        if (
            isinstance(event, events.Mark)
            and event.mark == "phase_started"
            and self._kinds[event.phase] in (*LOADING, DRIVE)
        ):
            self._begin()
        self._forward(event)

    def _begin(self) -> None:
        self._began_s = time.monotonic()
        self.on_event(events.Mark(phase=self._phase.name, mark="phase_started", t_s=0.0))

    def _end_phase(self) -> events.PhaseResult:
        """Return the replica's part as the result of a phase, which the hooks have handled."""
        found = events.PhaseResult(
            name=self._phase.name,
            kind="statement",
            duration_s=time.monotonic() - self._began_s,
            affected_rows=0,
            warnings=0,
            rows_sent=0,
            bytes_sent=0,
            generator_wait_s=None,
            result=None,
        )
        self.on_event(found)
        return found

    def _attach(self) -> None:
        self._replication.attach(self._replica.client, self._address, by_gtid=self._by_gtid)

    def _start(self, what: Literal["receiver", "applier"]) -> None:
        self._replication.start(self._replica.client, what)

    def _receive(self) -> None:
        """Let the replica copy the source's log, which no longer grows, to its own disk."""
        began_s, expired_s = time.monotonic(), time.monotonic() + self._limit_s
        self._start("receiver")
        while (found := self._progress()).received_bytes < found.written_bytes:
            self._require_before(expired_s, "copied")
            time.sleep(_POLL_S)
        self._add(names.RECEIVE_S, time.monotonic() - began_s)

    def _wait(self, end: LogEnd) -> None:
        """Wait until the replica has applied the log up to ``end``."""
        expired_s = time.monotonic() + self._limit_s
        with self._session(self._replica) as session:
            while not self._has_applied(session, end):
                self.measurement.check()
                self._progress()
                self._require_before(expired_s, "applied")
                time.sleep(_POLL_S)  # a stopped replica answers at once

    def _has_applied(self, session: Session, end: LogEnd) -> bool:
        try:
            return self._replication.wait_applied(session, end, _WAIT_S, by_gtid=self._by_gtid)
        except DatabaseError as error:
            self.measurement.check()
            raise self._failure(error.message) from error

    def _progress(self) -> LogProgress:
        """Return how far the replica is. Raise TrialFailed with its error where it stopped."""
        try:
            with self._session(self._source) as source, self._session(self._replica) as replica:
                found = self._replication.progress(source, replica)
        except DatabaseError as error:
            self.measurement.check()
            raise self._failure(error.message) from error
        if found.error is not None:
            raise self._failure(f"replication stopped: {found.error}")
        return found

    def _require_before(self, expired_s: float, done: str) -> None:
        if time.monotonic() > expired_s:
            raise self._failure(f"it had not {done} the source's log in {self._limit_s:g} s")

    def _failure(self, why: str) -> TrialFailed:
        replica = self._replica.client
        log_tail = replica.log_tail() if isinstance(replica, Instance) else None
        said = f"the replica {replica.server.name}: {why}"
        return TrialFailed(said, step=self._phase.name, log_tail=log_tail)

    def _session(self, server: LiveServer) -> contextlib.closing[Session]:
        return contextlib.closing(server.client.connect(limit_s=QUERY_LIMIT_S))

    def _log_end(self) -> LogEnd:
        with self._session(self._source) as session:
            return self._replication.log_end(session)

    @contextlib.contextmanager
    def _sampling(self, *, with_heartbeat: bool) -> Iterator[LagSampler]:
        """Sample the replica inside the block."""
        with self._session(self._source) as source, self._session(self._replica) as replica:
            sampler = LagSampler(self._replication, source, replica, with_heartbeat=with_heartbeat)
            sampler.start()
            try:
                yield sampler
            finally:
                sampler.stop()

    def _keep_samples(self, sampler: LagSampler) -> None:
        samples = NewArtefact(LAG, REPLICA, as_lines(sampler.samples))
        self.measurement.outputs.artefacts.append(samples)
        self._add(names.REPLICATED_BYTES, self._progress().written_bytes)

    def _add(self, name: str, value: float) -> None:
        self.measurement.outputs.add_measurement(name, value, REPLICA)

    def _check_tables(self) -> Sequence[events.AnyPhaseResult]:
        """Check the tables of both servers, and return the phases that checked the source's."""
        phases = [each for each in self._workload.checking_phases if each.kind != COMPARE_TABLES]
        results = [self._check_rows(server, phases) for server in self.measurement.servers]
        if len(phases) < len(self._workload.checking_phases):
            self._compare_tables()
        return results[0]

    def _check_rows(
        self, server: LiveServer, phases: Sequence[Phase]
    ) -> Sequence[events.AnyPhaseResult]:
        """Run phases that check a server's tables. Raise TrialFailed for other rows than made."""
        if not phases:
            return ()
        workload, expected = self._workload, self.measurement.spec.expected
        within_s = limit_s(phases, workload)
        result = run_phases(phases, workload, server, self.emit, within_s)
        assert expected is not None  # only named data sets have such phases
        try:
            measurements.verify(workload.checked, result, expected)
        except TrialFailed as failure:
            said = f"the {server.role} {server.client.server.name}: {failure.message}"
            raise TrialFailed(said, hint=failure.hint, step=failure.step) from failure
        return result.phases

    def _compare_tables(self) -> None:
        """Raise TrialFailed where the replica's tables have other rows than the source's."""
        within_s = scan_limit_s(self._workload)
        on_source, on_replica = (
            self._replication.table_checksums(each.client, each.database, within_s)
            for each in self.measurement.servers
        )
        for name in sorted(on_source.keys() | on_replica.keys()):
            theirs, ours = on_source.get(name), on_replica.get(name)
            if theirs != ours:
                raise TrialFailed(
                    f"the replica has other rows than its source: {shown_line(name)} has (rows, "
                    f"checksum) {ours}, and {theirs} there",
                    hint="statements whose effect is not certain need log_format = 'row'",
                    step=COMPARE_TABLES,
                )
