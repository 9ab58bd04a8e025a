"""Test what a new run learns of earlier runs of its experiment, and which of them tell nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.campaign.earlier_noise import earlier_noise
from millrace.experiment.plan import expand
from millrace.model.run_spec import CampaignPart
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


def test_each_run_keeps_what_the_runs_before_it_told(lab: Laboratory) -> None:
    runs = []
    for lab.seed in range(4):
        runs.append(lab.run(blocks=4, fresh=True))
    ids = [each.run.id for each in runs]
    for number, stored in enumerate(runs):
        noise = stored.run.spec.earlier_noise
        assert {each.run for each in noise} == set(ids[:number])
        assert all(0.001 < each.log_sd < 0.03 and each.freedom == 3 for each in noise)
    analysis = compare_run(runs[-1])
    (comparison,) = analysis.comparisons()
    assert comparison.estimate is not None
    assert 1 < comparison.estimate.borrowed < 6
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
    assert (noise.run, noise.freedom) == (first.run.id, 4)


def test_a_failed_server_tells_nothing(lab: Laboratory) -> None:
    lab.fails = lambda server, _block, _attempt: server == SLOW
    lab.run(blocks=3)
    assert lab.run(blocks=3, fresh=True).run.spec.earlier_noise == ()


def test_only_the_same_environment_and_an_ordinary_run_count(lab: Laboratory) -> None:
    lab.run(blocks=3)
    text = FILE.format(
        servers=[BASE, SLOW], seed=5, profile_blocks=0, design="interleaved",
        workload="load-data", size="rows", test="",
    )  # fmt: skip
    plan = expand(read_text(lab.directory, text), seed=5)
    moved = replace(HOST, facts=HOST.facts.replace(kernel={"release": "6.2"}))
    of_purpose = replace(plan.experiment, campaign=CampaignPart(confirms="c1"))
    with Store.open(lab.directory / "results.sqlite") as store:
        assert earlier_noise(store, plan, HOST, {})
        assert not earlier_noise(store, plan, moved, {})
        assert not earlier_noise(store, plan, HOST, {"load_generator": "2"})
        assert not earlier_noise(store, replace(plan, experiment=of_purpose), HOST, {})
