"""Test refusals before anything is started."""

from __future__ import annotations

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
from millrace.campaign.preparation import (
    Preparation,
    refuse_attached,
    refuse_impossible,
    refuse_missing_cpus,
)
from millrace.errors import HostError, UserError, ValidationError
from millrace.experiment.model import Plan
from millrace.experiment.plan import expand, without_slices
from millrace.experiment.read import read
from millrace.experiment.validation import ValidationContext
from millrace.model.events import ignore
from millrace.servers import added, configurations, install
from millrace.store.store import Store
from tests.unit.campaign.laboratory import attach_a_server, inputs_of, plan_of
from tests.unit.experiment.files import DRIVEN

FILE = """
name = "attached"
workload = "load-data"
[factors]
server = ["mysql-5.6.24", "theirs"]
configuration = ["{configuration}"]
load_mode = ["{load_mode}"]
[compare]
base = "theirs"
[parameters]
rows = 10
"""


@pytest.fixture(autouse=True)
def _an_attached_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attach_a_server(tmp_path, monkeypatch)


def plan(directory: Path, **levels: str) -> Plan:
    path = directory / "attached.toml"
    path.write_text(FILE.format(**{"configuration": "default", "load_mode": "local", **levels}))
    return expand(read(path, scale=None, context=context()), seed=1)


def context() -> ValidationContext:
    return ValidationContext(
        servers=[row.name for row in install.list_servers()],
        configurations=configurations.load_builtin(),
        check_configurations=configurations.check,
        definition_of_option_file=configurations.definition_of_option_file,
        check_option=configurations.check_varied_option,
        attached=("theirs",),
    )


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"configuration": "wmf"}, "theirs is attached, so millrace cannot apply"),
        ({"load_mode": "server_file"}, "theirs is attached: it cannot read a file of this host"),
    ],
)
def test_what_an_attached_server_cannot_have_is_refused_without_asking_it(
    tmp_path: Path, levels: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError) as raised:
        refuse_attached(plan(tmp_path, **levels))
    assert said in raised.value.message
    assert "mysql-5.6.24" not in raised.value.message


def test_a_server_whose_record_is_damaged_is_refused_by_its_name(tmp_path: Path) -> None:
    damaged = plan(tmp_path)
    (record,) = paths.state_dir().rglob("theirs/attached.json")
    record.write_text('{"name"')
    with pytest.raises(HostError, match="cannot be read: it is damaged") as raised:
        refuse_impossible(damaged)
    assert "servers remove theirs" in (raised.value.hint or "")
    with pytest.raises(HostError, match="cannot be read: it is damaged"):
        forecast_here(damaged, None)


def test_an_attached_server_as_it_is_can_be_measured(tmp_path: Path) -> None:
    refuse_attached(plan(tmp_path))


def test_options_of_an_attached_server_are_not_varied(tmp_path: Path) -> None:
    varied = FILE.replace("[compare]", "options.innodb_page_size = [4096]\n[compare]")
    path = tmp_path / "varied.toml"
    path.write_text(varied.format(configuration="default", load_mode="local"))
    with pytest.raises(UserError, match=r"theirs is attached: .* its options cannot be varied"):
        refuse_attached(expand(read(path, scale=None, context=context()), seed=1))


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
        prepare = Preparation(stack, store, ignore)
        first = prepare(short, None)
        added.forget("theirs")  # as a user may do meanwhile
        second = prepare(long, None)
    assert prepared == [short]
    assert second.treatments is first.treatments
    assert second.estimate_s == pytest.approx(2 * first.estimate_s)


def test_clients_cannot_be_on_cpus_that_are_not_here(tmp_path: Path) -> None:
    experiment = plan(tmp_path).experiment
    refuse_missing_cpus(experiment)
    here = min(os.sched_getaffinity(0))
    for named in ("", str(here)):
        refuse_missing_cpus(replace(experiment, parameters={"client_cpus": named}))
    with pytest.raises(ValidationError) as raised:
        refuse_missing_cpus(replace(experiment, parameters={"client_cpus": f"{here},8190-8191"}))
    said = str(raised.value)
    assert raised.value.exit_status == 2
    assert str(tmp_path / "attached.toml") in said
    assert "parameters.client_cpus: there is no CPU 8190, 8191 here" in said
    assert f"expected some of {here}" in said


def test_an_attached_server_cannot_be_started_for_each_round(tmp_path: Path) -> None:
    path = tmp_path / "slices.toml"
    text = DRIVEN.replace("mysql-5.7.22", "theirs")
    path.write_text(f'design = "slices"\n{text}', encoding="utf-8")
    made = read(path, scale=None, context=context())
    with pytest.raises(UserError, match="theirs is attached") as refused:
        refuse_attached(expand(made, seed=1))
    assert "--interleaved" in (refused.value.hint or "")
    refuse_attached(expand(without_slices(made), seed=1))


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
    text = FILE.format(configuration="default", load_mode="local")
    alone = plan_of(tmp_path, text.replace('"mysql-5.6.24", ', ""))
    (work := tmp_path / "closed").mkdir(mode=0o700)
    preparation.require_reach(alone, work)
