"""Test which failures are transient, and that a run can stop at them without a lasting result."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from millrace import workloads
from millrace.app.experiments import validation_context
from millrace.campaign import scheduler
from millrace.campaign.inputs import PreparedTreatment, RunInput
from millrace.campaign.policies.fixed import Fixed
from millrace.campaign.resume import RunSelection
from millrace.campaign.run_records import new_run_record
from millrace.campaign.scheduler import Rules
from millrace.errors import HostError, PermanentHostError, TrialFailed, UserError
from millrace.experiment.model import Plan
from millrace.experiment.plan import expand
from millrace.experiment.read import read
from millrace.model.events import ignore
from millrace.model.servers import FittedOptions
from millrace.servers.download import Refused, WrongChecksum
from millrace.servers.unpack import Unusable
from millrace.store.store import Store
from millrace.trial.execute import is_transient
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec
from tests.support.installed import installed
from tests.unit.campaign.measured import HOST, VERSIONS, experiment_file

_SHORT_WRITE = """\
InnoDB: Error: Write to file ./test/nodes.ibd failed at offset 148897792.
InnoDB: 1048576 bytes should have been written, only 745472 were written.
InnoDB: Operating system error number 0.
InnoDB: Check that your OS and file system support files of this size.
InnoDB: Check also that the disk is not full or a disk quota exceeded.
"""


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
def test_what_the_host_lacks_for_now_may_pass(cause: Exception, log_tail: str | None) -> None:
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
    file = experiment_file(directory, engines='["InnoDB"]')
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
