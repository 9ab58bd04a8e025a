"""Runs that are carried out by the real campaign, runner and store, on servers that are numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.campaign import scheduler as runner
from millrace.campaign.policies import sequential
from millrace.campaign.resume import Chosen, choose
from millrace.errors import Interrupted
from millrace.experiment.read import Overrides
from millrace.host.cpuset import CpuPartition
from millrace.model.events import Event
from millrace.store.records import (
    BESIDE,
    AttemptResult,
    HostRecord,
    MeasurementRecord,
    StepRecord,
    StoredRun,
)
from millrace.store.store import Store
from millrace.trial.concurrent_pair import PairTrial
from millrace.trial.measure import TrialSpec
from tests.unit.experiment.files import read_text

BASE, SLOW, LIKE, BROKEN = "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12", "mariadb-10.2.11"
HOST = HostRecord("h1", {"kernel": {"release": "6.1"}})
TRIAL_S = 10.0

FILE = """
name = "lab"
workload = "{workload}"
side_by_side = {side_by_side}
seed = {seed}
profile_blocks = {profile_blocks}
[factors]
server = {servers}
[compare]
base = "mysql-5.6.24"
[parameters]
{size} = 1000
"""
HALVES = (CpuPartition(0, (0,)), CpuPartition(1, (1,)))

Fate = Callable[[str, int, int], bool]
"""Whether a trial of a server, in a block, at its so-manieth attempt, is to fail."""


@dataclass
class Laboratory:
    """The same command again and again: ``ratios`` are the servers and how much slower each is."""

    directory: Path
    patch: pytest.MonkeyPatch
    ratios: Mapping[str, float] = field(default_factory=lambda: {BASE: 1.0, SLOW: 2.0})
    spread: float = 0.005
    seed: int = 1
    profile_blocks: int = 0
    side_by_side: bool = False
    fails: Fate = lambda _server, _block, _attempt: False
    events: list[Event] = field(default_factory=list)
    carried_out: list[str] = field(default_factory=list)

    def run(
        self,
        *,
        stop_after: int | None = None,
        retry_failed: bool = False,
        fresh: bool = False,
        **asked: Any,
    ) -> StoredRun:
        """Carry the experiment out, or on; it is interrupted in the trial after ``stop_after``."""
        self.carried_out.clear()
        with Store.open(self.directory / "results.sqlite") as store:
            chosen = self._choose(store, Overrides(**asked), fresh=fresh)
            self._instead_of_servers(chosen, stop_after)
            try:
                self._carry_out(store, chosen, retry_failed=retry_failed)
            except Interrupted:
                assert stop_after is not None
            return store.load_run(chosen.run.id)

    def progress(self, **asked: Any) -> sequential.Progress:
        return self.chosen(**asked)[1]

    def chosen(self, **asked: Any) -> tuple[Chosen, sequential.Progress]:
        """What a command chooses, and how far that has come."""
        with Store.open(self.directory / "results.sqlite") as store:
            chosen = self._choose(store, Overrides(**asked))
            return chosen, sequential.progress(store, chosen)

    def _choose(self, store: Store, overrides: Overrides, *, fresh: bool = False) -> Chosen:
        text = FILE.format(
            servers=list(self.ratios),
            seed=self.seed,
            profile_blocks=self.profile_blocks,
            side_by_side=str(self.side_by_side).lower(),
            workload="sysbench" if self.side_by_side else "load-data",
            size="table_size" if self.side_by_side else "rows",
        )
        experiment = read_text(self.directory, text, overrides=overrides)
        return choose(
            store, experiment, host=HOST, versions={}, command="millrace run lab", fresh=fresh
        )

    def _carry_out(self, store: Store, chosen: Chosen, *, retry_failed: bool) -> None:
        work = SimpleNamespace(reads_a_file=False, connections=None)
        treatments = {
            each.id: runner.PreparedTreatment(cast(Any, None), cast(Any, None), cast(Any, work))
            for each in chosen.plan.treatments
        }
        given = runner.RunInput(chosen.plan, treatments, None, None, halves=HALVES)
        watch = self.events.append
        if chosen.plan.experiment.sequential:
            sequential.carry_out(store, chosen, given, watch, retry_failed=retry_failed)
            return
        runner.begin(store, chosen.run, chosen.plan, chosen.extension)
        runner.carry_out(store, chosen.run, given, watch, retry_failed=retry_failed)

    def _instead_of_servers(self, chosen: Chosen, stop_after: int | None) -> None:
        planned = {runner.stored_trial_id(chosen.run, trial): trial for trial in chosen.plan.trials}
        attempts: dict[str, int] = {}

        def execute_trial(given: TrialSpec, _announce: object) -> AttemptResult:
            if stop_after is not None and len(self.carried_out) >= stop_after:
                raise Interrupted("interrupted")
            trial = planned[given.name]
            server = str(trial.treatment.levels["server"])
            self.carried_out.append(given.name)
            attempts[given.name] = attempts.get(given.name, 0) + 1
            if self.fails(server, trial.block, attempts[given.name]):
                return AttemptResult("failed", failed_step="start", reason="no such option")
            source = random.Random(f"{self.seed}:{trial.id}")
            load_s = 4.0 * self.ratios[server] * source.lognormvariate(0, self.spread)
            return AttemptResult(
                "finished",
                steps=(StepRecord(0, "load", 0.0, TRIAL_S, "finished"),),
                measurements=(
                    MeasurementRecord("rows", 1000.0),
                    MeasurementRecord("load_duration_s", load_s),
                    MeasurementRecord("finish_duration_s", 0.01),
                    MeasurementRecord("transactions", 1000.0),
                    MeasurementRecord("measure_duration_s", load_s),
                ),
            )

        def execute_pair(pair: Sequence[PairTrial]) -> tuple[AttemptResult, ...]:
            assert [each.given.half for each in pair] == list(HALVES)
            results = tuple(execute_trial(each.given, each.announce) for each in pair)
            if {each.outcome for each in results} == {"finished"}:
                return results
            left_out = AttemptResult("failed", failed_step=BESIDE, reason="the other one failed")
            return tuple(each if each.outcome == "failed" else left_out for each in results)

        self.patch.setattr(runner, "execute_trial", execute_trial)
        self.patch.setattr(runner, "execute_pair", execute_pair)


def blocks_of(stored: StoredRun, purpose: str = "measure") -> dict[str, list[int]]:
    """The blocks in which each server has a trial, in their order."""
    servers = {each.id: str(each.levels["server"]) for each in stored.treatments}
    found: dict[str, list[int]] = {server: [] for server in servers.values()}
    for trial in sorted(stored.trials, key=lambda trial: trial.block):
        if trial.purpose == purpose:
            found[servers[trial.treatment_id]].append(trial.block)
    return found


def without_instants(stored: StoredRun) -> StoredRun:
    """The run without what no two of them have in common."""
    attempts = tuple(
        replace(each, id=0, owner=stored.attempts[0].owner, started_utc="", ended_utc="", number=1)
        for each in stored.attempts
        if each.outcome == "finished"
    )
    spec = stored.run.spec.replace(source="")
    run = replace(stored.run, id="", created_utc="", spec=spec)
    trials = tuple(replace(t, id=t.id.partition("/")[2]) for t in stored.trials)
    named = tuple(replace(a, trial_id=a.trial_id.partition("/")[2]) for a in attempts)
    return replace(stored, run=run, trials=trials, attempts=named)
