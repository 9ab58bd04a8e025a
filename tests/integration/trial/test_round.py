"""Test rounds, whose clients take turns in slices, on real servers."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import workloads
from millrace.app.experiments import CHOOSABLE
from millrace.experiment.slowdown import Slowdown, Stopped
from millrace.loadgen import datasets
from millrace.model.events import IntervalEnded, TrialEvent
from millrace.model.servers import FittedOptions, Option
from millrace.servers.instances import ownership, processes
from millrace.store.records import ROUND_FAILED, AttemptResult
from millrace.trial import phase_spec, time_limits
from millrace.trial.cpu_idle import CpuIdleSettings
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.round import RoundTrial, execute_round
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.workloads import Phase
from millrace.workloads.defaults import in_slices
from tests.conftest import ServerOf
from tests.servers import quick_options
from tests.support.command import QUICK_START, SHORT_TRIALS, Place
from tests.support.small_workload import driving, naps

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("own_snapshots", "initialised_once", "settled_soon"),
]

SERVERS = ("mysql-5.6.24", "mariadb-10.11.19", "mysql-8.0.33")
QUICK = {"table_size": 1_000, "time_s": 1.0, "warmup_s": 0.2, "settle_s": 0.3}
LIMIT_S = 60.0

FILE = f"""\
name = "sliced"
workload = "sysbench"
design = "slices"
seed = 1

[factors]
server = ["mysql-5.6.24", "mariadb-10.11.19"]
test = ["point-query"]
{QUICK_START}

[compare]
factor = "server"
base = "mysql-5.6.24"

