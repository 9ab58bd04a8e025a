"""Test whole trials on fake servers, hooks of other modules, and the checks of a workload."""

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace import workloads
from millrace.app.experiments import validation_context
from millrace.campaign import scheduler
from millrace.campaign.inputs import PreparedTreatment, RunInput
from millrace.campaign.policies.experiment import Fixed
from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import new_run_record
from millrace.campaign.scheduler import Rules
from millrace.errors import DatabaseError, HostError, PermanentHostError, TrialFailed, UserError
from millrace.experiment.model import Plan
from millrace.experiment.plan import expand
from millrace.experiment.read import read
from millrace.loadgen.events import LoadResult
from millrace.model.events import ignore
from millrace.model.servers import FittedOptions
from millrace.servers.download import Refused, WrongChecksum
from millrace.servers.instances.instance import Instance
from millrace.servers.unpack import Unusable
from millrace.store.store import Store
from millrace.trial import measure
from millrace.trial.execute import checking_steps, execute_trial, is_transient
from millrace.trial.hooks import MeasurementContext, MeasurementHook
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from millrace.trial.steps import StepsOutcome, execute_steps
from tests.fake_family import family
from tests.fake_family.family import Script
from tests.support.fake_servers import fakes
from tests.support.installed import installed
from tests.support.measured import HOST, VERSIONS, experiment_file
from tests.support.measuring import live
from tests.support.small_workload import driving

_SHORT_WRITE = """\
InnoDB: Error: Write to file ./test/nodes.ibd failed at offset 148897792.
InnoDB: 1048576 bytes should have been written, only 745472 were written.
InnoDB: Operating system error number 0.
InnoDB: Check that your OS and file system support files of this size.
InnoDB: Check also that the disk is not full or a disk quota exceeded.
"""

