"""Test pairs that are measured concurrently, on real servers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from millrace.app import execution
from millrace.app.experiments import read_experiment
from millrace.campaign import run_records
from millrace.campaign.policies.calibrate import (
    CalibrationBlock,
    block_plan,
    calibration_experiment,
    groups_of,
)
from millrace.campaign.run_records import begin_run, new_run_record, stored_trial_id
from millrace.experiment.slowdown import AGAIN
from millrace.host.cpuset import cpu_partitions
from millrace.model.events import IntervalEnded, TrialEvent
from millrace.model.instance_facts import ConcurrentFact
from millrace.model.servers import FittedOptions, Option
from millrace.quantities import utc_now
from millrace.servers.instances import ownership, processes
from millrace.store.records import PAIR_FAILED, AttemptResult, MeasurementRecord, StepRecord
from millrace.store.store import Store
from millrace.trial.concurrent_pair import execute_pair
from millrace.trial.group import GroupTrial
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.conftest import ServerOf
from tests.integration.trial.command import Place
from tests.unit.workloads.small import driving

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each side needs a CPU"),
]

SERVERS = ("mysql-5.6.24", "mariadb-10.11.19")
QUICK = {"table_size": 1_000, "time_s": 2.0, "warmup_s": 0.2, "settle_s": 0.3, "rate": 100.0}
LIMIT_S = 60.0

FILE = """\
name = "beside"
workload = "sysbench"
seed = 1
collectors = []

[factors]
server = ["mysql-5.6.24", "mariadb-10.11.19"]
test = ["point-query"]
rate = [100] # leaves the CPUs to other tests

[compare]
base = "mysql-5.6.24"

[parameters]
table_size = 1_000
time_s = 2
warmup_s = 0.2
settle_s = 0.3
"""

Events = list[tuple[str, TrialEvent]]


@pytest.fixture(scope="module", autouse=True)
def _own_snapshots(own_places: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_SNAPSHOTS", str(own_places / "snapshots-of-pairs"))
        yield


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "beside.toml").write_text(FILE, encoding="utf-8")
    return Place(tmp_path)


def affinities(record: ownership.OwnershipRecord) -> set[frozenset[int]]:
    """Return the CPUs of all threads of an instance's processes."""
    return {
        frozenset(os.sched_getaffinity(thread.id))
        for process in record.live_processes()
        for thread in psutil.Process(process.pid).threads()
    }


class Watch:
    """A listener to both slots' events that inspects running servers and load generators."""

    def __init__(self, *, kill: str | None = None) -> None:
        self.events: Events = []
        self.servers: dict[str, set[frozenset[int]]] = {}
        self.clients: set[frozenset[int]] = set()
        self._kill = kill

    def of(self, label: str) -> Any:
        return lambda event: self._hear(label, event)

    def _hear(self, label: str, event: TrialEvent) -> None:
        self.events.append((label, event))
        if not isinstance(event, IntervalEnded):
            return
        for record in ownership.running():
            if self._kill is None:
                self.servers[record.server] = affinities(record)
            elif record.server == self._kill:
                for process in record.live_processes():
                    processes.end(process, signal.SIGKILL, limit_s=LIMIT_S)
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if child.name() == "millrace-load" and "run" in child.cmdline():
                    self.clients.add(frozenset(os.sched_getaffinity(child.pid)))


def pair(
    server_of: ServerOf, watch: Watch, *, second_options: tuple[Option, ...] = (), **chosen: Any
) -> tuple[AttemptResult, ...]:
    options = FittedOptions("default", ()), FittedOptions("test", second_options)
    return execute_pair(
        [
            GroupTrial(
                TrialSpec(
                    name=f"test/{name}",
                    servers=(ServerSpec(server_of(name), fitted),),
                    workload=ResolvedWorkload(driving(), {**QUICK, **chosen}),
                    cpu_partition=partition,
                ),
                name,
                watch.of(name),
            )
            for name, fitted, partition in zip(SERVERS, options, cpu_partitions(), strict=True)
        ]
    )


def side_of(result: AttemptResult) -> ConcurrentFact:
    fact = result.instances[0].facts.concurrent
    assert fact is not None
    return fact


def test_both_measure_at_the_same_time_each_on_its_own_cpus(server_of: ServerOf) -> None:
    watch = Watch()
    results = pair(server_of, watch)
    assert [result.outcome for result in results] == ["finished", "finished"], results
    first, second = map(side_of, results)
    latest_begin = max(first.measured_from_s, second.measured_from_s)
    assert latest_begin < min(first.measured_to_s, second.measured_to_s)
    partitions = [frozenset(partition.cpus) for partition in cpu_partitions()]
    assert [frozenset(side.cpus) for side in (first, second)] == partitions
    assert not partitions[0] & partitions[1]
    for name, partition in zip(SERVERS, partitions, strict=True):
        assert watch.servers[name] == {partition}
    assert watch.clients == set(partitions)
    for result in results:
        names = [step.name for step in result.steps]
        assert names.index("barrier") == names.index("settle") + 1
        assert any(m.name == "transactions" and m.value > 0 for m in result.measurements)
    assert ownership.running() == []


