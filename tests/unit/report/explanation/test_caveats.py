"""Test the caveats of an explanation."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from millrace.analysis.explain.explanation import Explanation, SideExplanation
from millrace.analysis.explain.time_breakdown import TrialBreakdown
from millrace.report.explanation.caveats import caveat_sentences
from millrace.report.explanation.html import as_html
from millrace.stats.mean import mean_estimate
from tests.support.asked_statements import TRANSACTION, Seen
from tests.support.explained import explained_study, explained_text, with_statements
from tests.support.known import known
from tests.support.observed_trials import A, B
from tests.support.reports import one_line

USABLE = "what is sure is usable, since intervals include that noise"


@pytest.fixture(scope="module")
def study() -> Explanation:
    return replace(explained_study(), disturbances=())


def with_latency(study: Explanation, factor: float, *blocks: int) -> Explanation:
    """Return B with another latency in these blocks, and unchanged parts."""
    account, found = study.b.breakdown, study.differences
    assert account is not None
    assert found is not None
    left_us = []

    def changed(trial: TrialBreakdown) -> TrialBreakdown:
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
        b=replace(study.b, breakdown=replace(account, trials=trials)),
        differences=replace(found, unaccounted=left),
    )


def test_what_adds_up_is_not_doubted(study: Explanation) -> None:
    assert caveat_sentences(study) == []


def test_much_that_is_unaccounted_is_flagged_with_its_blocks(study: Explanation) -> None:
    (said,) = caveat_sentences(with_latency(study, 1.4, 0, 1, 2, 3, 4))
    assert said.startswith("2")
    assert f" of the latency of {B} is unaccounted: do not trust" in said
    assert "block 1: " in said
    assert "block 5: " in said


def test_what_is_counted_twice_is_flagged(study: Explanation) -> None:
    (said,) = caveat_sentences(with_latency(study, 0.7, 0, 1, 2, 3, 4))
    assert f"of the latency of {B} is counted twice" in said
    assert "block 1: −" in said


def without_samples(side: SideExplanation) -> SideExplanation:
    trials = tuple(replace(trial, samples=0) for trial in known(side.breakdown).trials)
    return replace(side, breakdown=replace(known(side.breakdown), trials=trials))


def test_breakdown_without_samples_need_not_close(study: Explanation) -> None:
    open_ = with_latency(study, 1.4, 0, 1, 2, 3, 4)
    assert caveat_sentences(replace(open_, b=without_samples(open_.b))) == []


@pytest.mark.parametrize(("share", "is_doubted"), [(-0.3, True), (-0.01, False), (0.3, False)])
def test_part_far_below_zero_is_a_defect_of_the_breakdown(
    study: Explanation, share: float, is_doubted: bool
) -> None:
    found = known(study.differences)
    us = share * found.latencies_us[0]
    wire = next(line for line in found.lines if line.key == "client_wire")
    changed = replace(wire, a_us=us, a=mean_estimate([0.99 * us, us, 1.01 * us]))
    left = replace(found.unaccounted, a_us=found.unaccounted.a_us + wire.a_us - us)
    lines = tuple(changed if line is wire else line for line in found.lines)
    differences = replace(found, lines=lines, unaccounted=left)
    doubts = [
        each
        for each in caveat_sentences(replace(study, differences=differences))
        if "which no time can be" in each
    ]
    assert bool(doubts) is is_doubted
    assert all(
        f"µs in {A}" in each and each.startswith("“client and wire” is −") for each in doubts
    )


def test_a_block_that_does_not_close_is_named(study: Explanation) -> None:
    (said,) = caveat_sentences(with_latency(study, 1.3, 2))
    assert said.startswith(f"In 1 block of {B} too much is unaccounted")
    assert "block 3: " in said


def test_more_clients_may_leave_more(study: Explanation) -> None:
    changed = with_latency(study, 1.14, 0, 1, 2, 3, 4)
    account = known(changed.b.breakdown)
    assert caveat_sentences(changed)
    many = replace(changed.b, breakdown=replace(account, clients=16))
    assert caveat_sentences(replace(changed, b=many)) == []


def of_statements(study: Explanation, *, unseen: Mapping[str, float], looks: int) -> Explanation:
    """Return statements of B with this much unobserved time, and this many looks at the rest."""
    source = np.random.default_rng(5)
    slow = {
        name: replace(asked, unseen=unseen.get(name, 0.0)) for name, asked in TRANSACTION.items()
    }
    a = [Seen(TRANSACTION, looks, source).trial(block) for block in range(3)]
    b = [Seen(slow, looks, source).trial(block) for block in range(3)]
    return with_statements(study, a, b)


def test_statements_whose_accounts_do_not_close_are_named(study: Explanation) -> None:
    assert caveat_sentences(of_statements(study, unseen={}, looks=200_000)) == []
    (said,) = caveat_sentences(of_statements(study, unseen={"COMMIT": 60.0}, looks=200_000))
    assert re.fullmatch(
        rf"The breakdown of COMMIT \(2\d % unaccounted\) in {re.escape(B)} does not close: do not "
        rf"trust its parts\.",
        said,
    )
    (both,) = caveat_sentences(
        of_statements(study, unseen={"COMMIT": -60.0, "select": 30.0}, looks=200_000)
    )
    assert re.search(r"COMMIT \(\d+ % counted twice\)", both)
    assert re.search(r"select \(\d+ % unaccounted\)", both)
    assert both.endswith(f" in {B} do not close: do not trust their parts.")


def test_small_statements_and_small_times_may_stay_open(study: Explanation) -> None:
    # BEGIN is 10 of some 900 µs, and stays below a twentieth.
    assert caveat_sentences(of_statements(study, unseen={"BEGIN": 15.0}, looks=200_000)) == []
    # 11 % is too much for one client, and is not for several.
    changed = of_statements(study, unseen={"COMMIT": 20.0}, looks=2_000_000)
    (said,) = caveat_sentences(changed)
    assert "COMMIT (12 % unaccounted)" in said
    several = replace(changed.b, breakdown=replace(known(changed.b.breakdown), clients=4))
    assert caveat_sentences(replace(changed, b=several)) == []


def test_what_chance_may_leave_of_a_statement_is_not_doubted(study: Explanation) -> None:
    """Few looks know a share to a fifth, many to a hundredth."""
    assert caveat_sentences(of_statements(study, unseen={"update": 15.0}, looks=200)) == []
    assert caveat_sentences(of_statements(study, unseen={"update": 15.0}, looks=1_000_000)) != []


def test_accounts_of_statements_that_close_are_seldom_doubted(study: Explanation) -> None:
    """Use 40 sets of complete trials with few samples.

    Three statements matter, each on two sides."""
    found = 0
    for seed in range(40):
        source = np.random.default_rng(seed)
        sides = [[Seen(TRANSACTION, 300, source).trial(b) for b in range(3)] for _ in range(2)]
        sentences = caveat_sentences(with_statements(study, *sides))
        found += sum(text.count("%") for text in sentences)
    assert found <= 12  # a twentieth of 240


def test_disturbed_blocks_are_counted_by_side() -> None:
    disturbed = explained_study()
    (said,) = caveat_sentences(disturbed)
    assert said == f"1 of 5 blocks of {B} was disturbed by what else the host did; {USABLE}."
    clause = "other processes used 24.1 % of the CPU time, python the most"
    (first,) = [each for each in disturbed.disturbances if not each.profiled]
    both = (
        replace(first, clause=clause),
        replace(first, clause=clause, block=1),
        replace(first, clause=clause, side="A"),
        replace(first, clause=clause, block=3, profiled=True),
    )
    (said,) = caveat_sentences(replace(disturbed, disturbances=both))
    assert said == (
        f"1 of 5 blocks of {A} and 2 of 5 blocks of {B} were disturbed by other processes; "
        f"{USABLE}."
    )


def test_doubts_are_on_the_page_and_in_the_terminal(study: Explanation) -> None:
    changed = with_latency(study, 1.4, 0, 1, 2, 3, 4)
    assert "do not trust the parts" in one_line(explained_text([changed]))
    assert 'class="caveat"' in as_html([changed], changed.run)


def test_background_clients_are_in_some_figures_only(study: Explanation) -> None:
    workload = study.run.spec.workload.to_json()
    tests = {name: {"background_clients": [{"test": name}]} for name in ("alone", "crowd")}
    workload |= {"tests": {**tests, "alone": {}}, "default_test": "crowd"}
    run = replace(study.run, spec=study.run.spec.replace(workload=workload))
    crowded = replace(study, run=run, fixed_factors={})
    (said,) = caveat_sentences(crowded)
    assert said.startswith("Background clients worked meanwhile")
    assert caveat_sentences(replace(crowded, fixed_factors={"test": "alone"})) == []


def test_a_run_that_stopped_by_what_it_saw(study: Explanation) -> None:
    design = {"kind": "sequential", "blocks": 10, "max_time_s": None}
    run = replace(study.run, spec=study.run.spec.replace(design=design))
    (said,) = caveat_sentences(replace(study, run=run))
    assert said.startswith("The number of blocks was decided by what they showed")
