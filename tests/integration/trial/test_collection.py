"""Test observations of loads, including short ones, on real servers."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from millrace import workloads
from millrace.collect import profile, sched_waits
from millrace.errors import Unavailable
from millrace.host import perf
from millrace.loadgen.spec import Connection
from millrace.model.servers import FittedOptions
from millrace.servers.instances.instance import Instance
from millrace.trial import phase_spec
from millrace.trial.collection import window
from millrace.trial.hooks import LiveServer, MeasurementContext
from millrace.trial.measure import measure
from millrace.trial.outputs import TrialOutputs, instance_record
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.spec import ServerSpec, TrialSpec
from tests.conftest import InstanceOf
from tests.traced import needs_tracing

pytestmark = pytest.mark.integration

ROWS = 20_000
DATABASE = "loaded"
LIMIT_S = 400.0


@pytest.fixture
def some_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip without perf, and have loads repeated a few times at most: an idle host would 20."""
    monkeypatch.setattr(profile, "MOST_RUNS", 5)
    try:
        if not perf.find().has_control:
            pytest.skip("this perf does not take control commands")
    except Unavailable as why:
        pytest.skip(f"{why}; {why.hint}")


@dataclass(frozen=True)
class Loaded:
    """A load's observations, number of figures for its time, steps, and rows afterwards."""

    observed: dict[str, Any]
    times: int
    steps: list[str]
    rows: int

    @property
    def profile(self) -> dict[str, Any]:
        section: dict[str, Any] = self.observed["profile"]
        return section


@contextlib.contextmanager
def database(instance: Instance) -> Iterator[None]:
    instance.query(f"CREATE DATABASE {DATABASE}")
    yield
    instance.query(f"DROP DATABASE {DATABASE}")


def loaded(instance: Instance, *observers: str, **given_to_work: Any) -> Loaded:
    workload = ResolvedWorkload(workloads.load("insert-methods"), {"rows": ROWS, **given_to_work})
    spec = ServerSpec(instance.server, FittedOptions("default", ()))
    outputs = TrialOutputs({"server": instance_record(spec, instance.version(), {}, {})})
    connection = Connection(instance.user, instance.password, DATABASE, socket=instance.socket)
    with database(instance):
        measurement = MeasurementContext(
            TrialSpec("test/1", (spec,), workload, collectors=observers),
            (
                LiveServer(
                    "server", instance, DATABASE, connection, connection, instance.check_alive
                ),
            ),
            phase_spec.load_spec(
                workload.measuring_phases, workload, instance.family.load_dialect, connection
            ),
            window(workload),
            outputs,
        )
        steps = measure(measurement, lambda _event: None, LIMIT_S)
        ((rows,),) = instance.query(f"SELECT count(*) FROM {DATABASE}.sales")
    observations = outputs.observations["server"]
    assert observations["observers"] == list(observers)
    return Loaded(
        dict(observations),
        sum(each.name == "load_duration_s" for each in outputs.measurements),
        [step.name for step in steps],
        int(rows or 0),
    )


@pytest.mark.usefixtures("some_perf")
def test_a_short_load_is_repeated_for_its_profile_alone(
    instance_of: InstanceOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with instance_of("mysql-8.0.33") as instance:
        repeated = loaded(instance, "threads", "profile")
        monkeypatch.setattr(profile, "ENOUGH_S", 0.0)
        once = loaded(instance, "threads", "profile")
    assert once.profile["runs"] == 1
    assert 1 < repeated.profile["runs"] <= profile.MOST_RUNS
    assert repeated.profile["samples"] > once.profile["samples"]
    for each in (repeated, once):
        assert each.rows == ROWS
        assert each.times == 1
        assert each.steps == ["load", "verify"]


@pytest.mark.usefixtures("some_perf")
@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def test_each_session_that_loads_is_a_connection(instance_of: InstanceOf, name: str) -> None:
    """Test threads that end with their session, and threads kept for the next one."""
    with instance_of(name) as instance:
        found = loaded(instance, "threads", "profile").profile
    roots: Counter[str] = Counter()
    for stack, count in found["stacks"].items():
        roots[stack.partition(";")[0]] += count
    assert roots["connection"] > 0.5 * found["samples"], roots
    assert not {"mysqld", "mariadbd"} & roots.keys(), roots


@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def test_threads_that_end_with_their_session_are_read_before(
    instance_of: InstanceOf, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that a thread waited for a CPU is lost when the thread ends."""
    monkeypatch.setattr(phase_spec, "_LINGER_S", 3.0)  # other tests may delay the readings
    with instance_of(name, thread_cache_size="0") as instance:
        found = loaded(instance, "threads").observed["threads"]
    by_kind: Counter[str] = Counter()
    for thread in found["threads"]:
        by_kind[thread["kind"]] += thread["cpu_s"]
    assert by_kind["connection"] > by_kind["ended"], by_kind
    connection = next(each for each in found["threads"] if each["kind"] == "connection")
    assert connection["runnable_s"] is not None


@needs_tracing
@pytest.mark.parametrize("name", ["mysql-5.6.24", "mysql-8.0.33", "mariadb-10.11.19"])
def test_waits_of_later_sessions_are_reported(
    instance_of: InstanceOf, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session that loads tables connects after the collectors have begun."""
    monkeypatch.setattr(sched_waits, "_FIRST_GAP_S", 0.03)  # many windows in a short load
    with instance_of(name) as instance:
        found = loaded(instance, "threads", "switches", load_method="single_row").observed
    serving = {each["tid"] for each in found["threads"]["threads"] if each["kind"] == "connection"}
    switches = found["switches"]
    assert switches["windows"] > 0
    assert {each["tid"] for each in switches["threads"]} <= serving
    assert sum(wait["count"] for each in switches["threads"] for wait in each["waits"]) > 0
