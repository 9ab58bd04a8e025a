"""Make attempts with observations, from the true times of an operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from millrace.analysis.explain.decode_observations import observed
from millrace.analysis.explain.observations import Observed, ObservedTrial
from millrace.model.observations import Observations
from millrace.model.phases import MeasuredPhases
from millrace.model.servers import BuildFacts
from millrace.store.observations import in_neutral_terms
from millrace.store.records import (
    HistogramRecord,
    InstanceRecord,
    MeasurementRecord,
    ServerRecord,
    StoredAttempt,
    StoredRun,
    TrialRecord,
)
from tests.support.builders import bare_attempt
from tests.support.hdr import FINE, encoded
from tests.support.query_runs import QueryRun

A, B = "mysql-5.6.24", "mysql-9.7.4"
WINDOW_S = 3.0
_ANY_LATENCY = encoded([50_000], FINE)
RATE_HZ = 100.0

STATES = (
    "running", "lock", "log_flush", "log_write", "fsync", "data_read", "data_write", "network",
    "network_send", "sleep", "page_fault", "io_queue", "other",
)  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """The true times of one client's operation, in µs; its latency is all of it but the gap.

    ``waits`` are by class of state. ``lost`` is time that samples saw running and no clock counted.
    ``background`` is CPU time of other threads by kind.
    """

    cpu_user: float = 20.0
    cpu_system: float = 10.0
    runnable: float = 2.0
    waits: Mapping[str, float] = field(default_factory=dict)
    wire: float = 15.0
    gap: float = 5.0
    lost: float = 0.0
    background: Mapping[str, float] = field(default_factory=lambda: {"log": 3.0, "purge": 1.0})

    @property
    def latency(self) -> float:
        ran = self.cpu_user + self.cpu_system + self.runnable + self.lost
        return ran + sum(self.waits.values()) + self.wire

    @property
    def cycle(self) -> float:
        return self.latency + self.gap

    def times(self, factor: float) -> Truth:
        """Return the same operation, slower by this factor."""
        return Truth(
            self.cpu_user * factor,
            self.cpu_system * factor,
            self.runnable * factor,
            {name: us * factor for name, us in self.waits.items()},
            self.wire * factor,
            self.gap * factor,
            self.lost * factor,
            {name: us * factor for name, us in self.background.items()},
        )

    def shares(self) -> dict[str, float]:
        """Return shares of a cycle, by state of the thread that serves the client."""
        running = self.cpu_user + self.cpu_system + self.runnable + self.lost
        spent = {"running": running, "network": self.wire + self.gap, **self.waits}
        return {name: us / self.cycle for name, us in spent.items()}


@dataclass(frozen=True)
class Scene:
    """The observation of an operation: number of clients, duration, rate of samples.

    Samples fall as ``source`` draws them, or exactly as often as they should without one.
    """

    clients: int = 1
    window_s: float = WINDOW_S
    rate_hz: float = RATE_HZ
    source: np.random.Generator | None = None
    sessions: int = 0  # collectors' sessions, which nearly always wait
    cached: int = 0  # number of threads without a connection
    stacks: Mapping[str, str] = field(default_factory=dict)  # kernel stacks, by state
    during_sync: float = 0.0  # share of the waits for locks at which the log was flushed
    open_loop: bool = False
    serving: str = "connection"  # kind of the threads that serve clients

    def operations(self, truth: Truth) -> float:
        return self.clients * self.window_s / truth.cycle * 1e6

    def document(self, truth: Truth) -> dict[str, Any]:
        """Return the observations, without those that only some tests need."""
        operations = self.operations(truth)
        serving = [
            self._used(1 + n, self.serving, operations / self.clients, truth)
            for n in range(self.clients)
        ]
        idle = [
            _usage(900 + n, "connection", 1e-4, 1e-4) for n in range(self.sessions + self.cached)
        ]
        others = [
            _usage(500 + n, kind, us * 1e-6 * operations, 0.0)
            for n, (kind, us) in enumerate(truth.background.items())
        ]
        threads = [*serving, *idle, *others]
        process = {
            name: sum(thread[name] for thread in threads)
            for name in threads[0]
            if name not in ("tid", "name", "kind")
        }
        ticks = round(self.rate_hz * self.window_s)
        return {
            "window_s": self.window_s,
            "observers": ["threads", "states"],
            "missing": [],
            "threads": {"process": process, "threads": threads},
            "states": {
                "rate_hz": self.rate_hz,
                "ticks": ticks,
                "cpu_s": 0.01,
                "realtime": True,
                "threads": [
                    *(self._states(1 + n, truth.shares(), ticks) for n in range(self.clients)),
                    *(self._states(900 + n, {"network": 1.0}, ticks) for n in range(self.sessions)),
                    *(
                        self._states(900 + self.sessions + n, {"lock": 1.0}, ticks)
                        for n in range(self.cached)
                    ),
                ],
            },
        }

    def _used(self, tid: int, kind: str, operations: float, truth: Truth) -> dict[str, Any]:
        user, system, runnable = (
            us * 1e-6 * operations for us in (truth.cpu_user, truth.cpu_system, truth.runnable)
        )
        return _usage(tid, kind, user, system, runnable, switches=operations)

    def _states(self, tid: int, shares: Mapping[str, float], ticks: int) -> dict[str, Any]:
        chances = np.asarray([shares.get(name, 0.0) for name in STATES])
        if self.source is not None:
            counts = self.source.multinomial(ticks, chances / chances.sum())
        else:
            counts = np.round(chances * ticks).astype(int)
        states = [
            {
                "class": name,
                "syscall": None,
                "target": None,
                "wchan": None,
                "stack": self.stacks.get(name),
                "count": int(count),
                "seconds": int(count) / self.rate_hz,
                "during_sync": round(count * self.during_sync) if name == "lock" else 0,
            }
            for name, count in zip(STATES, counts, strict=True)
            if count
        ]
        kind = self.serving if tid <= self.clients else "connection"
        return {"tid": tid, "name": "mysqld", "kind": kind, "ticks": ticks,
                "states": states}  # fmt: skip

    def attempt(self, truth: Truth, document: Mapping[str, Any] | None = None) -> StoredAttempt:
        """Return an attempt that drove clients.

        The load generator measures the true times exactly."""
        operations = self.operations(truth)
        values = {
            "transactions": operations,
            "statements": operations,
            "errors": 0.0,
            "measure_duration_s": self.window_s,
            "load_generator_user_s": operations * 4e-6,
            "load_generator_system_s": operations * 5e-6,
            "buffer_pool_reads": 0.0,
        }
        values |= {"scheduled": operations} if self.open_loop else {"mean_gap_s": truth.gap * 1e-6}
        return attempt(
            values,
            document if document is not None else self.document(truth),
            (histogram("transaction", "insert", operations, truth.latency),
             histogram("statement", "insert_next", operations, truth.latency)),
        )  # fmt: skip

    def trial(
        self, truth: Truth, block: int = 0, document: Mapping[str, Any] | None = None
    ) -> ObservedTrial:
        made = self.attempt(truth, document)
        return ObservedTrial(f"trial-{block}", block, made, seen(made, self.clients))


DRIVEN = MeasuredPhases("measure", ("measure",), ("load",))
LOADED = MeasuredPhases(None, ("load", "finish"), ("load",))


def seen(made: StoredAttempt, clients: int = 1) -> Observed:
    is_driven = any(each.name == "transactions" for each in made.measurements)
    found = observed(made, DRIVEN if is_driven else LOADED, clients=clients)
    assert found is not None
    return found


def histogram(of: Any, name: str, count: float, mean_us: float) -> HistogramRecord:
    """Return a histogram with exact count and mean; its shape is arbitrary."""
    return HistogramRecord("measure", of, name, "service", _ANY_LATENCY, round(count),
                           round(count) * mean_us * 1e-6)  # fmt: skip


def attempt(
    values: Mapping[str, float],
    document: Mapping[str, Any],
    histograms: Sequence[HistogramRecord] = (),
    *,
    effective: Mapping[str, str] | None = None,
) -> StoredAttempt:
    server = ServerRecord(A, "mysql", "5.6.24", "5.6.24", BuildFacts(), ("port",))
    reported = {"version": "5.6.24", "port": "1", **(effective or {})}
    return bare_attempt(
        1,
        "trial",
        instances=(InstanceRecord("server", server, "default", (), reported),),
        measurements=tuple(MeasurementRecord(name, value) for name, value in values.items()),
        histograms=tuple(histograms),
        observations=in_neutral_terms(Observations.model_validate(document), "mysql"),
    )


def loading(
    rows: float, duration_s: float, document: Mapping[str, Any], finish_s: float = 0.0
) -> StoredAttempt:
    """Return an attempt that measured how a table is loaded."""
    values = {
        "rows": rows,
        "load_duration_s": duration_s - finish_s,
        "finish_duration_s": finish_s,
        "load_generator_user_s": 0.2,
        "load_generator_system_s": 0.1,
    }
    return attempt(values, document)


Told = Callable[[str, int], tuple[Truth, Mapping[str, Any]]]


def explained_run(
    reported: Told,
    *,
    blocks: int = 3,
    profiled: int = 0,
    clients: Sequence[int] = (1,),
    scene: Scene | None = None,
    tests: Sequence[str] = ("insert",),
) -> StoredRun:
    """Return a stored run of A and B.

    ``reported`` returns the truth of a server's block, and further sections of the document.
    """
    scene = scene or Scene()
    stored = QueryRun((A, B), tests, clients, blocks, base=A).build()
    levels = {treatment.id: treatment.levels for treatment in stored.treatments}
    trials = list(stored.trials)
    for treatment in stored.treatments:
        trials += [
            TrialRecord(f"{treatment.id}-p{block}", treatment.id, block, 10_000 + block, "profile")
            for block in range(profiled)
        ]
    attempts = []
    for number, trial in enumerate(trials):
        at = levels[trial.treatment_id]
        truth, sections = reported(str(at["server"]), trial.block)
        here = replace(scene, clients=int(at["clients"]))
        document = {**here.document(truth), **sections}
        if trial.purpose == "measure":
            document.pop("profile", None)
        made = here.attempt(truth, document)
        instance = replace(
            made.instances[0], server=replace(made.instances[0].server, name=str(at["server"]))
        )
        attempts.append(replace(made, id=number + 1, trial_id=trial.id, instances=(instance,)))
    return replace(stored, trials=tuple(trials), attempts=tuple(attempts))


def _usage(
    tid: int, kind: str, user_s: float, system_s: float, runnable_s: float = 0.0,
    switches: float = 0.0,
) -> dict[str, Any]:  # fmt: skip
    return {
        "tid": tid,
        "name": "mysqld",
        "kind": kind,
        "cpu_s": user_s + system_s,
        "runnable_s": runnable_s,
        "user_s": user_s,
        "system_s": system_s,
        "voluntary_switches": switches,
        "involuntary_switches": 0,
        "minor_faults": 0,
        "major_faults": 0,
        "read_calls": 0,
        "write_calls": 0,
        "read_chars": 0,
        "written_chars": 0,
        "read_bytes": 0,
        "write_bytes": 0,
    }
