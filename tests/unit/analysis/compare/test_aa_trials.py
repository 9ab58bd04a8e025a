"""Test A/A trials: the ratio from stored trials, and that they affect nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from tests.unit.analysis.builders import noisy
from tests.unit.analysis.sequential_runs import BASE, run_of, with_aa_trials

OTHER = "mysql-5.7.22"
RUN = run_of({BASE: noisy(4, 12), OTHER: noisy(4.4, 12, seed=2)})


def test_a_run_without_controls_has_none() -> None:
    assert compare_run(RUN).aa_trials is None


def test_the_pairs_are_those_of_their_block() -> None:
    found = compare_run(with_aa_trials(RUN, {1: 1.02, 7: 1.04})).aa_trials
    assert found is not None
    (group,) = found.groups
    assert group.estimate == found.estimate
    assert found.estimate is not None
    assert found.estimate.ratio == pytest.approx((1.02 * 1.04) ** 0.5)
    assert (found.estimate.n_pairs, group.planned, group.finished) == (2, 2, 2)
    assert not found.excludes_1


def test_a_single_pair_has_no_interval_and_excludes_nothing() -> None:
    found = compare_run(with_aa_trials(RUN, {0: 1.5})).aa_trials
    assert found is not None
    assert found.estimate is not None
    assert found.estimate.ratio == pytest.approx(1.5)
    assert found.estimate.low is None
    assert not found.excludes_1


def test_an_interval_that_excludes_1_is_told() -> None:
    found = compare_run(with_aa_trials(RUN, {0: 1.05, 4: 1.051, 9: 1.049})).aa_trials
    assert found is not None
    assert found.excludes_1


def test_a_control_that_failed_leaves_no_pair_and_is_listed() -> None:
    analysis = compare_run(with_aa_trials(RUN, {0: 1.01, 5: 0.0}))
    assert analysis.aa_trials is not None
    (group,) = analysis.aa_trials.groups
    assert (group.planned, group.finished) == (2, 1)
    assert [(f.treatment, f.block) for f in analysis.failures] == [(f"{BASE} (A/A trial)", 5)]


def test_controls_enter_nothing_else() -> None:
    without, having = compare_run(RUN), compare_run(with_aa_trials(RUN, {0: 2.0, 3: 0.0, 7: 3.0}))
    assert having.groups == without.groups
    assert len(having.trials) == len(without.trials) + 3
    left = replace(having, aa_trials=None, trials=without.trials, failures=(), spent_s=0.0)
    assert left == replace(without, spent_s=0.0)
