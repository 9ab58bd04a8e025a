"""Loads that are too short for a profile, on a real server."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from millrace import workloads
from millrace.load.spec import Connection
from millrace.observe import perf, profile
from millrace.observe.model import Unavailable
from millrace.runner import measuring
from millrace.runner.work import Work
from millrace.servers.instances import Instance
from millrace.servers.model import FittedOptions
from tests.conftest import InstanceOf

pytestmark = pytest.mark.integration

ROWS = 20_000
DATABASE = "loaded"
LIMIT_S = 400.0


@pytest.fixture(autouse=True)
def some_perf() -> None:
    try:
        if not perf.find().is_told:
            pytest.skip("this perf cannot be told when to begin and to end")
    except Unavailable as why:
        pytest.skip(f"{why}; {why.remedy}")


@dataclass(frozen=True)
class Loaded:
    """What a load yielded: its profile, how many figures tell its time, its steps, and the rows
    that are there afterwards."""

    profile: dict[str, Any]
    times: int
    steps: list[str]
    rows: int


@contextlib.contextmanager
def database(instance: Instance) -> Iterator[None]:
    instance.query(f"CREATE DATABASE {DATABASE}")
    yield
    instance.query(f"DROP DATABASE {DATABASE}")


def loaded(instance: Instance) -> Loaded:
    given = measuring.TrialInput(
        name="test/1",
        server=instance.server,
        options=FittedOptions("default", ()),
        work=Work(workloads.load("insert-methods"), {"rows": ROWS}),
        expected=None,
        data_file=None,
        observers=("threads", "profile"),
    )
    found = measuring.Found()
    with database(instance):
        steps = measuring.measure(
            given,
            Connection(instance.user, instance.password, DATABASE, socket=instance.socket),
            found,
            instance=instance,
            database=DATABASE,
            listener=measuring.Listener(lambda _event: None, instance.check_alive),
            driving=None,
            limit_s=LIMIT_S,
        )
        ((rows,),) = instance.query(f"SELECT count(*) FROM {DATABASE}.sales")
    assert found.observations["observers"] == ["threads", "profile"]
    return Loaded(
        found.observations["profile"],
        sum(each.name == "load_duration_s" for each in found.measurements),
        [step.name for step in steps],
        int(rows or 0),
    )


def test_a_short_load_is_repeated_for_its_profile_alone(
    instance_of: InstanceOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance_of("mysql-8.0.33") as instance:
        repeated = loaded(instance)
        monkeypatch.setattr(profile, "ENOUGH_S", 0.0)
        once = loaded(instance)
    assert once.profile["runs"] == 1
    assert 1 < repeated.profile["runs"] <= profile.MOST_RUNS
    assert repeated.profile["samples"] > once.profile["samples"]
    for each in (repeated, once):
        assert each.rows == ROWS
        assert each.times == 1
        assert each.steps == ["load", "verify"]


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def test_each_session_that_loads_is_a_connection(instance_of: InstanceOf, name: str) -> None:
    """Whether its thread ends with it, or is kept for the next."""
    with instance_of(name) as instance:
        found = loaded(instance).profile
    roots: Counter[str] = Counter()
    for stack, count in found["stacks"].items():
        roots[stack.partition(";")[0]] += count
    assert roots["connection"] > 0.5 * found["samples"], roots
    assert not {"mysqld", "mariadbd"} & roots.keys(), roots
