"""What aligned settings give back, from blocks of rates and of times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.analysis.alignment import ALL, Alignments, GivenBack, given_back
from millrace.analysis.metrics import Metric
from millrace.stats import MeanEstimate
from millrace.store.records import MeasurementRecord, StoredAttempt, StoredRun, TrialRecord
from tests.unit.store.stored_records import LATER, NOW, OWNER, begun

RATE = Metric("rate", "transactions per second", "1/s", "higher", ("n",), (), True)
TIME = replace(RATE, direction="lower")
ALIGNED = {"binary log": "one", "checksums": "two", ALL: "all"}

Blocks = list[dict[str, float]]
rates = st.floats(10, 1e5)
blocks_of_rates = st.lists(
    st.fixed_dictionaries(dict.fromkeys(("a", "b", *ALIGNED.values()), rates)),
    min_size=1,
    max_size=5,
)


def measured(blocks: Blocks) -> StoredRun:
    trials: list[TrialRecord] = []
    attempts: list[StoredAttempt] = []
    for block, values in enumerate(blocks):
        for treatment, value in values.items():
            trial = TrialRecord(f"{treatment}/{block}", treatment, block, len(trials))
            trials.append(trial)
            attempts.append(
                StoredAttempt(
                    id=len(trials),
                    trial_id=trial.id,
                    number=1,
                    owner=OWNER,
                    started_utc=NOW,
                    ended_utc=LATER,
                    outcome="finished",
                    failed_step=None,
                    reason=None,
                    log_tail=None,
                    steps=(),
                    instances=(),
                    measurements=(MeasurementRecord("n", value),),
                    artefacts=(),
                )
            )
    return StoredRun(begun().run, (), tuple(trials), tuple(attempts))


def shares(blocks: Blocks, metric: Metric = RATE) -> Alignments:
    found = given_back(measured(blocks), metric, base="a", candidate="b", aligned=ALIGNED)
    assert found is not None
    return found


def test_a_loss_and_what_is_given_back_of_it() -> None:
    found = shares([{"a": 100, "b": 86, "one": 95, "two": 86, "all": 95}] * 3)
    assert found.loss.mean == pytest.approx(0.14)
    assert [each.name for each in found.given_back] == list(ALIGNED)
    means = [each.share.mean for each in found.given_back]
    assert means == pytest.approx([0.09, 0, 0.09])
    assert found.remaining.mean == pytest.approx(0.05)


def test_where_less_is_better_a_longer_time_is_the_loss() -> None:
    found = shares([{"a": 10, "b": 12, "one": 11, "two": 12, "all": 11}] * 2, TIME)
    assert found.loss.mean == pytest.approx(0.2)
    assert found.given_back[0].share.mean == pytest.approx(0.1)
    assert found.remaining.mean == pytest.approx(0.1)


@given(blocks_of_rates, st.floats(0.01, 100))
def test_shares_add_up_and_a_hosts_speed_does_not_matter(blocks: Blocks, speed: float) -> None:
    found = shares(blocks)
    together = found.given_back[-1].share.mean
    assert together + found.remaining.mean == pytest.approx(found.loss.mean, abs=1e-6)
    faster = [{name: rate * speed for name, rate in block.items()} for block in blocks]
    assert shares(faster).loss.mean == pytest.approx(found.loss.mean, rel=1e-6, abs=1e-9)


def test_only_blocks_with_all_trials_count() -> None:
    whole = {"a": 100.0, "b": 80.0, "one": 90.0, "two": 80.0, "all": 90.0}
    lacking = {name: rate for name, rate in whole.items() if name != "two"}
    assert shares([whole, lacking, whole]).loss.n == 2
    run = measured([lacking])
    assert given_back(run, RATE, base="a", candidate="b", aligned=ALIGNED) is None


def test_the_interval_of_a_loss_holds_its_rate() -> None:
    noise = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        drawn = noise.normal(1, 0.03, (5, 5)) * np.array([100, 86, 95, 86, 95])
        names = ("a", "b", *ALIGNED.values())
        blocks = [dict(zip(names, map(float, block), strict=True)) for block in drawn]
        share = shares(blocks).given_back[0].share
        assert share.low is not None
        assert share.high is not None
        held += share.low <= 0.09 <= share.high
    assert 365 <= held <= 394  # 380 expected of 400, within 3 standard deviations


def test_a_setting_is_shown_where_its_share_is_certain_and_of_the_losss_sign() -> None:
    def share(mean: float, half: float | None = 0.02) -> MeanEstimate:
        if half is None:
            return MeanEstimate(mean, None, None, 1, 0.95, None)
        return MeanEstimate(mean, mean - half, mean + half, 5, 0.95, 0.01)

    def shows(loss: float, given: MeanEstimate) -> bool:
        parts = (GivenBack("binary log", given),)
        return Alignments(RATE, share(loss), parts, share(0.0)).shows("binary log")

    assert shows(0.14, share(0.09))
    assert not shows(0.14, share(0.01))
    assert not shows(0.14, share(-0.09))
    assert not shows(0.14, share(0.09, None))
    assert shows(-0.14, share(-0.09))
    assert not Alignments(RATE, share(0.1), (), share(0.1)).shows("binary log")
