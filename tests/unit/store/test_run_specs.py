"""Specifications of runs, read from a store that an earlier millrace wrote."""

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
    assert spec.observers == ("threads", "disk")
    assert spec.parameters["rate"] == 12.5
    assert spec.workload.metrics["p99"].percentile == 99
    assert spec.workload.measured.timed == ("load",)
    assert [each.extends for each in spec.layers("mine")] == ["default", None]
    assert spec.design is not None
    assert (spec.design.kind, spec.design.max_time_s) == ("sequential", 60.5)
    assert run.design.blocks == 3
    assert run.design.kind == "fixed"


def test_what_an_earlier_run_was_for_is_read(path: Path) -> None:
    with Store.open(path) as store:
        specs = {each.id: store.find_run(each.id).spec for each in store.list_runs()}
        assert [run.id for run in store.tests_of("first")] == ["tests"]
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
    assert {run_id: json.loads(spec) for run_id, spec in after.items()} == {
        run_id: json.loads(spec) for run_id, spec in before.items()
    }
