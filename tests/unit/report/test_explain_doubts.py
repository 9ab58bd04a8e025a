"""What speaks against an explanation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.analysis.account import TrialAccount
from millrace.analysis.explanation import Explanation
from millrace.report.explain_doubts import doubts
from millrace.report.explain_html import as_html
from tests.unit.analysis.observations import A, B
from tests.unit.report.explained import explained_study, explained_text


@pytest.fixture(scope="module")
def study() -> Explanation:
    return replace(explained_study(), disturbances=())


def with_latency(study: Explanation, factor: float, *blocks: int) -> Explanation:
    """B's latency is another in these blocks, and its parts are as they were."""
    account, found = study.b.account, study.differences
    assert account is not None
    assert found is not None
    left_us = []

    def changed(trial: TrialAccount) -> TrialAccount:
        if trial.block not in blocks:
            return trial
        left_us.append((factor - 1) * trial.latency_us)
        return replace(trial, latency_us=factor * trial.latency_us)

    trials = tuple(changed(trial) for trial in account.trials)
    left = replace(
        found.unaccounted, b_us=found.unaccounted.b_us + sum(left_us) / len(account.trials)
    )
    return replace(
        study,
        b=replace(study.b, account=replace(account, trials=trials)),
        differences=replace(found, unaccounted=left),
    )


def test_what_adds_up_is_not_doubted(study: Explanation) -> None:
    assert doubts(study) == []


def test_much_that_is_unaccounted_is_flagged_with_its_blocks(study: Explanation) -> None:
    (said,) = doubts(with_latency(study, 1.4, 0, 1, 2, 3, 4))
    assert said.startswith("2")
    assert f" of the latency of {B} is unaccounted: do not trust" in said
    assert "block 1: " in said
    assert "block 5: " in said


def test_what_is_counted_twice_is_flagged(study: Explanation) -> None:
    (said,) = doubts(with_latency(study, 0.7, 0, 1, 2, 3, 4))
    assert f"of the latency of {B} is counted twice" in said
    assert "block 1: −" in said


def test_a_block_that_does_not_close_is_named(study: Explanation) -> None:
    (said,) = doubts(with_latency(study, 1.3, 2))
    assert said.startswith(f"In a block of {B} too much is unaccounted")
    assert "block 3: " in said


def test_more_clients_may_leave_more(study: Explanation) -> None:
    changed = with_latency(study, 1.14, 0, 1, 2, 3, 4)
    account = changed.b.account
    assert account is not None
    assert doubts(changed)
    assert (
        doubts(replace(changed, b=replace(changed.b, account=replace(account, clients=16)))) == []
    )


def test_disturbed_blocks_are_told_beside_the_answer() -> None:
    disturbed = explained_study()
    (said,) = doubts(disturbed)
    assert said == f"1 of 5 blocks of {B} was disturbed by what else the host did."
    clause = "other processes used 24.1 % of the CPU time, python the most"
    (first,) = [each for each in disturbed.disturbances if not each.profiled]
    both = (
        replace(first, clause=clause),
        replace(first, clause=clause, block=1),
        replace(first, clause=clause, side="A"),
        replace(first, clause=clause, block=3, profiled=True),
    )
    (said,) = doubts(replace(disturbed, disturbances=both))
    assert said == (
        f"1 of 5 blocks of {A} and 2 of 5 blocks of {B} were disturbed by other processes."
    )


def test_doubts_are_on_the_page_and_in_the_terminal(study: Explanation) -> None:
    changed = with_latency(study, 1.4, 0, 1, 2, 3, 4)
    assert "do not trust the parts" in " ".join(explained_text([changed]).split())
    assert 'class="doubt"' in as_html([changed], changed.run)