WORKLOAD = ResolvedWorkload(
    driving(), {"time_s": 1.0, "warmup_s": 0.0, "fits": "any", "settle_s": 0}
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with fakes(tmp_path, monkeypatch):
        yield tmp_path


def spec(place: Path, *roles: str) -> TrialSpec:
    servers = (
        ServerSpec(
            family.install(f"fake-{role}", Script(), place / role),
            FittedOptions("default", ()),
            role=role,
        )
        for role in roles
    )
    return TrialSpec("test/1", tuple(servers), WORKLOAD, collectors=("waits",))


def test_a_trial_has_several_servers_by_role(place: Path) -> None:
    result = execute_trial(spec(place, "source", "replica"), lambda _event: None)
    assert result.outcome == "finished", result.reason
    roles = ["source", "replica"]
    assert [each.role for each in result.instances] == roles
    assert [each.server.name for each in result.instances] == ["fake-source", "fake-replica"]
    assert list(result.observations) == roles
    assert [role for kind, role, _ in result.artefacts if kind == "error_log"] == roles
    reads = {m.role: m.value for m in result.measurements if m.name == "buffer_pool_reads"}
    assert reads.keys() == set(roles)
    names = [each.name for each in result.steps]
    for role in roles:
        assert names.count(f"{role}: start") == 2, "it is started to load, and again restored"
    assert names.count("measure") == 1
    assert names[-4:] == ["replica: stop", "replica: sizes", "source: stop", "source: sizes"]


def test_a_database_is_dropped_after_its_files_were_measured(place: Path) -> None:
    workload = ResolvedWorkload(driving(), {**WORKLOAD.chosen, "drop_after": "on"})
    result = execute_trial(replace(spec(place, "server"), workload=workload), lambda _event: None)
    assert result.outcome == "finished", result.reason
    names = [each.name for each in result.steps]
    assert names[-4:] == ["write_back", "sizes", "drop", "stop"]
    measured = {each.name: each.value for each in result.measurements}
    assert measured["drop_s"] > 0
    assert measured["data_dir_apparent_bytes"] > 0


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_the_end_of_a_server_explains_the_session_that_it_ended(
    is_wrapped: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(instance: Instance, *, limit_s: float) -> None:
        assert instance.pid is not None
        os.kill(instance.pid, signal.SIGKILL)
        lost = DatabaseError("lost connection to the server", kind="lost")
        if is_wrapped:
            raise TrialFailed("its tables cannot be read") from lost
        raise lost

    monkeypatch.setattr("millrace.trial.managed_server.quiesce", crash)
    workload = ResolvedWorkload(driving(), {**WORKLOAD.chosen, "drop_after": "on"})
    result = execute_trial(replace(spec(place, "server"), workload=workload), lambda _event: None)
    assert (result.outcome, result.failed_step) == ("failed", "write_back")
    assert "ended by signal 9 (SIGKILL)" in str(result.reason)


def test_a_session_that_a_living_server_ended_stays_the_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_instance: Instance, *, limit_s: float) -> None:
        raise DatabaseError("lost connection to the server", kind="lost")

    monkeypatch.setattr("millrace.trial.managed_server.quiesce", lose)
    workload = ResolvedWorkload(driving(), {**WORKLOAD.chosen, "drop_after": "on"})
    result = execute_trial(replace(spec(place, "server"), workload=workload), lambda _event: None)
    assert result.reason == "lost connection to the server"


class _Refusing(MeasurementHook):
    """A hook that notes its calls and refuses the measurement in the end."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def before(self) -> None:
        self._calls.append("before")

    def ended(self) -> None:
        self._calls.append("ended")

    def contribute(self, result: LoadResult) -> None:
        self._calls.append("contribute")

    def verify(self, result: LoadResult) -> None:
        raise TrialFailed("it does not count")


def test_a_hook_acts_around_the_measurement_and_may_refuse_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def hooks(_measurement: MeasurementContext, opened: ExitStack) -> Iterator[MeasurementHook]:
        opened.callback(calls.append, "closed")
        yield _Refusing(calls)

    monkeypatch.setattr(measure, "HOOKS", (*measure.HOOKS, hooks))
    result = execute_trial(spec(place, "server"), lambda _event: None)
    assert (result.outcome, result.failed_step) == ("failed", "measure")
    assert result.reason == "it does not count"
    assert calls == ["before", "ended", "contribute", "closed"]
    assert any(each.name == "transactions" for each in result.measurements)


@pytest.mark.parametrize(
    ("cause", "log_tail"),
    [
        (HostError("the download was cut off"), None),
        (OSError(errno.ENOSPC, "No space left on device"), None),
        (TrialFailed("The table 'nodes' is full", log_tail="Error number 28 means ..."), None),
        (TrialFailed("The table 'nodes' is full", log_tail=_SHORT_WRITE), None),
        (TrialFailed("mysqld: Disk is full writing './a/b.MYD' (Errcode: 28)"), None),
        (TrialFailed("not ready after 60 s"), "write (OS errno 28 - No space left on device)"),
    ],
)
def test_missing_host_resources_are_transient(cause: Exception, log_tail: str | None) -> None:
    assert is_transient(cause, log_tail)


@pytest.mark.parametrize(
    "cause",
    [
        PermanentHostError("cannot be run on this host"),
        Refused("404"),
        WrongChecksum("wrong checksum"),
        Unusable("damaged"),
        UserError("unknown option"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        TrialFailed("mysqld ended with exit status 1", log_tail="unknown variable 'a=28'"),
        TrialFailed("The table 'x' is full (error 1114, SQLSTATE HY000)", log_tail="ready"),
    ],
)
def test_what_is_the_servers_own_does_not(cause: Exception) -> None:
    assert not is_transient(cause, "ready for connections")


def test_a_full_disk_that_a_trial_brought_about_is_no_fault_of_the_host() -> None:
    failure = TrialFailed("The table 'filled' is full", log_tail="Error number 28 means ...")
    assert not is_transient(failure, fills_disk=True)
    assert is_transient(OSError(errno.ENOSPC, "No space left on device"), fills_disk=True)
    assert is_transient(HostError("no memory"), fills_disk=True)


def plan_of(directory: Path) -> Plan:
    file = experiment_file(directory, engines=["InnoDB"])
    return expand(read(file, scale=None, context=validation_context()), seed=1)


def inputs(plan: Plan, directory: Path) -> RunInput:
    """Return inputs of a server that never starts, because its directory cannot be made."""
    server = installed(directory, "mysql-5.6.24")
    work = ResolvedWorkload(workloads.load("load-data"), {"rows": 10, "data_seed": 1})
    spec = ServerSpec(server, FittedOptions("default", ()))
    prepared = PreparedTreatment((spec,), work)
    treatments = {each.id: prepared for each in plan.treatments}
    return RunInput(treatments, None, None)


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    monkeypatch.setenv("MILLRACE_WORK", str(file / "work"))


@pytest.mark.usefixtures("full")
def test_a_run_that_stops_at_it_has_no_result_of_the_trial(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    run = new_run_record(plan, HOST, VERSIONS, "millrace test")
    with Store.open(tmp_path / "results.sqlite") as store:

        def execute(*, is_new: bool, stops: bool) -> None:
            scheduler.execute(
                store,
                run,
                Fixed(RunSelection(run, plan, is_new)),
                lambda plan, _stored: inputs(plan, tmp_path),
                ignore,
                is_new=is_new,
                rules=Rules(stop_at_host_errors=stops),
            )

        with pytest.raises(HostError, match=r"could not be measured: failed at prepare") as why:
            execute(is_new=True, stops=True)
        (attempt,) = store.load_run(run.id).attempts
        assert (attempt.outcome, attempt.reason) == ("interrupted", str(why.value))
        assert "MILLRACE_WORK" in why.value.message
        # The same trial comes first again; without stopping, it fails, as do all others.
        execute(is_new=False, stops=False)
        stored = store.load_run(run.id)
        assert {attempt.outcome for attempt in stored.last_attempts().values()} == {"failed"}
        assert len(stored.last_attempts()) == len(stored.trials)


CHECKS = [
    {
        "name": "sums",
        "title": "sums are equal",
        "sql": "SELECT 1 FROM sbtest1 WHERE k > {tables}\n",
    },
    {"name": "counts", "title": "counts are equal", "sql": "SELECT 2 FROM sbtest1 WHERE k < 0"},
]


class Administration:
    """It answers each query with rows, and remembers it."""

    def __init__(self, *rows: tuple[str, ...]) -> None:
        self.rows, self.asked = list(rows), list[str]()

    def first_rows(
        self, _client: object, database: str, sql: str, most: int, _limit_s: float
    ) -> list[tuple[str, ...]]:
        self.asked.append(f"{database}: {sql}")
        return self.rows[:most]


def outcome(administration: Administration) -> StepsOutcome:
    client: Any = SimpleNamespace(family=SimpleNamespace(administration=administration))
    workload = ResolvedWorkload(driving(checks=CHECKS), {"tables": 3})
    return execute_steps(checking_steps(workload, live(client)), lambda _step: None)


def test_conditions_that_hold_are_steps_of_their_names() -> None:
    administration = Administration()
    ended = outcome(administration)
    assert [step.name for step in ended.steps] == ["check_sums", "check_counts"]
    assert ended.cause is None
    assert administration.asked[0] == "test: SELECT 1 FROM sbtest1 WHERE k > 3"


def test_a_violated_condition_fails_the_trial_by_its_name() -> None:
    ended = outcome(Administration(("1", "300.00"), ("2", "\x1b[1m"), ("3", "x" * 500), ("4", "")))
    assert ended.failed == "check_sums"
    assert isinstance(ended.cause, TrialFailed)
    reason = str(ended.cause)
    assert "condition sums is violated after the run (sums are equal)" in reason
    assert "(1, 300.00)" in reason
    assert reason.endswith("and more")
    assert "\x1b" not in reason
    assert len(reason) < 400
