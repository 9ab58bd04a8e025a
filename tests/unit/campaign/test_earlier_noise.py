"""Test what a new run learns of earlier runs of its experiment, and which of them tell nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.campaign import earlier_noise as module
from millrace.campaign.earlier_noise import earlier_noise
from millrace.experiment.plan import expand
from millrace.model.run_spec import CampaignPart, ConfigurationDefinition
from millrace.store.records import HostRecord
from millrace.store.store import Store
from tests.unit.campaign.laboratory import BASE, FILE, HOST, LIKE, SLOW, Laboratory
from tests.unit.experiment.files import read_text


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch)


def test_the_first_run_of_an_experiment_has_none(lab: Laboratory) -> None:
    found = lab.run(blocks=3)
    assert found.run.spec.earlier_noise == ()
    (comparison,) = compare_run(found).comparisons()
    assert comparison.estimate is not None
    assert comparison.estimate.borrowed == 0


def test_each_run_keeps_the_noise_of_earlier_runs(lab: Laboratory) -> None:
    runs = []
    for lab.seed in range(4):
        runs.append(lab.run(blocks=4, fresh=True))
    ids = [each.run.id for each in runs]
    for number, stored in enumerate(runs):
        noise = stored.run.spec.earlier_noise
        assert {each.run for each in noise} == set(ids[:number])
        assert all(
            0.001 < each.log_sd < 0.03 and each.degrees_of_freedom == pytest.approx(3)
            for each in noise
        )
    analysis = compare_run(runs[-1])
    (comparison,) = analysis.comparisons()
    assert comparison.estimate is not None
    assert 0.3 < comparison.estimate.borrowed < 1.5
    assert analysis.earlier_runs == 3


def test_a_run_that_goes_on_keeps_the_noise_it_began_with(lab: Laboratory) -> None:
    first = lab.run(blocks=3, stop_after=2)
    lab.seed = 2
    lab.run(blocks=3)
    lab.seed = 1
    again = lab.run(blocks=3)
    assert again.run.id == first.run.id
    assert again.run.spec.earlier_noise == ()


def test_runs_with_other_servers_are_of_the_experiment_too(lab: Laboratory) -> None:
    lab.ratios = {BASE: 1.0, SLOW: 2.0, LIKE: 1.0}
    first = lab.run(blocks=3)
    lab.ratios = {BASE: 1.0, LIKE: 1.0}
    (noise, *_) = lab.run(blocks=3).run.spec.earlier_noise
    assert (noise.run, round(noise.degrees_of_freedom)) == (first.run.id, 4)


def test_failed_server_contributes_no_noise(lab: Laboratory) -> None:
    lab.fails = lambda server, _block, _attempt: server == SLOW
    lab.run(blocks=3)
    assert lab.run(blocks=3, fresh=True).run.spec.earlier_noise == ()


def test_few_blocks_tell_nothing(lab: Laboratory) -> None:
    lab.run(blocks=2)
    assert lab.run(blocks=2, fresh=True).run.spec.earlier_noise == ()


def test_damaged_run_contributes_no_noise(lab: Laboratory) -> None:
    damaged, whole = (lab.run(blocks=3, fresh=True).run.id for _ in range(2))
    with sqlite3.connect(lab.directory / "results.sqlite") as database:
        database.execute("UPDATE measurements SET value = 'none' WHERE attempt_id = 1")
    noise = lab.run(blocks=3, fresh=True).run.spec.earlier_noise
    assert {each.run for each in noise} == {whole}
    assert damaged != whole


@pytest.fixture
def changed(lab: Laboratory) -> Iterator[Callable[..., int]]:
    """Return how many runs lend to a plan, after one run of it, where something has changed."""
    lab.run(blocks=3)
    with Store.open(lab.directory / "results.sqlite") as store:

        def lending(
            host: HostRecord = HOST,
            versions: Mapping[str, str] = MappingProxyType({}),
            *,
            factors: str = "",
            **of_experiment: Any,
        ) -> int:
            text = FILE.format(
                servers=[BASE, SLOW], seed=5, profile_blocks=0, design="interleaved",
                workload="load-data", size="rows", test=factors,
            )  # fmt: skip
            plan = expand(read_text(lab.directory, text), seed=5)
            asked = replace(plan, experiment=replace(plan.experiment, **of_experiment))
            return len({each.run for each in earlier_noise(store, asked, host, versions)})

        yield lending


def test_only_the_same_environment_and_design_lend(changed: Callable[..., int]) -> None:
    assert changed() == 1
    assert changed(replace(HOST, facts=HOST.facts.replace(kernel={"release": "6.2"}))) == 0
    assert changed(versions={"load_generator": "2"}) == 0
    assert changed(collectors=()) == 0
    assert changed(campaign=CampaignPart(confirms="c1")) == 0


def test_what_a_name_stands_for_must_be_the_same(changed: Callable[..., int]) -> None:
    other = ConfigurationDefinition.model_validate({"name": "default", "mysql": {"a": "1"}})
    assert changed(configurations={"default": other}) == 0
    assert changed(configurations={"another": other}) == 1


def test_a_run_of_weeks_ago_lends_nothing(
    changed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_DAYS", 0)
    assert changed() == 0


def test_groups_that_a_plan_does_not_have_are_left_out(changed: Callable[..., int]) -> None:
    assert changed(factors='engine = ["MyISAM"]') == 0