def test_two_of_the_same_server_start_from_the_same_snapshot(server_of: ServerOf) -> None:
    name = SERVERS[0]
    sides = [
        GroupTrial(
            TrialSpec(
                name=f"test/{partition.side}",
                servers=(ServerSpec(server_of(name), FittedOptions("default", ())),),
                workload=ResolvedWorkload(driving(), {**QUICK, "table_size": 1_234, "time_s": 0.5}),
                cpu_partition=partition,
            ),
            name,
            lambda _event: None,
        )
        for partition in cpu_partitions()
    ]
    results = execute_pair(sides)
    assert [result.outcome for result in results] == ["finished", "finished"], results
    snapshots = [result.instances[0].facts.snapshot for result in results]
    assert snapshots[0] is not None
    assert snapshots[0] == snapshots[1]


def test_where_a_server_does_not_start_the_other_is_left_out(server_of: ServerOf) -> None:
    wrong = Option("no_such_option", "1", False, "test")
    left_out, failed = pair(server_of, Watch(), second_options=(wrong,))
    assert (failed.outcome, failed.failed_step) == ("failed", "start")
    assert (left_out.outcome, left_out.failed_step) == ("failed", PAIR_FAILED)
    assert f"{SERVERS[1]}, failed at step start" in str(left_out.reason)
    assert ownership.running() == []


def test_where_a_server_dies_while_both_measure_none_counts(server_of: ServerOf) -> None:
    left_out, killed = pair(server_of, Watch(kill=SERVERS[1]), time_s=20.0)
    assert killed.outcome == "failed"
    assert "SIGKILL" in str(killed.reason)
    assert (left_out.outcome, left_out.failed_step) == ("failed", PAIR_FAILED)
    assert ownership.running() == []


def nothing_is_left() -> bool:
    return ownership.running() == []


def test_a_run_that_is_stopped_leaves_nothing_and_goes_on(place: Place) -> None:
    file = place.directory / "beside.toml"
    command = ("calibrate", file, "--concurrent", "--slowdown", "none")
    asked = ("--verdicts", "1", "--blocks", "3")
    for number in (signal.SIGINT, signal.SIGKILL):
        with place.running(*command, *asked) as process:
            place.wait_for_step("measure", process)
            process.send_signal(number)
            output, _ = process.communicate(timeout=120)
        if number == signal.SIGINT:
            assert process.returncode == 130, output
            assert "the same command resumes" in output
            assert nothing_is_left()
        deadline = time.monotonic() + LIMIT_S
        while not nothing_is_left():  # both processes end by themselves once their parent is gone
            assert time.monotonic() < deadline
            time.sleep(0.01)
        stopped = place.latest()
        assert {attempt.outcome for attempt in stopped.attempts} <= {"interrupted", None}
    ran = place.millrace(*command, *asked)
    assert ran.returncode == 0, ran.stderr
    stored = place.latest()
    assert stored.run.id == stopped.run.id
    assert stored.run.design.concurrent
    assert len(stored.last_attempts()) == len(stored.trials) == 6
    assert nothing_is_left()


def calibrated(place: Place, file: Path) -> None:
    """Record a calibration of this host for concurrent pairs, as hours of it would."""
    experiment = calibration_experiment(read_experiment(file))
    groups = groups_of(experiment)
    host, versions = execution.host_record(), execution.versions()
    with Store.open(place.store) as store:
        run = None
        for block in range(100):
            wanted = CalibrationBlock(AGAIN, groups)
            plan = block_plan(experiment, wanted, seed=1, block=block, position=2 * block)
            run = run or new_run_record(plan, host, versions, "millrace calibrate")
            begin_run(store, run, plan)
            for trial in plan.trials:
                attempt = store.claim(
                    stored_trial_id(run, trial),
                    run_records.this_process(host.id),
                    utc_now(),
                    is_alive=run_records.is_alive,
                )
                assert attempt is not None
                store.finish(attempt, made_up(1000.0 + trial.position % 3), utc_now())


def made_up(transactions: float) -> AttemptResult:
    figures = {"transactions": transactions, "measure_duration_s": 1.0, "errors": 0.0}
    return AttemptResult(
        "finished",
        steps=(StepRecord(0, "measure", 0.0, 1.0, "finished"),),
        measurements=tuple(MeasurementRecord(*each) for each in figures.items()),
    )


def test_a_run_measures_pairs_once_the_host_was_calibrated(place: Place) -> None:
    file = place.directory / "beside.toml"
    file.write_text("concurrent = true\n" + FILE, encoding="utf-8")
    refused = place.millrace("run", file, "--blocks", "2")
    assert refused.returncode == 2
    assert "never measured beside itself" in refused.stderr
    calibrated(place, file)
    ran = place.millrace("run", file, "--blocks", "2")
    assert ran.returncode == 0, ran.stderr
    assert "side by side, 2 blocks" in ran.stdout
    stored = place.latest()
    of = {attempt.trial_id: attempt for attempt in stored.attempts}
    sides: dict[str, list[int]] = {}
    for trial in stored.trials:
        facts = of[trial.id].instances[0].facts
        fact, control = facts.concurrent, facts.cpu_idle
        assert fact is not None
        assert control is not None
        assert fact.side == trial.position % 2
        assert {*(control.client_cpus or ())} <= {*fact.cpus}
        assert control.shared_cpu in (None, *fact.cpus)
        sides.setdefault(trial.treatment_id, []).append(fact.side)
    assert all(sorted(of_one) == [0, 1] for of_one in sides.values())
