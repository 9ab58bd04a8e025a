"""Build stored runs of driven clients: several servers x tests x numbers of clients."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from millrace.levels import Level
from millrace.model.instance_facts import InstanceFacts
from millrace.model.run_spec import RunSpec
from millrace.model.servers import BuildFacts
from millrace.store.records import (
    HistogramRecord,
    HostRecord,
    InstanceRecord,
    MeasurementRecord,
    OptionRecord,
    RunRecord,
    ServerRecord,
    StepRecord,
    StoredAttempt,
    StoredRun,
    TreatmentRecord,
    TrialRecord,
)
from tests.support.builders import FINDINGS, HOST_FACTS, OWNER, Fails
from tests.support.hdr import FINE, encoded
from tests.support.seconds import Series

TIME_S = 30.0

WORKLOAD: Mapping[str, Any] = {
    "name": "sysbench",
    "title": "sysbench's OLTP tests",
    "phases": [{"name": "load", "kind": "load_tables"}, {"name": "measure", "kind": "drive"}],
    "metrics": {
        "throughput": {
            "title": "throughput",
            "unit": "transactions/s",
            "direction": "higher",
            "numerator": ["transactions"],
            "denominator": ["measure_duration_s"],
            "primary": True,
        },
        "p99": {
            "title": "99th percentile of response time",
            "unit": "s",
            "direction": "lower",
            "percentile": 99,
            "of": "transaction",
            "time": "response",
        },
        "server_cpu": {
            "title": "server CPU time of a transaction",
            "unit": "s",
            "direction": "lower",
            "numerator": ["server_user_s", "server_system_s"],
            "denominator": ["transactions"],
        },
    },
}

SERVERS = (
    "mysql-5.5.62", "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12", "mysql-9.7.4",
    "mariadb-10.2.11", "mariadb-11.8.6",
)  # fmt: skip
TESTS = ("point-query", "range-covered-pk", "update-index", "oltp_read_write", "insert")

# The factor by which each server is slower than the first, with 1 client.
_SLOWER = {
    "mysql-5.5.62": 1.06, "mysql-5.6.24": 1.0, "mysql-5.7.22": 0.93, "mysql-8.0.12": 0.78,
    "mysql-9.7.4": 0.66, "mariadb-10.2.11": 1.01, "mariadb-11.8.6": 0.9,
}  # fmt: skip
_RATES = {
    "point-query": 14_000.0, "range-covered-pk": 9_000.0, "update-index": 3_000.0,
    "oltp_read_write": 310.0, "insert": 5_500.0,
}  # fmt: skip

Values = Mapping[str, float]
Levels = Mapping[str, Level]


def usual_rate(levels: Levels) -> float:
    """Return transactions/s: newer servers are slower with one client and gain with many."""
    clients = int(levels["clients"])
    slower = _SLOWER.get(str(levels["server"]), 1.0)
    gain = 1 + (1 - slower) * (clients > 8) * 1.4
    scaled: float = min(clients, 6) ** 0.8
    return _RATES.get(str(levels["test"]), 1_000.0) * slower * gain * scaled


def nothing_else(_levels: Levels, _block: int) -> Values:
    return {}


def never_fails(_levels: Levels, _block: int) -> Fails | None:
    return None


def usual_tail(_levels: Levels) -> float:
    return 1.0


def no_series(_levels: Levels, _block: int) -> Series:
    return ()


@dataclass(frozen=True)
class QueryRun:
    """A run of driven clients.

    ``rate`` returns transactions/s of a treatment, ``tail`` the factor on the latency of its
    slowest tenth of transactions; ``also`` adds or replaces measurements of a trial; ``fails`` are
    the trials that fail, ``series`` the events of their seconds, ``metrics`` further ones.
    """

    servers: Sequence[str] = SERVERS
    tests: Sequence[str] = TESTS
    clients: Sequence[int] = (1, 8, 32)
    blocks: int = 3
    base: str = "mysql-5.6.24"
    noise: float = 0.004
    rate: Callable[[Levels], float] = usual_rate
    tail: Callable[[Levels], float] = usual_tail
    also: Callable[[Levels, int], Values] = nothing_else
    fails: Callable[[Levels, int], Fails | None] = never_fails
    series: Callable[[Levels, int], Series] = no_series
    open_loop: bool = False
    statements: Sequence[str] = ()
    factors: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    published: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    wakeup: Mapping[str, Any] | None = None
    facts: Callable[[Levels], Mapping[str, Any]] = lambda _levels: {"residency": "cached"}
    compare: str = "server"
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> StoredRun:
        factors: dict[str, Sequence[Level]] = {
            "server": self.servers,
            "configuration": ["default"],
            "engine": ["InnoDB"],
            "test": self.tests,
            "clients": self.clients,
            "protocol": ["prepared"],
            "transport": ["socket"],
            "tls": [False],
            "rate": [5_000] if self.open_loop else [0],
            "arrivals": ["poisson"],
            **self.factors,
        }
        treatments = tuple(
            TreatmentRecord(f"treatment-{position}", position, levels, levels)
            for position, levels in enumerate(
                dict(zip(factors, chosen, strict=True)) for chosen in product(*factors.values())
            )
        )
        trials: list[TrialRecord] = []
        for block in range(self.blocks):
            order = list(treatments)
            random.Random(f"7:{block}").shuffle(order)
            trials += [
                TrialRecord(f"{t.id}-{block}", t.id, block, len(trials) + number)
                for number, t in enumerate(order)
            ]
        by_id = {treatment.id: treatment for treatment in treatments}
        attempts = tuple(
            self._attempt(number, trial, by_id[trial.treatment_id].levels)
            for number, trial in enumerate(trials)
        )
        return StoredRun(self._run(factors), treatments, tuple(trials), attempts)

    def _attempt(self, number: int, trial: TrialRecord, levels: Levels) -> StoredAttempt:
        source = random.Random(f"{trial.id}")
        failure = self.fails(levels, trial.block)
        rate = self.rate(levels) * source.lognormvariate(0, self.noise)
        transactions = round(rate * TIME_S)
        step = StepRecord(0, failure.step if failure else "measure", 0.0, TIME_S, "finished")
        return StoredAttempt(
            id=number + 1,
            trial_id=trial.id,
            number=1,
            owner=OWNER,
            started_utc="2026-01-05T10:00:00Z",
            ended_utc="2026-01-05T10:00:30Z",
            outcome="failed" if failure else "finished",
            failed_step=failure.step if failure else None,
            reason=failure.reason if failure else None,
            log_tail=failure.log_tail if failure else None,
            steps=() if failure else (step,),
            instances=(self._instance(levels),),
            measurements=() if failure else self._measurements(transactions, levels, trial.block),
            artefacts=(),
            histograms=() if failure else tuple(self._histograms(rate, levels, source)),
            series=self.series(levels, trial.block),
        )

    def _measurements(
        self, transactions: int, levels: Levels, block: int
    ) -> tuple[MeasurementRecord, ...]:
        values: dict[str, float] = {
            "transactions": float(transactions),
            "statements": float(transactions),
            "errors": 0.0,
            "retries": 0.0,
            "late": 0.0,
            "skipped": 0.0,
            "scheduled": 150_000.0 if self.open_loop else 0.0,
            "measure_duration_s": TIME_S,
            "load_generator_user_s": transactions * 4e-6,
            "load_generator_system_s": transactions * 5e-6,
            "load_generator_voluntary_switches": transactions * 1.0,
            "load_generator_involuntary_switches": transactions * 0.01,
            "server_user_s": transactions * 4e-5 / _SLOWER.get(str(levels["server"]), 1.0),
            "server_system_s": transactions * 1e-5,
            "buffer_pool_reads": 0.0,
            "buffer_pool_read_requests": transactions * 4.0,
            "settle_duration_s": 3.0,
            "settled": 1.0,
            **self.also(levels, block),
        }
        return tuple(MeasurementRecord(name, value) for name, value in values.items())

    def _histograms(
        self, rate: float, levels: Levels, source: random.Random
    ) -> list[HistogramRecord]:
        mean_ns = 1e9 * int(levels["clients"]) / rate
        kinds: list[Literal["service", "response"]] = ["service"]
        kinds += ["response"] if self.open_loop else []
        found = []
        for kind in kinds:
            values = [
                round(mean_ns * source.lognormvariate(-0.1, 0.4) * (1 if kind == "service" else 2))
                for _ in range(120)
            ]
            slowest = sorted(values)[-len(values) // 10]
            values = [round(v * self.tail(levels)) if v >= slowest else v for v in values]
            total_s = sum(values) / 1e9
            histogram = HistogramRecord(
                "measure", "transaction", str(levels["test"]), kind, encoded(values, FINE),
                len(values), total_s,
            )  # fmt: skip
            found.append(histogram)
            found += [
                HistogramRecord("measure", "statement", name, kind, histogram.encoded,
                                histogram.count, total_s)
                for name in self.statements
            ]  # fmt: skip
        return found

    def _instance(self, levels: Levels) -> InstanceRecord:
        name = str(levels["server"])
        family, version = name.split("-", 1)
        server = ServerRecord(
            name, family, version, version, BuildFacts(source="tarball:x"), ("port",)
        )
        effective = {"version": version, "port": "3306", "log_bin": "OFF", **self.variables}
        wakeup = {"cpu_idle": dict(self.wakeup)} if self.wakeup else {}
        facts = {**wakeup, **self.facts(levels)}
        option = OptionRecord("innodb_buffer_pool_size", "1G", "default", optional=False)
        return InstanceRecord(
            "server", server, "default", (option,), effective, InstanceFacts.model_validate(facts)
        )

    def _run(self, factors: Mapping[str, Sequence[Level]]) -> RunRecord:
        spec: dict[str, Any] = {
            "workload": {**WORKLOAD, "metrics": {**WORKLOAD["metrics"], **self.metrics}},
            "configurations": {"default": {}},
            "factors": [
                {"name": name, "levels": list(levels), "aliases": {}}
                for name, levels in factors.items()
            ],
            "compare": {"factor": self.compare, "base": self.base},
            "design": {"kind": "fixed", "blocks": self.blocks},
            "parameters": {"table_size": 1_000_000, "operations": 0, "cache_mode": "any"}
            | dict(self.parameters),
            "published": self.published,
        }
        return RunRecord(
            id="sysbench-laptop-20260105-1000",
            digest="d1ge57",
            name="sysbench",
            title="sysbench's tests across versions",
            scale="laptop",
            created_utc="2026-01-05T09:59:00Z",
            seed=7,
            blocks=self.blocks,
            margin=0.02,
            host=HostRecord("host-1", HOST_FACTS.replace(findings=FINDINGS)),
            versions={"millrace": "0.1.0", "load_generator": "0.2.0"},
            spec=RunSpec.model_validate(spec),
            experiment_text='[experiment]\nname = "sysbench"\n',
            millrace_command="millrace run experiments/sysbench.toml --scale laptop",
        )