{SHORT_TRIALS}"""


def round_of(
    server_of: ServerOf,
    servers: tuple[str, ...],
    *,
    last_options: FittedOptions | None = None,
    last_slowdown: Slowdown | None = None,
    kill: str | None = None,
    collectors: tuple[str, ...] = (),
    definition: dict[str, Any] | None = None,
    **chosen: Any,
) -> tuple[AttemptResult, ...]:
    """Drive clients on all servers in slices."""
    workload = ResolvedWorkload(definition or driving(), {**QUICK, **chosen})
    specs = specs_of(server_of, servers, workload, last_options, collectors)
    *others, last = specs
    slowed = replace(last, servers=(replace(last.servers[0], slowdown=last_slowdown),))
    return executed([*others, slowed], lambda event: event.kind == "drive", kill)


def loads_of(
    server_of: ServerOf,
    servers: tuple[str, ...],
    *,
    rows: int = 30_000,
    last_options: FittedOptions | None = None,
    kill: str | None = None,
    expected_rows: int | None = None,
    collectors: tuple[str, ...] = (),
) -> tuple[AttemptResult, ...]:
    """Load into all servers in slices, and count and verify the rows of each."""
    values = {"rows": rows, "data_seed": 7}
    workload = ResolvedWorkload(in_slices(workloads.load("load-data")), values)
    data = datasets.data_checksum("nodes", expected_rows or rows, 7)
    specs = specs_of(server_of, servers, workload, last_options, collectors)
    specs = [replace(each, expected=data) for each in specs]
    return executed(specs, lambda event: event.phase == "load", kill)


def specs_of(
    server_of: ServerOf,
    servers: tuple[str, ...],
    workload: ResolvedWorkload,
    last_options: FittedOptions | None,
    collectors: tuple[str, ...],
) -> list[TrialSpec]:
    """Return the trials of a round; the last may have options of its own."""
    options = [quick_options(name) for name in servers]
    return [
        TrialSpec(
            name=f"test/{slot}",
            servers=(ServerSpec(server_of(name), fitted),),
            workload=workload,
            collectors=collectors,
        )
        for slot, (name, fitted) in enumerate(
            zip(servers, [*options[:-1], last_options or options[-1]], strict=True)
        )
    ]


def executed(
    specs: Sequence[TrialSpec], is_under_way: Callable[[IntervalEnded], bool], kill: str | None
) -> tuple[AttemptResult, ...]:
    """Execute a round; kill the servers of a name while it is under way."""

    def listen(event: TrialEvent) -> None:
        if isinstance(event, IntervalEnded) and is_under_way(event):
            end_all(kill)

    trials = [RoundTrial(each, each.servers[0].server.name, listen) for each in specs]
    return execute_round(trials, base=0, checked=lambda result: result)


def end_all(server: str | None) -> None:
    """Kill the running servers of this name."""
    for record in ownership.running():
        if record.server == server:
            for process in record.live_processes():
                processes.end(process, signal.SIGKILL, limit_s=LIMIT_S)


def figure(result: AttemptResult, name: str) -> float:
    return next(each.value for each in result.measurements if each.name == name)


def test_each_server_has_its_time_and_its_own_figures(server_of: ServerOf) -> None:
    results = round_of(server_of, SERVERS, clients=2)
    assert [result.outcome for result in results] == ["finished"] * 3, results
    slices = {figure(result, "slices") for result in results}
    assert len(slices) == 1  # whole groups have as many of each
    own_s = [figure(result, "measure_duration_s") for result in results]
    # A third each, but slices end with their last answers, which a busy host delays.
    assert max(own_s) < 0.75 * figure(results[0], "round_s")
    assert min(own_s) > 0.5  # the last group that begins may be cut off
    for result in results:
        assert figure(result, "measure_trimmed_s") > 0
        assert figure(result, "transactions") > 0
        assert figure(result, "server_user_s") > 0
        assert figure(result, "buffer_pool_read_requests") > 0
        names = [step.name for step in result.steps]
        assert names.index("measure") == names.index("settle") + 1
        assert names[-1] == "sizes"
        assert result.instances[0].facts.residency is not None
        [latencies] = [each for each in result.histograms if each.of == "transaction"]
        assert latencies.count == figure(result, "transactions")
        starts = [step.started_s for step in result.steps]
        assert starts == sorted(starts)
        with pytest.raises(StopIteration):
            figure(result, "load_generator_user_s")
    assert ownership.running() == []


def test_a_statement_that_takes_longer_than_the_round_has_a_result(server_of: ServerOf) -> None:
    slow = naps("IF(VERSION() LIKE '8.%', 1.2, 0)")
    results = round_of(server_of, SERVERS, definition=slow, time_s=0.3)
    assert [result.outcome for result in results] == ["finished"] * 3, results
    assert [figure(result, "slices") for result in results] == [2, 2, 2]
    base_s, _, slow_s = (
        figure(result, "measure_trimmed_s") / figure(result, "transactions") for result in results
    )
    assert slow_s >= 1.2
    assert slow_s > 10 * base_s


def test_a_round_that_is_given_up_shows_who_was_waited_for_and_how_long(
    server_of: ServerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_of = time_limits.phase_limit_s

    def limit_s(phase: Phase, workload: ResolvedWorkload) -> float:
        return 1.5 if phase.kind == "drive" else limit_of(phase, workload)

    monkeypatch.setattr(phase_spec, "phase_limit_s", limit_s)
    stuck = naps("IF(VERSION() LIKE '8.%', 60, 0)")
    base, late = round_of(server_of, (SERVERS[0], SERVERS[2]), definition=stuck, time_s=0.3)
    assert (late.failed_step, base.failed_step) == ("measure", ROUND_FAILED)
    found = {each.name: each.value for each in late.measurements}
    assert 0 < found["unanswered_s"] <= 4.0
    # Where the slow server's turn came first, the base had none.
    assert found.get("base_transaction_s", 0.0) < found["unanswered_s"]


def test_collectors_observe_each_server_of_a_round(server_of: ServerOf) -> None:
    results = round_of(server_of, SERVERS[:2], collectors=CHOOSABLE, clients=2, time_s=2.0)
    assert [result.outcome for result in results] == ["finished"] * 2, results
    for result in results:
        observed = result.observations["server"]
        window_s, round_s = observed["window_s"], figure(result, "round_s")
        # The window has the slices of both; what a server used was its own.
        own_s = figure(result, "measure_duration_s")
        assert own_s < 0.75 * round_s
        assert window_s > 1.25 * own_s
        used = [each for each in observed["threads"]["threads"] if each["kind"] == "connection"]
        assert len(used) == 2
        assert 0 < sum(each["cpu_s"] for each in used) < 0.9 * window_s
        sampled = [each for each in observed["states"]["threads"] if each["kind"] == "connection"]
        assert {each["tid"] for each in sampled} == {each["tid"] for each in used}
        assert "disk" not in observed
        assert "of all servers of a round" in str(observed["missing"])


@pytest.mark.quiet  # a busy host may read the threads of clients after their end
def test_servers_load_in_turns_and_each_has_its_own_figures(server_of: ServerOf) -> None:
    results = loads_of(server_of, SERVERS, collectors=CHOOSABLE)
    assert [result.outcome for result in results] == ["finished"] * 3, results
    for result in results:
        names = [step.name for step in result.steps]
        assert names[-7:] == ["create", "load", "finish", "count", "verify", "stop", "sizes"]
        assert figure(result, "rows") == 30_000
        assert figure(result, "slices") == figure(results[0], "slices") >= 10
        own_s, round_s = figure(result, "load_duration_s"), figure(result, "round_s")
        assert 0 < own_s < 0.8 * round_s
        assert 0 < figure(result, "load_trimmed_s") < 2 * own_s
        observed = result.observations["server"]
        assert observed["window_s"] > round_s - 0.5  # the reading of counters comes on top
        used = [each for each in observed["threads"]["threads"] if each["kind"] == "connection"]
        assert 0 < sum(each["cpu_s"] for each in used) < 0.9 * observed["window_s"]
    assert ownership.running() == []


@pytest.mark.parametrize(
    ("measure", "servers", "chosen", "option", "step", "reason"),
    [
        (loads_of, SERVERS[:2], {}, ("local_infile", "0"), "load", "local_infile"),
        (
            loads_of, SERVERS[:1] * 2, {"rows": 80_000}, ("innodb_buffer_pool_size", "8M"),
            "measure", "innodb_buffer_pool_size",
        ),
        (round_of, SERVERS[:2], {}, ("max_prepared_stmt_count", "0"), "measure", "error 1461"),
    ],
    ids=["it refuses the file", "the load fills its buffer pool", "it refuses statements"],
)  # fmt: skip
def test_a_server_that_cannot_take_part_has_failed_alone(
    server_of: ServerOf,
    measure: Callable[..., tuple[AttemptResult, ...]],
    servers: tuple[str, ...],
    chosen: dict[str, int],
    option: tuple[str, str],
    step: str,
    reason: str,
) -> None:
    options = FittedOptions("test", (Option(*option, False, "test"),))
    left_out, failed = measure(server_of, servers, last_options=options, **chosen)
    assert (failed.outcome, failed.failed_step) == ("failed", step)
    assert reason in str(failed.reason)
    assert (left_out.outcome, left_out.failed_step) == ("failed", ROUND_FAILED)


def test_where_a_loading_server_dies_it_alone_has_failed(server_of: ServerOf) -> None:
    left_out, killed = loads_of(server_of, SERVERS[:2], rows=800_000, kill=SERVERS[1])
    assert (killed.outcome, killed.failed_step) == ("failed", "measure")
    assert "SIGKILL" in str(killed.reason)
    assert (left_out.outcome, left_out.failed_step) == ("failed", ROUND_FAILED)


def test_where_rows_are_wrong_the_round_has_failed(server_of: ServerOf) -> None:
    results = loads_of(server_of, SERVERS[:2], expected_rows=30_001)
    assert [result.outcome for result in results] == ["failed"] * 2
    assert "the table holds other data" in str(results[0].reason)


@pytest.mark.parametrize("clients", [1, 4])
def test_side_is_slowed_down_as_requested(server_of: ServerOf, clients: int) -> None:
    results = round_of(server_of, SERVERS[:1] * 2, last_slowdown=Stopped(0.5), clients=clients)
    assert [result.outcome for result in results] == ["finished"] * 2, results
    stopped_s = figure(results[1], "slowdown_stopped_s")
    share = stopped_s / figure(results[1], "slowdown_window_s")
    assert 0.49 < share < 0.75  # a busy host may be late for the end of a rest
    with pytest.raises(StopIteration):
        figure(results[0], "slowdown_stopped_s")


def test_threads_of_several_clients_are_pinned_alike(server_of: ServerOf) -> None:
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:2]
    settings = CpuIdleSettings(
        False, False, cpus[-1:], None, "pinned", 50.0, 15.0, server_cpus=cpus
    )
    workload = ResolvedWorkload(driving(), {**QUICK, "clients": 4})
    specs = specs_of(server_of, SERVERS[:2], workload, None, ())
    seen: list[Counter[tuple[int, ...]]] = []

    def listen(event: TrialEvent) -> None:
        if isinstance(event, IntervalEnded) and event.kind == "drive" and not seen:
            ours = (each for each in ownership.running() if each.server in SERVERS[:2])
            seen.extend(map(pinned, ours))

    trials = [
        RoundTrial(replace(each, cpu_idle=settings), each.servers[0].server.name, listen)
        for each in specs
    ]
    results = execute_round(trials, base=0, checked=lambda result: result)
    assert [result.outcome for result in results] == ["finished"] * 2, results
    assert seen == [{(cpu,): 4 // len(cpus) for cpu in cpus}] * 2


def pinned(record: ownership.OwnershipRecord) -> Counter[tuple[int, ...]]:
    """Return how many threads of a server may run on one CPU only, by CPU."""
    threads = [
        tuple(os.sched_getaffinity(int(task.name)))
        for process in record.live_processes()
        for task in Path(f"/proc/{process.pid}/task").iterdir()
    ]
    return Counter(each for each in threads if len(each) == 1)


def test_two_of_the_same_server_start_from_the_same_snapshot(server_of: ServerOf) -> None:
    results = round_of(server_of, SERVERS[:1] * 2, table_size=1_234, time_s=0.5)
    assert [result.outcome for result in results] == ["finished", "finished"], results
    snapshots = [result.instances[0].facts.snapshot for result in results]
    assert snapshots[0] is not None
    assert snapshots[0] == snapshots[1]


WRONG = FittedOptions("test", (Option("no_such_option", "1", False, "test"),))


def test_where_a_server_does_not_start_the_others_are_measured(server_of: ServerOf) -> None:
    *others, failed = round_of(server_of, SERVERS[:3], last_options=WRONG)
    assert (failed.outcome, failed.failed_step) == ("failed", "start")
    assert [result.outcome for result in others] == ["finished", "finished"], others
    assert ownership.running() == []


def test_where_a_server_does_not_start_a_single_other_is_left_out(server_of: ServerOf) -> None:
    left_out, failed = round_of(server_of, SERVERS[:2], last_options=WRONG)
    assert (failed.outcome, failed.failed_step) == ("failed", "start")
    assert (left_out.outcome, left_out.failed_step) == ("failed", ROUND_FAILED)
    assert f"{SERVERS[1]}, failed at step start" in str(left_out.reason)
    assert ownership.running() == []


@pytest.mark.parametrize("slot", [0, 1])
def test_where_a_server_dies_none_counts_and_it_alone_has_failed(
    server_of: ServerOf, slot: int
) -> None:
    results = round_of(server_of, SERVERS[:2], kill=SERVERS[slot], time_s=20.0)
    killed, left_out = results[slot], results[1 - slot]
    assert (killed.outcome, killed.failed_step) == ("failed", "measure")
    assert "SIGKILL" in str(killed.reason)
    assert (left_out.outcome, left_out.failed_step) == ("failed", ROUND_FAILED)
    assert ownership.running() == []


def test_a_run_in_slices_is_stopped_goes_on_and_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "sliced.toml"
    file.write_text(FILE, encoding="utf-8")
    place = Place(tmp_path)
    command = ("run", file, "--blocks", "3")
    with place.running(*command) as process:
        place.wait_for_step("measure", process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert ownership.running() == []
    stopped = place.latest()
    ran = place.millrace(*command)
    assert ran.returncode == 0, ran.stderr
    assert "in slices, 3 blocks" in ran.stdout
    stored = place.latest()
    assert stored.run.id == stopped.run.id
    assert stored.run.design.slices
    finished = [each for each in stored.last_attempts().values() if each.outcome == "finished"]
    assert len(finished) == len(stored.trials) == 6
    page = (tmp_path / "reports" / f"{stored.run.id}.html").read_text(encoding="utf-8")
    assert "took turns every few milliseconds" in page
    assert "throughput with stalls" in page
