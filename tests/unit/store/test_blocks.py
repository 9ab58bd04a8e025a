"""Test blocks that are begun one after the other, and unstarted ones that are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.model.run_spec import Design
from millrace.store.records import TrialRecord
from millrace.store.store import Store
from tests.support.stored_records import LATER, NOW, OWNER, Begun, begun, dead, failed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


def begin(store: Store, what: Begun) -> None:
    store.begin_run(what.run, what.treatments, what.trials)


def attempt(store: Store, trial: TrialRecord) -> None:
    claimed = store.claim(trial.id, OWNER, NOW, is_alive=dead)
    assert claimed is not None
    store.finish(claimed, failed(), LATER)


def with_others(what: Begun) -> Begun:
    """Add an A/A trial in block 0 and two profiled blocks."""
    aa_trial = replace(what.trials[0], id="study-1/aa", position=90, purpose="aa")
    profiled = [
        replace(what.trials[0], id=f"study-1/p{n}", block=n, position=91 + n, purpose="profile")
        for n in range(2)
    ]
    return replace(what, trials=(*what.trials, aa_trial, *profiled))


def test_blocks_that_nobody_began_are_taken_back(store: Store) -> None:
    what = with_others(begun(blocks=4))
    begin(store, what)
    for trial in (what.trials[0], what.trials[3], what.trials[-2]):
        attempt(store, trial)
    store.delete_unstarted_blocks("study-1")
    stored = store.load_run("study-1")
    assert stored.run.blocks == 2
    assert {trial.id for trial in stored.trials} == {
        "study-1/0-t-a", "study-1/0-t-b", "study-1/1-t-a", "study-1/1-t-b", "study-1/aa",
        "study-1/p0",
    }  # fmt: skip
    assert len(stored.attempts) == 3


def test_dropped_blocks_can_start_again(store: Store) -> None:
    what = begun(blocks=3)
    begin(store, what)
    attempt(store, what.trials[0])
    store.delete_unstarted_blocks("study-1")
    begin(store, what)
    stored = store.load_run("study-1")
    assert (stored.run.blocks, stored.trials) == (3, what.trials)


def test_a_run_without_any_attempt_has_no_block(store: Store) -> None:
    begin(store, begun(blocks=3))
    begin(store, begun("study-2", blocks=3))
    store.delete_unstarted_blocks("study-1")
    assert (store.load_run("study-1").run.blocks, store.load_run("study-1").trials) == (0, ())
    assert len(store.load_run("study-2").trials) == 6


def test_controls_are_kept_and_exported(store: Store, tmp_path: Path) -> None:
    begin(store, with_others(begun()))
    store.export_runs(["study-1"], tmp_path / "runs.zip")
    with Store.open(tmp_path / "other.sqlite") as other:
        other.import_file(tmp_path / "runs.zip")
        purposes = {trial.id: trial.purpose for trial in other.load_run("study-1").trials}
    assert purposes["study-1/aa"] == "aa"


def test_design_is_the_latest_requested() -> None:
    run = begun(blocks=3).run
    assert run.design == Design(kind="fixed", blocks=3)
    first = {"kind": "sequential", "blocks": 20, "max_time_s": 60.0}
    said = replace(run, spec=run.spec.replace(design=first))
    assert said.design == Design(kind="sequential", blocks=20, max_time_s=60.0)
    again = {
        "blocks": 3,
        "utc": NOW,
        "command": "millrace run x.toml --blocks 30",
        "design": {"kind": "fixed", "blocks": 30, "max_time_s": None},
    }
    extended = replace(said, spec=said.spec.replace(extensions=[again]))
    assert extended.design == Design(kind="fixed", blocks=30)
