"""Test specifications of runs, read from a store of an earlier millrace."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from millrace.model.run_spec import Ablates, Aligned, Bisects, Calibrates, Design, FactorSpec
from millrace.store.store import Store

STORE = Path(__file__).parent / "stores" / "specifications.sql"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(STORE.read_text(encoding="utf-8"))
    return path


def test_an_earlier_run_is_read_by_attribute(path: Path) -> None:
    with Store.open(path) as store:
        run = store.load_run("first").run
    spec = run.spec
    assert (spec.compare.factor, spec.compare.base) == ("server", "a")
    assert spec.factors == (
        FactorSpec(name="server", levels=("a", "b"), aliases={"b": "a"}),
        FactorSpec(name="tls", levels=(False,), aliases={}),
    )
    assert spec.levels["tls"][0] is False
    assert (spec.published, spec.source) == ("s1", "experiments/mine.toml")
    assert spec.collectors == ("threads", "disk")
    assert spec.parameters["rate"] == 12.5
    assert spec.workload.metrics["p99"].percentile == 99
    assert spec.workload.measured.timed == ("load",)
    assert [each.extends for each in spec.layers("mine")] == ["default", None]
    assert spec.design is not None
    assert (spec.design.kind, spec.design.max_time_s) == ("sequential", 60.5)
    assert spec.design.concurrent
    assert run.design.blocks == 3
    assert run.design.kind == "fixed"


def test_what_an_earlier_run_was_for_is_read(path: Path) -> None:
    with Store.open(path) as store:
        specs = {each.id: store.find_run(each.id).spec for each in store.list_runs()}
        assert [run.id for run in store.ablations_of("first")] == ["tests"]
        assert [run.id for run in store.calibrations_of(store.find_run("first"))] == ["calibrates"]
    assert specs["tests"].tested == Ablates(
        run="first",
        base="t-a",
        candidate="t-b",
        aligned=(Aligned(name="binary log", treatment="t-b"),),
        left_out=("compiler: of the build",),
    )
    assert specs["calibrates"].calibrates == Calibrates(
        digest="d", name="study", factor="server", base="a", blocks=10, margin=0.02
    )
    assert specs["bisects"].bisects == Bisects(
        members=("a", "b"), workload="updates", confidence=0.95, margin=0.02
    )
    assert specs["confirms"].confirms == "c0ffee"
    assert specs["oldest"].parameters == {}
    assert specs["oldest"].tested is None


def test_a_run_that_did_not_record_its_design_has_its_blocks(path: Path) -> None:
    with Store.open(path) as store:
        assert store.find_run("oldest").design == Design(kind="fixed", blocks=2)


def test_a_specification_is_written_as_it_was_read(path: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        before = dict(connection.execute("SELECT id, spec FROM runs").fetchall())
    with Store.open(path) as store, Store.open(tmp_path / "other.sqlite") as other:
        for run_id in before:
            read = store.load_run(run_id)
            other.begin_run(read.run, read.treatments, read.trials)
    with contextlib.closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection:
        after = dict(connection.execute("SELECT id, spec FROM runs").fetchall())
    for run_id, spec in before.items():
        # No other keys changed their names.
        todays = spec.replace('"side_by_side"', '"concurrent"')
        todays = todays.replace('"observers"', '"collectors"')
        assert json.loads(after[run_id]) == json.loads(todays)


def test_facts_of_an_earlier_run_are_read_under_their_names_of_today(path: Path) -> None:
    facts = {
        "cpu_wakeup": {"reason": "asked", "polled": False, "idle_wakeup_us": 50.5},
        "side_by_side": {"side": 1, "cpus": [1], "measured_from_s": 1.5, "measured_to_s": 9},
        "template": "a1b2",
        "template_restored_by": "reflink",
        "unsettled": ["812 pages are dirty"],
        "runs_as": "nobody",
    }
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE instances SET facts = ?", (json.dumps(facts),))
    with Store.open(path) as store:
        (attempt,) = store.load_run("first").attempts
    read = attempt.facts
    assert read.cpu_idle is not None
    assert (read.cpu_idle.polled, read.cpu_idle.idle_wakeup_us) == (False, 50.5)
    assert read.concurrent is not None
    assert (read.concurrent.cpus, read.concurrent.measured_to_s) == ((1,), 9)
    assert (read.snapshot, read.unsettled) == ("a1b2", ("812 pages are dirty",))
    renamed = {
        "cpu_wakeup": "cpu_idle",
        "side_by_side": "concurrent",
        "template": "snapshot",
        "template_restored_by": "snapshot_restored_by",
    }
    written = json.loads(json.dumps(read.to_json()))
    assert written == {renamed.get(name, name): fact for name, fact in facts.items()}


def test_keys_that_were_renamed_are_read_under_their_names_of_today(path: Path) -> None:
    first_names = {
        "keep_awake": "off", "share_cpu": "on", "late_limit_s": 2.5, "fits": "cached",
    }  # fmt: skip
    names = ("disable_idle_states", "colocate_client", "max_lateness_s", "cache_mode")
    values = dict(zip(names, first_names.values(), strict=True))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT spec FROM runs WHERE id = 'first'").fetchone()
        spec = json.loads(text)
        spec["parameters"] |= first_names
        spec["workload"] |= {
            "draws": {"id": {"kind": "integer"}},
            "parameters": {name: {"default": 0} for name in first_names},
            "tests": {"one": {"title": "One", "values": first_names, "beside": [{"test": "two"}]}},
        }
        spec["workload"]["metrics"]["longest"] = {
            "title": "", "unit": "s", "direction": "lower", "numerator": ["two_beside_longest_s"],
        }  # fmt: skip
        connection.execute("UPDATE runs SET spec = ? WHERE id = 'first'", (json.dumps(spec),))
    with Store.open(path) as store:
        read = store.load_run("first").run.spec
    assert read.parameters.items() > values.items()
    workload = read.workload.to_json()
    assert "draws" not in workload
    assert workload["generators"] == {"id": {"kind": "integer"}}
    assert workload["parameters"].keys() == values.keys()
    test = {"title": "One", "values": values, "background_clients": [{"test": "two"}]}
    assert workload["tests"]["one"] == test
    assert read.workload.metrics["longest"].numerator == ("two_background_longest_s",)
