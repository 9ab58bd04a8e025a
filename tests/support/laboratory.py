"""Execute runs with the real campaign, runner and store, on simulated servers."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millrace.campaign import attempts, scheduler
from millrace.campaign.attempts import Claimed
from millrace.campaign.inputs import PreparedTreatment, RunInput
from millrace.campaign.policies import experiment
from millrace.campaign.policies.experiment import Fixed, Sequential
from millrace.campaign.resume import RunSelection, select_run
from millrace.campaign.scheduler import rules_of
from millrace.errors import Interrupted
from millrace.experiment.model import Plan
from millrace.experiment.plan import expand
from millrace.experiment.read import Overrides
from millrace.model.events import Emitted, OnEvent
from millrace.model.host_facts import HostFacts
from millrace.servers import added, install
from millrace.store import records
from millrace.store.store import Store
from tests.support.experiment_files import context, experiment_text, read_text

BASE, SLOW, LIKE, BROKEN = "mysql-5.6.24", "mysql-5.7.22", "mysql-8.0.12", "mariadb-10.2.11"
HOST = records.HostRecord("h1", HostFacts.model_validate({"kernel": {"release": "6.1"}}))
TRIAL_S = 10.0

Fate = Callable[[str, int, int], bool]
"""Whether a trial of a server, in a block, at its so-manieth attempt, is to fail."""


@dataclass
class Laboratory:
    """A command that can be repeated.

    ``ratios`` maps each server to the factor by which it is slower."""

    directory: Path
    patch: pytest.MonkeyPatch
    ratios: Mapping[str, float] = field(default_factory=lambda: {BASE: 1.0, SLOW: 2.0})
    spread: float = 0.005
    seed: int = 1
    profile_blocks: int = 0
    slices: bool = False
    fails: Fate = lambda _server, _block, _attempt: False
    events: list[Emitted] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)

    def run(
        self,
        *,
        stop_after: int | None = None,
        retry_failed: bool = False,
        fresh: bool = False,
        **asked: Any,
    ) -> records.StoredRun:
        """Execute the experiment, or resume it.

        It is interrupted in the trial after ``stop_after``."""
        self.measured.clear()
        with Store.open(self.directory / "results.sqlite") as store:
            selection = self._select(store, Overrides(**asked), fresh=fresh)
            self._replace_servers(stop_after)
            try:
                self._execute(store, selection, retry_failed=retry_failed)
            except Interrupted:
                assert stop_after is not None
            return store.load_run(selection.run.id)

    def progress(self, **asked: Any) -> experiment.Progress:
        return self.selected(**asked)[1]

    def selected(self, **asked: Any) -> tuple[RunSelection, experiment.Progress]:
        """Return what a command selects, and its progress."""
        with Store.open(self.directory / "results.sqlite") as store:
            selection = self._select(store, Overrides(**asked))
            stored = None
            if not selection.is_new:
                stored = store.load_run(selection.run.id, observations_too=True)
            return selection, experiment.progress(selection, stored)

    def _select(self, store: Store, overrides: Overrides, *, fresh: bool = False) -> RunSelection:
        text = lab_text(
            list(self.ratios),
            self.seed,
            profile_blocks=self.profile_blocks,
            design="slices" if self.slices else "interleaved",
            workload="sysbench" if self.slices else "load-data",
            factors={"test": ["point-query"]} if self.slices else {},
            parameters={"table_size" if self.slices else "rows": 1000},
        )
        experiment = read_text(self.directory, text, overrides=overrides)
        return select_run(
            store, experiment, host=HOST, versions={}, command="millrace run lab", fresh=fresh
        )

    def _execute(self, store: Store, selection: RunSelection, *, retry_failed: bool) -> None:
        plan = selection.plan
        policy_of = Sequential if plan.experiment.sequential else Fixed
        policy = policy_of(selection, retry_failed=retry_failed)
        scheduler.execute(
            store,
            selection.run,
            policy,
            lambda plan, _stored: inputs_of(plan),
            self.events.append,
            is_new=selection.is_new,
            rules=rules_of(selection),
        )

    def _replace_servers(self, stop_after: int | None) -> None:
        counts: dict[str, int] = {}

        def measure(claimed: Claimed) -> records.AttemptResult:
            trial, name = claimed.trial, claimed.spec.name
            if stop_after is not None and len(self.measured) >= stop_after:
                raise Interrupted("interrupted")
            server = str(trial.treatment.levels["server"])
            self.measured.append(name)
            counts[name] = counts.get(name, 0) + 1
            if self.fails(server, trial.block, counts[name]):
                return records.AttemptResult("failed", failed_step="start", reason="no such option")
            source = random.Random(f"{self.seed}:{trial.id}")
            load_s = 4.0 * self.ratios[server] * source.lognormvariate(0, self.spread)
            measured = {"rows": 1000.0, "finish_duration_s": 0.01, "transactions": 1000.0}
            for phase in ("load_duration_s", "measure_duration_s", "measure_trimmed_s"):
                measured[phase] = load_s
            return records.AttemptResult(
                "finished",
                steps=(records.StepRecord(0, "load", 0.0, TRIAL_S, "finished"),),
                measurements=tuple(records.MeasurementRecord(*each) for each in measured.items()),
            )

        real = attempts.execute_claimed

        def execute_claimed(
            claimed: Sequence[Claimed], emit: OnEvent
        ) -> Sequence[records.AttemptResult]:
            if claimed[0].trial.slot is None:
                return [measure(each) for each in claimed]
            if len(claimed) == 1:
                return real(claimed, emit)
            results = [measure(each) for each in claimed]
            # As in a real round: who does not start fails alone, unless that leaves one alone.
            pairs = zip(claimed, results, strict=True)
            finished = [c for c, each in pairs if each.outcome == "finished"]
            if len(finished) > 1 and any(each.is_base for each in finished):
                return results
            why = "the other one failed"
            left_out = records.AttemptResult("failed", failed_step=records.ROUND_FAILED, reason=why)
            return [each if each.outcome == "failed" else left_out for each in results]

        self.patch.setattr(attempts, "execute_claimed", execute_claimed)


def lab_text(servers: list[str], seed: int, **more: Any) -> str:
    """Return the experiment of a laboratory; by default of loads."""
    given = {"design": "interleaved", "parameters": {"rows": 1000}, **more}
    return experiment_text(servers=servers, name="lab", seed=seed, **given)


def attach_a_server(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """Give a test places of its own, where a server at an address is named ``theirs``."""
    patch.setenv("MILLRACE_STATE", str(directory / "state"))
    patch.setenv("MILLRACE_CACHE", str(directory / "cache"))
    added.add_attached("theirs", "mysql", "mysql://someone@127.0.0.1:1/")


def plan_of(directory: Path, text: str) -> Plan:
    """Return the plan of an experiment with servers of the catalogue, or with ``theirs``."""
    known = context([row.name for row in install.list_servers()], attached=("theirs",))
    return expand(read_text(directory, text, context=known), seed=1)


def inputs_of(plan: Plan) -> RunInput:
    """Return inputs of trials that no server runs."""
    checked = SimpleNamespace(metrics={})
    work = SimpleNamespace(reads_a_file=False, connections=None, loops=1, checked=checked)
    treatments = {each.id: PreparedTreatment((), cast(Any, work)) for each in plan.treatments}
    return RunInput(treatments, None, None)


def blocks_of(stored: records.StoredRun, purpose: str = "measure") -> dict[str, list[int]]:
    """Return the blocks in which each server has a trial, in order."""
    servers = {each.id: str(each.levels["server"]) for each in stored.treatments}
    found: dict[str, list[int]] = {server: [] for server in servers.values()}
    for trial in sorted(stored.trials, key=lambda trial: trial.block):
        if trial.purpose == purpose:
            found[servers[trial.treatment_id]].append(trial.block)
    return found


def without_instants(stored: records.StoredRun) -> records.StoredRun:
    """Return the run without the fields that differ between any two runs."""
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
