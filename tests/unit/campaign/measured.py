"""Campaigns without servers: their trials are carried out by a function of treatment and block."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from millrace.app import block_by_block
from millrace.app import run as carrying_out
from millrace.campaign import scheduler as runner
from millrace.errors import Interrupted
from millrace.levels import Level
from millrace.store.records import (
    AttemptResult,
    HostRecord,
    MeasurementRecord,
    RunRecord,
    StepRecord,
    StoredRun,
)
from millrace.store.store import Store
from tests.unit.analysis.builders import HOST_FACTS, OWNER

HOST = HostRecord("host-1", {**HOST_FACTS, "findings": []})
VERSIONS = {"millrace": "0.1.0", "load_generator": "0.1.0", "data": "nodes-1"}

ROWS = 1000.0
TRIAL_S = 3.0

# Rows a second of a treatment in a block, by its resolved levels; None: the trial fails.
Speed = Callable[[Mapping[str, Level], int], float | None]


def noisy(speed: Speed, sd: float, seed: int = 1) -> Speed:
    """The same with log-normal noise, the same again for the same seed."""
    source = random.Random(seed)

    def drawn(levels: Mapping[str, Level], block: int) -> float | None:
        value = speed(levels, block)
        return None if value is None else value * source.lognormvariate(0, sd)

    return drawn


def result_of(speed: float | None, stopped: float | None = None) -> AttemptResult:
    """What a load-data trial of this speed gives; ``stopped`` is the share of time that its server
    was stopped."""
    if speed is None:
        return AttemptResult("failed", failed_step="start", reason="mysqld: does not start")
    measured = {"rows": ROWS, "load_duration_s": ROWS / speed, "finish_duration_s": 0.0}
    if stopped is not None:
        measured |= {"slowdown_stopped_s": stopped * 2.0, "slowdown_window_s": 2.0}
    return AttemptResult(
        "finished",
        steps=(StepRecord(0, "measure", 0.0, TRIAL_S, "finished"),),
        measurements=tuple(MeasurementRecord(*each) for each in measured.items()),
    )


@dataclass
class Carried:
    """Stands for the runner; ``ends_after`` trials it is interrupted, once."""

    speed: Speed
    ends_after: int | None = None
    trials: list[tuple[int, dict[str, Level]]] = field(default_factory=list)

    def carry_out(
        self,
        store: Store,
        run: RunRecord,
        given: runner.RunInput,
        watch: runner.Watcher,
        *,
        retry_failed: bool = False,
    ) -> None:
        for trial in given.plan.trials:
            if self.ends_after is not None and len(self.trials) >= self.ends_after:
                self.ends_after = None
                raise Interrupted("interrupted")
            name = runner.stored_trial_id(run, trial)
            claimed = store.claim(
                name,
                OWNER,
                "2026-01-05T10:00:00Z",
                is_alive=lambda _owner: False,
                retry_failed=retry_failed,
            )
            if claimed is None:
                continue
            resolved = dict(trial.treatment.resolved)
            self.trials.append((trial.block, dict(trial.treatment.levels)))
            level = str(resolved.get("slowdown", "none"))
            share = float(level[4:-1]) / 100 if level.startswith("cpu=") else None
            outcome = result_of(self.speed(resolved, trial.block), share)
            store.finish(claimed, outcome, "2026-01-05T10:00:03Z")


def carried(
    monkeypatch: pytest.MonkeyPatch, speed: Speed, *, ends_after: int | None = None
) -> Carried:
    """Commands carry trials out by ``speed`` from now on, as on a host of their own."""
    stand_in = Carried(speed, ends_after)
    monkeypatch.setattr(runner, "carry_out", stand_in.carry_out)
    monkeypatch.setattr(block_by_block, "run_input", _given)
    monkeypatch.setattr(block_by_block, "estimate_or_refuse", lambda _plan, _store: None)
    monkeypatch.setattr(carrying_out, "host_record", lambda: HOST)
    monkeypatch.setattr(carrying_out, "versions", lambda: VERSIONS)
    return stand_in


def _given(_stack: Any, plan: Any, _earlier: Any, _data_file: Any = None) -> runner.RunInput:
    return runner.RunInput(plan, {}, None, None)


def n_runs(store: Path) -> int:
    """How many runs a store has."""
    with Store.open(store, read_only=True) as opened:
        return len(opened.list_runs())


def newest(store: Path) -> StoredRun:
    """Its newest run."""
    with Store.open(store, read_only=True) as opened:
        return opened.load_run(opened.find_run("latest").id)


def alone(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """No lock of the host for the commands of ``module``."""
    monkeypatch.setattr(module, "quiet_host", lambda _purpose: nullcontext())


def experiment_file(directory: Path, **changes: Any) -> Path:
    """An experiment of load-data with two groups."""
    given = {"blocks": 8, "engines": '["InnoDB", "MyISAM"]', **changes}
    path = directory / "small.toml"
    path.write_text(
        f"""\
name = "small"
workload = "load-data"
seed = 1
blocks = {given["blocks"]}
observers = []

[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
engine = {given["engines"]}

[compare]
factor = "server"
base = "mysql-5.6.24"

[parameters]
rows = 1000
""",
        encoding="utf-8",
    )
    return path
