"""Test the store's queries for campaigns: calibrations of a host, and news of a long run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.campaign.blocks import joined, n_blocks, open_block_number
from millrace.model.host_facts import HostFacts
from millrace.store.records import HostRecord
from millrace.store.store import Store
from tests.support.stored_records import LATER, NOW, OWNER, alive, begun, result


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


def test_the_calibrations_of_a_host_are_found_newest_first(store: Store) -> None:
    what_for = {
        "digest": "d", "name": "study", "factor": "server", "base": "a", "blocks": 10,
        "margin": 0.02,
    }  # fmt: skip
    spec = begun().run.spec.replace(calibrates=what_for)
    for run_id, day, host, of in (
        ("old", 1, "host", spec),
        ("new", 3, "host", spec),
        ("elsewhere", 4, "other", spec),
        ("ordinary", 5, "host", begun().run.spec),
    ):
        what = begun(
            run_id,
            created_utc=f"2026-05-0{day}T12:00:00Z",
            host=HostRecord(host, HostFacts()),
            spec=of,
        )
        store.begin_run(what.run, what.treatments, what.trials)
    measured = store.find_run("ordinary")
    assert [run.id for run in store.calibrations_of(measured)] == ["new", "old"]
    assert store.calibrations_of(replace(measured, host=HostRecord("nowhere", HostFacts()))) == []


@pytest.mark.parametrize("from_block", range(4))
def test_a_run_is_read_from_a_block_on_and_joined_with_what_was_read(
    store: Store, from_block: int
) -> None:
    what = begun(blocks=3)
    store.begin_run(what.run, what.treatments, what.trials)
    for trial in what.trials[:-1]:
        attempt = store.claim(trial.id, OWNER, NOW, is_alive=alive)
        assert attempt is not None
        store.finish(attempt, result(), LATER)
    whole = store.load_run(what.run.id)
    later = store.load_run(what.run.id, from_block=from_block)
    assert {trial.block for trial in later.trials} == set(range(from_block, 3))
    assert len(later.attempts) == max(2 * (3 - from_block) - 1, 0)
    assert joined(whole, later, from_block=from_block) == whole
    assert (n_blocks(whole), open_block_number(whole)) == (3, 2)


def test_nothing_is_open_before_the_first_block(store: Store) -> None:
    assert (n_blocks(None), open_block_number(None)) == (0, None)
