"""Build stored runs as the runner writes them, from a table of measurements."""

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import groupby, product
from pathlib import Path
from typing import Any

from millrace.levels import Level
from millrace.model.host_facts import HostFacts
from millrace.model.instance_facts import InstanceFacts
from millrace.model.run_spec import RunSpec
from millrace.model.servers import ArtefactFact, BuildFacts
from millrace.store.records import (
    AttemptResult,
    HostRecord,
    InstanceRecord,
    MeasurementRecord,
    OptionRecord,
    Owner,
    RunRecord,
    ServerRecord,
    StepRecord,
    StoredAttempt,
    StoredRun,
    TreatmentRecord,
    TrialRecord,
)
from millrace.store.store import Store

ROWS = 500_000
OWNER = Owner("host-1", "boot-1", 4711, 123_456)


@dataclass(frozen=True)
class Fails:
    """A marker for a trial that fails, in place of a time."""

    step: str = "start"
    reason: str = "mysqld ended with exit status 1: unknown variable 'innodb_log_file_size=2G'"
    log_tail: str | None = "[ERROR] unknown variable 'innodb_log_file_size=2G'\n[ERROR] Aborting"


def bare_attempt(attempt_id: int, trial_id: str, **changed: Any) -> StoredAttempt:
    """Return a finished attempt without steps, servers and measurements, but for ``changed``."""
    bare = StoredAttempt(
        id=attempt_id,
        trial_id=trial_id,
        number=1,
        owner=OWNER,
        started_utc="2026-01-05T10:00:00Z",
        ended_utc="2026-01-05T10:00:30Z",
        outcome="finished",
        failed_step=None,
        reason=None,
        log_tail=None,
        steps=(),
        instances=(),
        measurements=(),
        artefacts=(),
    )
    return replace(bare, **changed)


@dataclass(frozen=True)
class RunBuilder:
    """A run of the load-data workload; ``load_s`` gives seconds by treatment and block.

    ``load_s`` maps a level of the compared factor, or a tuple of all levels, to one value a block:
    seconds, ``Fails()`` for a failed trial, None for one that has not ended.
    """

    load_s: Mapping[Any, Sequence[float | Fails | None]]
    factors: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    aliases: Mapping[str, Level] = field(default_factory=dict)
    base: str = "mysql-5.6.24"
    margin: float = 0.02
    published: str | None = "S1"
    findings: Sequence[Mapping[str, Any]] = ()
    seed: int = 7
    rows: int = ROWS

    def build(self) -> StoredRun:
        servers = list(dict.fromkeys(_server_of(key) for key in self.load_s))
        factors: dict[str, Sequence[Level]] = {
            "server": servers,
            "configuration": ["default"],
            "engine": ["InnoDB"],
            "load_mode": ["local"],
            **self.factors,
        }
        treatments = tuple(
            self._treatment(position, dict(zip(factors, levels, strict=True)))
            for position, levels in enumerate(product(*factors.values()))
        )
        blocks = max(len(times) for times in self.load_s.values())
        trials = _trials(treatments, blocks, self.seed)
        by_id = {treatment.id: treatment for treatment in treatments}
        attempts = [
            attempt
            for number, trial in enumerate(trials)
            if (attempt := self._attempt(number, trial, by_id[trial.treatment_id])) is not None
        ]
        return StoredRun(self._run(factors, blocks), treatments, trials, tuple(attempts))

    def _treatment(self, position: int, levels: dict[str, Level]) -> TreatmentRecord:
        resolved = {name: self.aliases.get(str(level), level) for name, level in levels.items()}
        return TreatmentRecord(f"treatment-{position}", position, levels, resolved)

    def _time(self, levels: Mapping[str, Level], block: int) -> float | Fails | None:
        times = self.load_s.get((levels["server"], levels["configuration"]))
        times = times if times is not None else self.load_s[levels["server"]]
        return times[block] if block < len(times) else None

    def _attempt(
        self, number: int, trial: TrialRecord, treatment: TreatmentRecord
    ) -> StoredAttempt | None:
        time = self._time(treatment.levels, trial.block)
        if time is None:
            return None
        instances = (_instance(treatment.resolved),)
        attempt = bare_attempt(number + 1, trial.id, outcome="failed", instances=instances)
        if isinstance(time, Fails):
            return replace(
                attempt,
                failed_step=time.step,
                reason=time.reason,
                log_tail=time.log_tail,
                steps=(StepRecord(0, time.step, 0.0, 1.0, "failed"),),
            )
        return replace(
            attempt,
            outcome="finished",
            steps=_steps(time),
            measurements=_measurements(time, self.rows),
        )

    def _run(self, factors: Mapping[str, Sequence[Level]], blocks: int) -> RunRecord:
        workload = tomllib.loads(
            (resources.files("millrace.workloads") / "builtin" / "load-data.toml").read_text()
        )
        spec = {
            "workload": workload,
            "configurations": {name: {} for name in factors["configuration"]},
            "factors": [
                {"name": name, "levels": list(levels), "aliases": dict(self.aliases)}
                for name, levels in factors.items()
            ],
            "compare": {"factor": "server", "base": self.base},
            "design": {"kind": "fixed", "blocks": blocks},
            "parameters": {"rows": self.rows, "data_seed": 171773},
            "published": self.published,
        }
        return RunRecord(
            id="load-data-demo-20260105-1000",
            digest="d1ge57",
            name="load-data",
            title="LOAD DATA across versions and configurations",
            scale="demo",
            created_utc="2026-01-05T09:59:00Z",
            seed=self.seed,
            blocks=blocks,
            margin=self.margin,
            host=HostRecord("host-1", HOST_FACTS.replace(findings=self.findings)),
            versions={"millrace": "0.1.0", "load_generator": "0.1.0", "data": "nodes-1"},
            spec=RunSpec.model_validate(spec),
            experiment_text='[experiment]\nname = "load-data"\n',
            millrace_command="millrace run experiments/load-data.toml --scale demo",
        )


