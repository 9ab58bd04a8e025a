"""Test when a run may stop: states of comparisons, needed blocks, and error rates."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.analysis.compare.comparability import Incomparability
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import DIFFERENCES, Comparison, RunAnalysis, RunStatus
from millrace.analysis.compare.stopping import run_status
from millrace.levels import Level
from millrace.model.measurements import DROP_S, DROP_TIME
from millrace.model.run_spec import Design, MetricDefinition
from millrace.stats.ratio import Looks
from millrace.stats.sequential import FIRST_LOOK
from millrace.store.records import ROUND_FAILED, StoredRun
from tests.support.builders import Fails, noisy
from tests.support.query_runs import Levels, QueryRun
from tests.support.seconds import Series, events
from tests.support.sequential_runs import (
    BASE,
    SEQUENTIAL,
    designed,
    drawn,
    dropped,
    first_blocks,
    run_of,
    with_aa_trials,
)

SLOW, LIKE, BROKEN = "mysql-5.7.22", "mysql-8.0.12", "mysql-9.7.4"


def seen(stored: StoredRun, design: Design = SEQUENTIAL) -> RunStatus:
    return run_status(compare_run(stored), design)


def states(found: RunStatus) -> dict[str, str]:
    return {str(each.comparison.candidate): each.state for each in found.comparisons}


def needed(stored: StoredRun, found: RunStatus) -> set[str]:
    """Return the servers that need more blocks."""
    servers = {each.id: str(each.levels["server"]) for each in stored.treatments}
    return {servers[treatment_id] for treatment_id in found.needed}


def test_what_is_decided_drops_out_and_the_base_stays_for_the_rest() -> None:
    stored = run_of({BASE: noisy(4, 5), SLOW: noisy(8, 5, seed=2), LIKE: noisy(4.1, 5, seed=3)})
    found = seen(stored)
    assert states(found) == {SLOW: "decided", LIKE: "open"}
    assert needed(stored, found) == {BASE, LIKE}
    assert found.blocks == 5
    assert found.ending is None


def test_the_base_drops_out_with_the_last() -> None:
    stored = run_of({BASE: noisy(4, 5), SLOW: noisy(8, 5, seed=2)})
    found = seen(stored)
    assert (dict(found.needed), found.open, found.more_blocks) == ({}, (), None)
    assert found.ending == "closed"


def test_decided_comparison_has_the_number_of_its_last_block() -> None:
    like = noisy(4.1, 9, seed=3, spread=0.05)
    stored = run_of({BASE: noisy(4, 9), SLOW: noisy(8, 9, seed=2), LIKE: like})
    after = {
        str(s.comparison.candidate): s.after for s in seen(dropped(stored, SLOW, 4)).comparisons
    }
    assert after == {SLOW: 4, LIKE: None}


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_nothing_is_decided_by_fewer_than_three_blocks(blocks: int) -> None:
    stored = first_blocks(run_of({BASE: noisy(4, 5), SLOW: noisy(80, 5, seed=2)}), blocks)
    found = seen(stored)
    assert states(found) == {SLOW: "open"}
    assert set(found.needed.values()) == {5 - blocks}
    assert found.more_blocks is None


def test_a_treatment_that_fails_three_times_running_is_given_up() -> None:
    times = {BASE: noisy(4, 5), BROKEN: (4.1, 4.2, Fails(), Fails(), Fails())}
    assert states(seen(run_of(times))) == {BROKEN: "failing"}
    twice = {BASE: noisy(4, 5), BROKEN: (4.1, Fails(), 4.2, Fails(), Fails())}
    assert states(seen(run_of(twice))) == {BROKEN: "open"}


def test_those_that_were_left_out_with_one_that_failed_go_on() -> None:
    left_out = [Fails(step=ROUND_FAILED)] * 3
    stored = run_of({BASE: left_out, LIKE: left_out, BROKEN: [Fails()] * 3})
    found = seen(stored)
    assert states(found) == {LIKE: "open", BROKEN: "failing"}
    assert needed(stored, found) == {BASE, LIKE}


def test_a_base_that_fails_ends_its_group() -> None:
    stored = run_of({BASE: [Fails()] * 3, SLOW: noisy(4, 3)})
    found = seen(stored)
    assert (states(found), dict(found.needed)) == ({SLOW: "failing"}, {})


def refused(stored: StoredRun, for_good: Incomparability | None) -> RunAnalysis:
    """Return the analysis as if the comparisons had been refused."""
    analysis = compare_run(stored)
    groups = tuple(
        replace(
            group,
            comparisons=tuple(
                replace(
                    each,
                    verdict="inconclusive",
                    unequal="unequal work",
                    permanently_incomparable=for_good,
                )
                for each in group.comparisons
            ),
        )
        for group in analysis.groups
    )
    return replace(analysis, groups=groups)


@pytest.mark.parametrize(
    ("for_good", "state"), [("unequal", "unequal"), ("unsteady", "unsteady"), (None, "open")]
)
def test_what_is_refused_for_good_does_not_burn_the_limit(
    for_good: Incomparability | None, state: str
) -> None:
    stored = run_of({BASE: noisy(4, 5), SLOW: noisy(8, 5, seed=2)})
    found = run_status(refused(stored, for_good), SEQUENTIAL)
    assert states(found) == {SLOW: state}
    assert bool(found.needed) == (state == "open")
    assert all(number >= 1 for number in found.needed.values())


def unsteady_run(blocks: int) -> StoredRun:
    """Return two servers; the throughput of one falls in all of its trials."""

    def series(levels: Levels, block: int) -> Series:
        noise = 0.01 * np.random.default_rng(block).standard_normal(30)
        fall = 0.2 * np.arange(30) / 30 * (levels["server"] == SLOW)
        return events(list(14_000 * (1 - fall + noise)), warmup=[14_000.0] * 5)

    def drop_s(levels: Levels, block: int) -> Mapping[str, float]:
        return {DROP_S: (6.0 if levels["server"] == SLOW else 0.3) * (1 + 0.01 * block)}

    run = QueryRun((BASE, SLOW), ("point-query",), (8,), blocks, series=series, also=drop_s)
    return designed(run.build(), SEQUENTIAL)


def test_too_many_unsteady_trials_refuse_a_verdict_at_once_and_end_it_later() -> None:
    for blocks, state in ((5, "open"), (6, "open"), (7, "unsteady")):
        stored = unsteady_run(blocks)
        assert {c.verdict for c in compare_run(stored).comparisons()} == {"inconclusive"}
        assert states(seen(stored)) == {SLOW: state}


def test_single_statements_need_no_steady_clients() -> None:
    stored = unsteady_run(6)
    metric = MetricDefinition(title="DROP", unit="s", direction="lower", numerator=(DROP_S,))
    workload = stored.run.spec.workload
    workload = workload.model_copy(update={"metrics": {**workload.metrics, DROP_TIME: metric}})
    spec = stored.run.spec.model_copy(update={"workload": workload})
    analysis = compare_run(replace(stored, run=replace(stored.run, spec=spec)))
    (group,) = analysis.groups
    found = {each.metric.name: each for each in group.comparisons}
    assert len(found) > 1
    dropped = found.pop(DROP_TIME)
    assert (dropped.verdict, dropped.unsteady) == ("regression", "")
    assert all(each.verdict == "inconclusive" and each.unsteady for each in found.values())


def test_the_limit_of_blocks_ends_a_run() -> None:
    stored = run_of({BASE: noisy(4, 6, spread=0.1), LIKE: noisy(4, 6, spread=0.1, seed=2)})
    analysis, design = compare_run(stored), Design(kind="sequential", blocks=6)
    assert run_status(analysis, design).ending == "blocks"
    assert run_status(analysis, Design(kind="sequential", blocks=7)).ending is None
    assert run_status(analysis, Design(kind="fixed", blocks=6)).ending is None


def test_block_is_not_started_when_it_would_exceed_the_time_limit() -> None:
    stored = run_of({BASE: noisy(4, 6, spread=0.1), LIKE: noisy(4, 6, spread=0.1, seed=2)})
    analysis = compare_run(with_aa_trials(stored, {0: 1.01}))
    assert len(analysis.trials) == 13
    one_block_s = analysis.spent_s / 6.5
    for limit_s, ended in ((7.1 * one_block_s, "time"), (7.9 * one_block_s, None)):
        design = Design(kind="sequential", blocks=20, max_time_s=limit_s)
        assert run_status(analysis, design).ending == ended, limit_s


def test_which_looks_an_interval_holds_for() -> None:
    fixed = Design(kind="fixed", blocks=6)
    stored = run_of({BASE: noisy(4, 6), LIKE: noisy(4, 6, seed=2)}, fixed)
    assert compare_run(stored).holds_for == "once"
    assert compare_run(designed(stored, SEQUENTIAL)).holds_for == "any"
    assert compare_run(first_blocks(stored, 5)).holds_for == "any"  # fewer than the fixed number
    unfinished = run_of({BASE: noisy(4, 6), LIKE: (*noisy(4, 5), None)}, fixed)
    assert compare_run(unfinished).holds_for == "any"
    assert {c.estimate.looks for c in compare_run(unfinished).comparisons() if c.estimate} == {
        "any"
    }


RATIOS = st.dictionaries(
    st.sampled_from([SLOW, LIKE, BROKEN]), st.sampled_from([0.8, 0.97, 1.0, 1.03, 1.3]), min_size=1
)


@settings(max_examples=25)
@given(RATIOS, st.integers(0, 1000), st.integers(3, 10))
def test_the_next_block_is_balanced(ratios: Mapping[str, float], seed: int, blocks: int) -> None:
    stored = run_of(drawn({BASE: 1.0, **ratios}, blocks, seed=seed))
    found = seen(stored)
    open_ones = {name for name, state in states(found).items() if state == "open"}
    assert needed(stored, found) == (open_ones | {BASE} if open_ones else set())
    assert all(number >= 1 for number in found.needed.values())
    base = next(each.id for each in stored.treatments if each.levels["server"] == BASE)
    if open_ones:
        assert found.needed[base] == max(found.needed.values())


def after_looks(stored: StoredRun, most: int, margin: float) -> tuple[StoredRun, list[RunStatus]]:
    """Return a run of several servers from which the decided ones dropped out, and each look."""
    design, looks = Design(kind="sequential", blocks=most), []
    for blocks in range(FIRST_LOOK, most + 1):
        analysis = compare_run(first_blocks(stored, blocks), looks="any", margin=margin)
        looks.append(run_status(analysis, design))
        if looks[-1].ending is not None:
            return first_blocks(stored, blocks), looks
        for each in looks[-1].comparisons:
            if each.state == "decided" and each.after == blocks:
                stored = dropped(stored, str(each.comparison.candidate), blocks)
    return stored, looks


def test_what_was_decided_stays_so_whatever_others_show_later() -> None:
    # The others become a hundred times as noisy after the fifth block, and one much slower.
    quiet = drawn({BASE: 1.0, SLOW: 1.03, LIKE: 1.0, BROKEN: 1.0}, 5, seed=1, spread=0.002)
    loud = drawn({BASE: 1.0, SLOW: 1.03, LIKE: 1.0, BROKEN: 1.2}, 9, seed=2, spread=0.2)
    stored = run_of({name: [*quiet[name], *loud[name]] for name in quiet})
    then = {c.candidate: c for c in compare_run(first_blocks(stored, 5), looks="any").comparisons()}
    later = compare_run(dropped(stored, SLOW, 5), looks="any")
    now = {c.candidate: c for c in later.comparisons()}
    assert then[SLOW].verdict == "regression"
    assert now[SLOW] == then[SLOW]
    assert states(run_status(later, SEQUENTIAL))[SLOW] == "decided"
    assert now[LIKE] != then[LIKE]
    assert [c.n_blocks for c in now.values()] == [5, 14, 14]


def test_like_with_like_is_seldom_called_different_among_others_that_go_on() -> None:
    ratios = {BASE: 1.0, SLOW: 1.0, LIKE: 1.0, BROKEN: 1.0, "mysql-8.4.6": 1.0}
    false = verdicts = 0
    for seed in range(12):
        stored, looks = after_looks(run_of(drawn(ratios, 8, seed=seed)), 8, margin=0.0005)
        decided: dict[Level, Comparison] = {}
        for look in looks:
            now = {each.comparison.candidate: each for each in look.comparisons}
            for level, comparison in decided.items():
                assert now[level].state == "decided"
                assert now[level].comparison == comparison
            decided |= {
                level: each.comparison for level, each in now.items() if each.state == "decided"
            }
        last = compare_run(stored, looks="any", margin=0.0005)
        verdicts += len(last.comparisons())
        false += sum(c.verdict in DIFFERENCES for c in last.comparisons())
    # 2.4 of 48 are expected to be wrong at most; those of a run depend on each other.
    assert verdicts == 48
    assert false <= 7


def verdict_at_stop(stored: StoredRun, most: int, looks: Looks, margin: float) -> tuple[str, int]:
    """Return the verdict with which a run of two treatments stops, and after how many blocks."""
    design = Design(kind="sequential", blocks=most)
    for blocks in range(1, most + 1):
        analysis = compare_run(first_blocks(stored, blocks), looks=looks, margin=margin)
        if run_status(analysis, design).ending is not None:
            break
    (comparison,) = analysis.comparisons()
    return str(comparison.verdict), blocks


def stops(
    ratio: float,
    *,
    runs: int,
    most: int,
    looks: Looks = "any",
    spread: float = 0.015,
    margin: float = 0.02,
) -> list[tuple[str, int]]:
    found = []
    for seed in range(runs):
        stored = run_of(drawn({BASE: 1.0, SLOW: ratio}, most, seed=seed, spread=spread))
        found.append(verdict_at_stop(stored, most, looks, margin))
    return found


def test_like_with_like_is_seldom_called_different() -> None:
    # With next to no margin a verdict is an interval that excludes 1.
    of_looks: dict[Looks, int] = {"any": 0, "once": 0}
    for looks in of_looks:
        found = stops(1.0, runs=60, most=10, looks=looks, margin=0.0005)
        of_looks[looks] = sum(verdict in ("regression", "improvement") for verdict, _ in found)
    assert of_looks["any"] <= 6  # of 60 at 0.05: 3 expected, more than 6 in one of 33
    assert of_looks["once"] > 9  # looks by an interval for one look are wrong far more often


def test_a_difference_is_found_in_few_blocks() -> None:
    found = stops(1.1, runs=40, most=20)
    regressions = [blocks for verdict, blocks in found if verdict == "regression"]
    assert len(regressions) >= 38
    assert sum(blocks for _, blocks in found) / len(found) <= 10
    assert all(verdict != "improvement" for verdict, _ in found)


def test_what_is_alike_is_called_so_before_the_limit() -> None:
    found = stops(1.0, runs=20, most=20, spread=0.004)
    assert [verdict for verdict, _ in found].count("equivalent") >= 18
    assert sum(blocks for _, blocks in found) / len(found) <= 10
