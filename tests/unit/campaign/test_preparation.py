"""Test refusals before anything is started."""

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace import paths
from millrace.campaign import preparation
from millrace.campaign.forecast import forecast_here
from millrace.campaign.inputs import RunInput
from millrace.errors import HostError, UserError, ValidationError
from millrace.experiment.model import Plan
from millrace.experiment.plan import expand, without_slices
from millrace.model.events import ignore
from millrace.servers import added
from millrace.store.store import Store
from tests.support.experiment_files import DRIVEN, experiment_text
from tests.support.laboratory import attach_a_server, inputs_of, plan_of

ATTACHED = experiment_text(
    servers=["mysql-5.6.24", "theirs"],
    factors={"configuration": ["default"], "load_mode": ["local"]},
    compare=("server", "theirs"),
    parameters={"rows": 10},
)


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


def plan(directory: Path, text: str = ATTACHED) -> Plan:
    return plan_of(directory, text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("default", "wmf", "theirs is attached, so millrace cannot apply"),
        ("local", "server_file", "theirs is attached: it cannot read files of this host"),
    ],
)
def test_what_an_attached_server_cannot_have_is_refused_without_asking_it(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(UserError) as raised:
        preparation.refuse_attached(plan(tmp_path, ATTACHED.replace(old, new)))
    assert said in raised.value.message
    assert "mysql-5.6.24" not in raised.value.message


def test_a_server_whose_record_is_damaged_is_refused_by_its_name(tmp_path: Path) -> None:
    damaged = plan(tmp_path)
    (record,) = paths.state_dir().rglob("theirs/attached.json")
    record.write_text('{"name"')
    with pytest.raises(HostError, match="cannot be read: it is damaged") as raised:
        preparation.refuse_impossible(damaged)
    assert "servers remove theirs" in (raised.value.hint or "")
    with pytest.raises(HostError, match="cannot be read: it is damaged"):
        forecast_here(damaged, None)


def test_an_attached_server_as_it_is_can_be_measured(tmp_path: Path) -> None:
    preparation.refuse_attached(plan(tmp_path))


def test_options_of_an_attached_server_are_not_varied(tmp_path: Path) -> None:
    varied = ATTACHED.replace("[compare]", "options.innodb_page_size = [4096]\n[compare]")
    with pytest.raises(UserError, match=r"theirs is attached: .* its options cannot be varied"):
        preparation.refuse_attached(plan(tmp_path, varied))


def test_inputs_are_prepared_once_and_each_plan_has_its_own_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Plan] = []

    def inputs(_stack: ExitStack, plan: Plan, *others: Any, **more: Any) -> RunInput:
        prepared.append(plan)
        return inputs_of(plan)

    monkeypatch.setattr(preparation, "run_input", inputs)
    short = plan(tmp_path)
    long = expand(replace(short.experiment, blocks=2 * short.experiment.blocks), seed=1)
    with ExitStack() as stack, Store.open(tmp_path / "results.sqlite") as store:
        prepare = preparation.Preparation(stack, store, ignore)
        first = prepare(short, None)
        added.forget("theirs")  # as a user may do meanwhile
        second = prepare(long, None)
    assert prepared == [short]
    assert second.treatments is first.treatments
    assert second.estimate_s == pytest.approx(2 * first.estimate_s)


def test_clients_cannot_be_on_cpus_that_are_not_here(tmp_path: Path) -> None:
    experiment = plan(tmp_path).experiment
    preparation.refuse_missing_cpus(experiment)
    here = min(os.sched_getaffinity(0))
    for named in ("", str(here)):
        preparation.refuse_missing_cpus(replace(experiment, parameters={"client_cpus": named}))
    with pytest.raises(ValidationError) as raised:
        preparation.refuse_missing_cpus(
            replace(experiment, parameters={"client_cpus": f"{here},8190-8191"})
        )
    said = str(raised.value)
    assert raised.value.exit_status == 2
    assert str(tmp_path / "experiment.toml") in said
    assert "parameters.client_cpus: CPU 8190, 8191 does not exist or millrace may not" in said
    assert f"expected some of {here}" in said


def test_an_attached_server_cannot_be_started_for_each_round(tmp_path: Path) -> None:
    text = DRIVEN.replace("mysql-5.7.22", "theirs")
    in_slices = plan(tmp_path, f'design = "slices"\n{text}')
    with pytest.raises(UserError, match="theirs is attached") as refused:
        preparation.refuse_attached(in_slices)
    assert "--interleaved" in (refused.value.hint or "")
    preparation.refuse_attached(expand(without_slices(in_slices.experiment), seed=1))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has somebody else to run a server as")
def test_a_work_directory_that_servers_cannot_reach_is_refused_before_any_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work := tmp_path / "closed" / "work").mkdir(parents=True)
    work.parent.chmod(0o700)
    monkeypatch.setenv("MILLRACE_WORK", str(work))
    closed = pytest.raises(HostError, match=f"mysql-5.6.24: permission denied .*: {work.parent}$")
    with ExitStack() as stack, closed as caught:
        preparation.run_input(stack, plan(tmp_path), None, ignore, data_file=None)
    assert "MILLRACE_WORK" in (caught.value.hint or "")
    assert list(paths.cache_dir().rglob("*")) == []


def test_an_attached_server_reaches_its_data_itself(tmp_path: Path) -> None:
    alone = plan(tmp_path, ATTACHED.replace('"mysql-5.6.24", ', ""))
    (work := tmp_path / "closed").mkdir(mode=0o700)
    preparation.require_reach(alone, work)
