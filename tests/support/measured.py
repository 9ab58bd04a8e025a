"""Run campaigns without servers: a function of treatment and block returns each trial's result."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from millrace.app import execution, servers
from millrace.campaign import attempts, preparation
from millrace.campaign.attempts import Claimed
from millrace.campaign.inputs import RunInput
from millrace.errors import Interrupted
from millrace.experiment.estimate import Estimate
from millrace.experiment.model import Plan
from millrace.levels import Level
from millrace.model.events import OnEvent
from millrace.store import records
from millrace.store.store import Store
from tests.support.builders import HOST_FACTS
from tests.support.experiment_files import experiment_text, written
from tests.support.laboratory import inputs_of

HOST = records.HostRecord("host-1", HOST_FACTS.replace(findings=()))
VERSIONS = {"millrace": "0.1.0", "load_generator": "0.1.0", "data": "nodes-1"}

ROWS = 1000.0
TRIAL_S = 3.0

# Rows per second of a treatment in a block, by its resolved levels; None: the trial fails.
Speed = Callable[[Mapping[str, Level], int], float | None]


def noisy(speed: Speed, sd: float, seed: int = 1) -> Speed:
    """Return the speed with log-normal noise, the same for the same seed."""
    source = random.Random(seed)

    def drawn(levels: Mapping[str, Level], block: int) -> float | None:
        value = speed(levels, block)
        return None if value is None else value * source.lognormvariate(0, sd)

    return drawn


def result_of(speed: float | None, stopped: float | None = None) -> records.AttemptResult:
    """Return the result of a load-data trial at this speed.

    ``stopped`` is the share of time for which its server was stopped.
    """
    if speed is None:
        return records.AttemptResult("failed", failed_step="start", reason="mysqld: does not start")
    measured = {"rows": ROWS, "load_duration_s": ROWS / speed, "finish_duration_s": 0.0}
    if stopped is not None:
        measured |= {"slowdown_stopped_s": stopped * 2.0, "slowdown_window_s": 2.0}
    return records.AttemptResult(
        "finished",
        steps=(records.StepRecord(0, "measure", 0.0, TRIAL_S, "finished"),),
        measurements=tuple(records.MeasurementRecord(*each) for each in measured.items()),
    )


@dataclass
class Carried:
    """A stand-in for servers; it is interrupted once, after ``ends_after`` trials."""

    speed: Speed
    ends_after: int | None = None
    trials: list[tuple[int, dict[str, Level]]] = field(default_factory=list)

    def execute_claimed(
        self, claimed: Sequence[Claimed], _emit: OnEvent
    ) -> Sequence[records.AttemptResult]:
        return [self._measure(each) for each in claimed]

    def _measure(self, claimed: Claimed) -> records.AttemptResult:
        if self.ends_after is not None and len(self.trials) >= self.ends_after:
            self.ends_after = None
            raise Interrupted("interrupted")
        trial = claimed.trial
        resolved = dict(trial.treatment.resolved)
        self.trials.append((trial.block, dict(trial.treatment.levels)))
        level = str(resolved.get("slowdown", "none"))
        share = float(level[4:-1]) / 100 if level.startswith("cpu=") else None
        return result_of(self.speed(resolved, trial.block), share)


def carried(
    monkeypatch: pytest.MonkeyPatch, speed: Speed, *, ends_after: int | None = None
) -> Carried:
    """Measure trials by ``speed`` from now on, as on a host of their own."""
    stand_in = Carried(speed, ends_after)
    estimate = Estimate(1.0, 1.0, 0.0, 0, "", 1, 0)
    monkeypatch.setattr(attempts, "execute_claimed", stand_in.execute_claimed)
    monkeypatch.setattr(attempts, "utc_now", lambda: "2026-01-05T10:00:03Z")
    monkeypatch.setattr(preparation, "run_input", given_inputs)
    monkeypatch.setattr(preparation, "refuse_without_space", lambda _estimate: None)
    monkeypatch.setattr(preparation, "forecast_here", lambda _plan, _store: estimate)
    monkeypatch.setattr(preparation, "expected_here_s", lambda _plan, _store: 1.0)
    monkeypatch.setattr(execution, "forecast_here", lambda _plan, _store: estimate)
    monkeypatch.setattr(execution, "host_record", lambda: HOST)
    monkeypatch.setattr(execution, "versions", lambda: VERSIONS)
    return stand_in


def given_inputs(
    _stack: Any, plan: Plan, _earlier: Any, _on_event: Any, *, data_file: Path | None = None
) -> RunInput:
    """Return inputs as if all servers were installed."""
    return replace(inputs_of(plan), data_file=data_file)


def n_runs(store: Path) -> int:
    """Return the number of runs in a store."""
    with Store.open(store, read_only=True) as opened:
        return len(opened.list_runs())


def newest(store: Path) -> records.StoredRun:
    """Return the newest run of a store."""
    with Store.open(store, read_only=True) as opened:
        return opened.load_run(opened.find_run("latest").id)


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no lock of the host, and look for no leftovers on it."""
    monkeypatch.setattr(servers, "host_lock", lambda _purpose: nullcontext())
    monkeypatch.setattr("millrace.servers.instances.ownership.reap_orphans", lambda _progress: [])


def experiment_file(directory: Path, **changes: Any) -> Path:
    """Write an experiment of load-data with two groups."""
    given = {"blocks": 8, "engines": ["InnoDB", "MyISAM"], **changes}
    text = experiment_text(
        design="interleaved",
        seed=1,
        blocks=given["blocks"],
        collectors=[],
        factors={"engine": given["engines"]},
        parameters={"rows": 1000},
    )
    return written(directory, text)