HOST_FACTS = HostFacts.model_validate(
    {
        "machine": "ffcb577bb456b8ab",
        "cpu": {"model": "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "cores": 2, "threads": 2},
        "frequency": {"driver": None, "governor": None, "turbo": None},
        "kernel": {"release": "6.1.0-18-amd64", "architecture": "x86_64"},
        "distribution": "Debian GNU/Linux 12 (bookworm)",
        "memory": {"total_bytes": 8_331_694_080, "swap_bytes": 0},
        "virtualisation": {"virtual_machine": True, "container": None},
        "filesystem": {"type": "ext4", "options": ["rw", "relatime"], "rotational": False},
    }
)

FINDINGS = (
    {
        "check": "virtual machine",
        "status": "warn",
        "observed": "KVM",
        "why": "neighbours take CPU time that no measurement here can see",
        "hint": "use a host of your own, or more blocks",
    },
    {"check": "free disk", "status": "ok", "observed": "41 GB", "why": "a full disk ends trials"},
)


def noisy(mean_s: float, blocks: int, *, spread: float = 0.01, seed: int = 1) -> tuple[float, ...]:
    """Return ``blocks`` times around ``mean_s``, log-normal, the same for the same seed."""
    source = random.Random(seed)
    return tuple(mean_s * source.lognormvariate(0, spread) for _ in range(blocks))


def _server_of(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)


def _trials(
    treatments: Sequence[TreatmentRecord], blocks: int, seed: int
) -> tuple[TrialRecord, ...]:
    trials: list[TrialRecord] = []
    for block in range(blocks):
        order = list(treatments)
        random.Random(f"{seed}:{block}").shuffle(order)
        for treatment in order:
            trials.append(TrialRecord(f"{treatment.id}-{block}", treatment.id, block, len(trials)))
    return tuple(trials)


def _steps(load_s: float) -> tuple[StepRecord, ...]:
    durations = {
        "settle": 0.2,
        "initialise": 1.7,
        "start": 0.6,
        "create": 0.02,
        "load": load_s * 0.98,
        "finish": load_s * 0.02,
        "count": 0.09,
        "verify": 0.9,
        "stop": 1.1,
    }
    steps = []
    started_s = 0.0
    for position, (name, duration_s) in enumerate(durations.items()):
        steps.append(StepRecord(position, name, started_s, duration_s, "finished"))
        started_s += duration_s
    return tuple(steps)


def _measurements(load_s: float, rows: int) -> tuple[MeasurementRecord, ...]:
    values = {
        "rows": float(rows),
        "load_duration_s": load_s * 0.98,
        "finish_duration_s": load_s * 0.02,
        "count_duration_s": 0.09 * (1 + load_s / 100),
        "table_apparent_bytes": 71_303_168.0,
        "table_allocated_bytes": 71_307_264.0,
        "data_dir_apparent_bytes": 210_763_776.0,
        "data_dir_allocated_bytes": 210_771_968.0,
        "table_rows": float(rows),
    }
    return (
        *(MeasurementRecord(name, value) for name, value in values.items()),
        MeasurementRecord("client_user_s", 0.4, role="client"),
    )


def _instance(levels: Mapping[str, Level]) -> InstanceRecord:
    name, configuration = str(levels["server"]), str(levels["configuration"])
    family, version = name.split("-", 1)
    server = ServerRecord(
        name=name,
        family=family,
        version=version,
        version_reported=f"{version}-{'MariaDB' if family == 'mariadb' else 'log'}",
        build=BuildFacts(
            attached=False,
            source=f"tarball:{name}-linux-x86_64.tar.gz",
            artefacts=(ArtefactFact(coordinate=name, sha256="ab" * 32, size_bytes=31_394_029),),
            program_sha256="cd" * 32,
            compiler="GCC 4.8.5",
            allocator="glibc",
            libc="host 2.36",
            async_io="libaio",
            symbols="DWARF",
            note=None,
        ),
        host_variables=("datadir", "socket", "port"),
    )
    options: tuple[OptionRecord, ...] = ()
    if configuration == "wmf":
        options = (
            OptionRecord("sync_binlog", "1", "wmf", optional=False),
            OptionRecord("open_files_limit", "200000", "wmf", optional=False),
            OptionRecord("temp_pool", None, "wmf", True, left_out="unknown to this version"),
        )
    effective = {
        "version": version,
        "datadir": f"/tmp/{name}",
        "socket": f"/tmp/{name}.sock",
        "port": "33061",
        "sync_binlog": "1",
        "open_files_limit": "65536",
        "innodb_flush_method": "" if version.startswith("5") else "fsync",
        "performance_schema": "OFF" if family == "mariadb" else "ON",
        f"{family}_only": "1",
    }
    return InstanceRecord(
        "server",
        server,
        configuration,
        options,
        effective,
        facts=InstanceFacts.model_validate({"runs_as": "nobody"}),
    )


def measured(stored: StoredRun, name: str, values: Mapping[str, float]) -> StoredRun:
    """Return ``stored`` with a further measurement in the attempts of the servers in ``values``."""
    return replace(
        stored,
        attempts=tuple(
            replace(
                attempt,
                measurements=(
                    *attempt.measurements,
                    MeasurementRecord(name, values[attempt.instances[0].server.name]),
                ),
            )
            if attempt.instances[0].server.name in values
            else attempt
            for attempt in stored.attempts
        ),
    )


def extended(stored: StoredRun, blocks: int, *, at_block: int) -> StoredRun:
    """Return ``stored`` as if extended by blocks when ``at_block`` of them had ended."""
    block_of = {trial.id: trial.block for trial in stored.trials}
    attempts = tuple(
        replace(
            attempt,
            started_utc=f"2026-01-{5 + (block_of[attempt.trial_id] >= at_block):02}T10:00:00Z",
            ended_utc=f"2026-01-{5 + (block_of[attempt.trial_id] >= at_block):02}T10:00:30Z",
        )
        for attempt in stored.attempts
    )
    extension = {
        "blocks": blocks,
        "utc": "2026-01-05T18:00:00Z",
        "command": "millrace run",
        "design": {"kind": "fixed", "blocks": blocks},
    }
    run = replace(stored.run, spec=stored.run.spec.replace(extensions=[extension]))
    return replace(stored, run=run, attempts=attempts)


def tried_again(stored: StoredRun, load_s: float | None, *, started_utc: str) -> StoredRun:
    """Return ``stored`` with another attempt of its first trial that failed.

    None: that fails too."""
    failed = next(each for each in stored.attempts if each.outcome == "failed")
    again = replace(
        failed,
        id=max(each.id for each in stored.attempts) + 1,
        number=failed.number + 1,
        started_utc=started_utc,
        ended_utc=started_utc.replace(":00Z", ":30Z"),
    )
    if load_s is not None:
        again = replace(
            again,
            outcome="finished",
            failed_step=None,
            reason=None,
            log_tail=None,
            steps=_steps(load_s),
            measurements=_measurements(load_s, ROWS),
        )
    return replace(stored, attempts=(*stored.attempts, again))


def keep(stored: StoredRun, path: Path) -> None:
    """Write ``stored`` to a results store at ``path``, the way the runner does."""
    with Store.open(path) as store:
        store.begin_run(stored.run, stored.treatments, stored.trials)
        for utc, ended in groupby(stored.attempts, lambda each: each.ended_utc or each.started_utc):
            store.finish_attempts([_claimed(store, each) for each in ended], utc)


def _claimed(store: Store, attempt: StoredAttempt) -> tuple[int, AttemptResult]:
    """Begin an attempt, and return its id with its result."""
    claimed = store.claim(attempt.trial_id, OWNER, attempt.started_utc, is_alive=lambda _: False)
    assert claimed is not None
    assert attempt.outcome is not None
    return claimed, AttemptResult(
        outcome=attempt.outcome,
        steps=attempt.steps,
        instances=attempt.instances,
        measurements=attempt.measurements,
        failed_step=attempt.failed_step,
        reason=attempt.reason,
        log_tail=attempt.log_tail,
    )


def study(blocks: int = 3) -> StoredRun:
    """Return three servers, two configurations, with failures, unapplied options, findings."""
    servers = {"mysql-5.6.24": 3.2, "mysql-5.7.22": 3.6, "mariadb-10.2.11": 2.8}
    load_s: dict[tuple[str, str], Sequence[float | Fails | None]] = {
        (server, configuration): noisy(mean_s * factor, blocks, seed=number)
        for number, (server, mean_s) in enumerate(servers.items())
        for configuration, factor in (("default", 1.0), ("wmf", 1.2))
    }
    load_s["mariadb-10.2.11", "wmf"] = [Fails()] * blocks
    factors = {"configuration": ["default", "wmf"]}
    return RunBuilder(load_s, factors=factors, findings=FINDINGS).build()
