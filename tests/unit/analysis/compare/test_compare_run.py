"""Test the way from stored runs to verdicts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.errors import UserError
from millrace.stats.ratio import paired_ratio
from millrace.store.records import StoredRun
from tests.support.builders import Fails, RunBuilder, noisy
from tests.support.known import known
from tests.support.sequential_runs import run_of, with_aa_trials

BASE, SLOWER, FASTER = "mysql-5.6.24", "mysql-5.7.22", "mariadb-10.11.19"


def one(analysis: RunAnalysis, candidate: str, **held: str) -> Comparison:
    """Return the headline comparison of ``candidate``, at these fixed levels."""
    found = [
        c
        for c in analysis.comparisons()
        if c.candidate == candidate and all(c.fixed_factors[name] == held[name] for name in held)
    ]
    assert len(found) == 1
    return found[0]


def drifting() -> StoredRun:
    """Simulate a host that is 3 times slower in the last block for every server."""
    drift = (1.0, 1.1, 1.3, 2.0, 3.0)
    return RunBuilder(
        {
            BASE: [4.0 * d for d in drift],
            SLOWER: [4.4 * d * e for d, e in zip(drift, noisy(1.0, 5), strict=True)],
            FASTER: [3.5 * d * e for d, e in zip(drift, noisy(1.0, 5, seed=2), strict=True)],
        }
    ).build()


def test_verdicts_hold_under_drift() -> None:
    analysis = compare_run(drifting())
    slower, faster = one(analysis, SLOWER), one(analysis, FASTER)
    assert (slower.verdict, faster.verdict) == ("regression", "improvement")
    assert known(slower.estimate).ratio == pytest.approx(4.0 / 4.4, rel=0.02)
    assert slower.n_blocks == 5
    assert analysis.base == BASE


def test_every_metric_is_compared_in_its_own_direction() -> None:
    analysis = compare_run(drifting())
    assert [metric.name for metric in analysis.metrics] == ["throughput", "time", "count_time"]
    assert analysis.headline.name == "throughput"
    assert known(analysis.time).name == "time"
    by_metric = {c.metric.name: c for c in analysis.groups[0].comparisons if c.candidate == SLOWER}
    rate, time = by_metric["throughput"].estimate, by_metric["time"].estimate
    assert time is not None
    assert time.ratio == pytest.approx(1 / known(rate).ratio)
    assert by_metric["throughput"].verdict == by_metric["time"].verdict == "regression"


def test_rate_is_rows_over_load_and_finish() -> None:
    analysis = compare_run(RunBuilder({BASE: (4.0, 4.0, 4.0), SLOWER: (5.0, 5.0, 5.0)}).build())
    summary = analysis.treatments[0].metrics["throughput"].summary
    assert summary.mean == pytest.approx(500_000 / 4.0)


def test_the_margin_can_be_another_one() -> None:
    run = RunBuilder({BASE: noisy(4.0, 5), SLOWER: noisy(4.2, 5, seed=2)}).build()
    assert one(compare_run(run), SLOWER).verdict == "regression"
    assert one(compare_run(run, margin=0.10), SLOWER).verdict == "equivalent"
    with pytest.raises(UserError, match="margin"):
        compare_run(run, margin=0.0)


def test_the_base_can_be_another_one() -> None:
    analysis = compare_run(drifting(), base=SLOWER)
    assert one(analysis, BASE).verdict == "improvement"
    assert {c.candidate for c in analysis.comparisons()} == {BASE, FASTER}
    with pytest.raises(UserError, match="is not a level of") as caught:
        compare_run(drifting(), base="mysql-9.9")
    assert BASE in (caught.value.hint or "")


def test_two_blocks_give_an_estimate_but_no_verdict() -> None:
    comparison = one(
        compare_run(RunBuilder({BASE: (4.0, 4.1), SLOWER: (5.0, 5.2)}).build()), SLOWER
    )
    assert comparison.verdict is None
    assert comparison.reason == "2 blocks; at least 3 are needed"
    assert comparison.estimate is not None
    assert (comparison.minimum_detectable, comparison.blocks_wanted) == (None, 3)


def test_a_failed_trial_drops_its_pair_and_no_other() -> None:
    run = RunBuilder(
        {
            BASE: noisy(4.0, 5),
            SLOWER: (4.4, Fails("load"), 4.5, 4.45, 4.4),
            FASTER: noisy(3.5, 5, seed=2),
        }
    ).build()
    analysis = compare_run(run)
    assert (one(analysis, SLOWER).n_blocks, one(analysis, FASTER).n_blocks) == (4, 5)
    base = noisy(4.0, 5)
    expected = paired_ratio([4.4, 4.5, 4.45, 4.4], [base[0], base[2], base[3], base[4]])
    found = known(one(analysis, SLOWER).estimate)
    assert found.ratio == pytest.approx(expected.ratio)
    assert [(f.block, f.step) for f in analysis.failures] == [(1, "load")]


def test_trials_lost_to_failures_are_named_where_too_few_are_left() -> None:
    run = RunBuilder({BASE: noisy(4.0, 3), SLOWER: (4.4, Fails(), 4.5)}).build()
    comparison = one(compare_run(run), SLOWER)
    assert comparison.verdict is None
    lost = f"1 of 3 trials of {SLOWER} failed"
    assert comparison.reason == f"2 blocks; at least 3 are needed; {lost}"


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [(5.0, "regression"), (3.0, "improvement"), (4.0, "equivalent"), (4.07, "inconclusive")],
)
def test_trials_lost_to_failures_are_named_with_every_verdict(seconds: float, verdict: str) -> None:
    base: list[float | Fails | None] = [Fails(), *noisy(4.0, 7, spread=0.002)]
    other: list[float | Fails | None] = [*noisy(seconds, 6, spread=0.002, seed=2), Fails(), Fails()]
    comparison = one(compare_run(RunBuilder({BASE: base, SLOWER: other}).build()), SLOWER)
    assert (comparison.verdict, comparison.n_blocks) == (verdict, 5)
    assert (comparison.base_failed, comparison.candidate_failed) == (1, 2)
    assert comparison.reason.endswith(
        f"; 1 of 8 trials of {BASE} failed and 2 of 8 trials of {SLOWER} failed"
    )


def test_without_failures_nothing_is_lost() -> None:
    comparison = one(compare_run(drifting()), SLOWER)
    assert (comparison.base_failed, comparison.candidate_failed, comparison.lost) == (0, 0, "")
    assert comparison.reason == "the interval excludes 1 and the estimate is beyond 2 %"


def test_a_candidate_that_never_finished_has_failed() -> None:
    run = RunBuilder({BASE: noisy(4.0, 3), SLOWER: [Fails("initialise", "no such option")] * 3})
    comparison = one(compare_run(run.build()), SLOWER)
    assert comparison.verdict == "failed"
    assert comparison.reason == (
        f"{SLOWER} failed at step initialise: no such option; 3 of 3 trials of {SLOWER} failed"
    )
    assert comparison.estimate is None


def test_a_base_that_never_finished_fails_every_comparison() -> None:
    run = RunBuilder({BASE: [Fails("start", "no such option")] * 3, SLOWER: noisy(4.0, 3)})
    comparison = one(compare_run(run.build()), SLOWER)
    assert comparison.verdict == "failed"
    assert comparison.reason == (
        f"the base {BASE} failed at step start: no such option; 3 of 3 trials of {BASE} failed"
    )


def test_whose_failure_a_failed_comparison_is() -> None:
    failing = [Fails("start", "no such option")] * 3
    fine, broken, waiting = "mysql-8.0.12", "mysql-8.0.13", "mysql-8.0.14"
    mixed: dict[str, Sequence[float | Fails | None]] = {
        BASE: failing,
        fine: noisy(4.0, 3),
        broken: failing,
        waiting: [None] * 3,
    }
    analysis = compare_run(RunBuilder(mixed).build())
    found = {str(comparison.candidate): comparison for comparison in analysis.comparisons()}
    assert {comparison.verdict for comparison in found.values()} == {"failed"}
    assert [found[name].only_base_failed for name in (fine, broken, waiting)] == [True, False, True]
    assert found[broken].reason.startswith(f"{broken} failed at step start")
    with_base = compare_run(RunBuilder({BASE: noisy(4.0, 3), broken: failing}).build())
    assert not one(with_base, broken).only_base_failed


def test_a_run_that_has_not_ended_has_no_verdict_yet() -> None:
    analysis = compare_run(
        RunBuilder({BASE: (None, None, None), SLOWER: (None, None, None)}).build()
    )
    comparison = one(analysis, SLOWER)
    assert comparison.verdict is None
    assert "no block" in comparison.reason
    assert all(treatment.open == 3 for treatment in analysis.treatments)


def test_a_retry_replaces_the_failed_attempt() -> None:
    run = RunBuilder({BASE: noisy(4.0, 3), SLOWER: (4.4, Fails(), 4.5)}).build()
    failed = next(attempt for attempt in run.attempts if attempt.outcome == "failed")
    good = next(a for a in run.attempts if a.outcome == "finished")
    retried = replace(good, id=99, trial_id=failed.trial_id, number=2)
    interrupted = replace(failed, id=98, number=3, outcome="interrupted", reason="Ctrl-C")
    analysis = compare_run(replace(run, attempts=(*run.attempts, retried, interrupted)))
    assert not analysis.failures
    assert one(analysis, SLOWER).n_blocks == 3


def test_candidates_meet_the_base_of_their_own_group() -> None:
    run = RunBuilder(
        {
            (BASE, "default"): noisy(4.0, 3),
            (SLOWER, "default"): noisy(4.4, 3, seed=2),
            (BASE, "wmf"): noisy(8.0, 3),
            (SLOWER, "wmf"): noisy(7.0, 3, seed=2),
        },
        factors={"configuration": ["default", "wmf"]},
    ).build()
    analysis = compare_run(run)
    assert [group.label for group in analysis.groups] == ["default", "wmf"]
    assert one(analysis, SLOWER, configuration="default").verdict == "regression"
    assert one(analysis, SLOWER, configuration="wmf").verdict == "improvement"
    assert analysis.constants == {"engine": "InnoDB", "load_mode": "local"}
    assert [t.label for t in analysis.treatments][2] == f"{BASE} · wmf"


def test_like_with_like_is_marked() -> None:
    analysis = compare_run(
        RunBuilder({BASE: noisy(4, 3), "again": noisy(4, 3)}, aliases={"again": BASE}).build()
    )
    assert one(analysis, "again").same
    assert not one(compare_run(drifting()), SLOWER).same


def test_equal_servers_rarely_differ_in_a_run() -> None:
    """Compare 40 A/A runs of 5 blocks with noise of 1 %.

    At most 5 are beyond the margin (binomial, 99 %)."""
    verdicts = [
        one(
            compare_run(
                RunBuilder(
                    {BASE: noisy(4, 5, seed=2 * n), "again": noisy(4, 5, seed=2 * n + 1)},
                    aliases={"again": BASE},
                ).build()
            ),
            "again",
        ).verdict
        for n in range(40)
    ]
    assert sum(verdict in ("regression", "improvement") for verdict in verdicts) <= 5
    assert "equivalent" in verdicts


def test_options_variables_servers_and_sizes_come_along() -> None:
    run = RunBuilder(
        {(BASE, "wmf"): noisy(4, 3), (FASTER, "wmf"): noisy(4, 3)},
        factors={"configuration": ["wmf"]},
    ).build()
    analysis = compare_run(run)
    (instance,) = analysis.treatments[0].instances
    assert [m.name for m in instance.mismatches] == ["open_files_limit"]
    assert [o.name for o in instance.left_out] == ["temp_pool"]
    (compared,) = analysis.variables
    assert (compared.base, compared.candidate) == (BASE, FASTER)
    assert compared.diff.different["performance_schema"] == ("ON", "OFF")
    assert "datadir" not in compared.diff.different
    assert [server.name for server in analysis.servers] == [BASE, FASTER]
    assert analysis.treatments[0].sizes["table_allocated_bytes"] == 71_307_264
    assert list(analysis.treatments[0].steps)[:2] == ["settle", "initialise"]


def test_a_trial_without_its_measurement_is_no_pair() -> None:
    run = RunBuilder({BASE: noisy(4, 4), SLOWER: noisy(4.4, 4)}).build()
    first = run.attempts[0]
    without = tuple(m for m in first.measurements if m.name != "finish_duration_s")
    analysis = compare_run(
        replace(run, attempts=(replace(first, measurements=without), *run.attempts[1:]))
    )
    assert one(analysis, SLOWER).n_blocks == 3


RUN = run_of({BASE: noisy(4, 12), SLOWER: noisy(4.4, 12, seed=2)})


def test_aa_trials_are_none_when_the_run_has_none() -> None:
    assert compare_run(RUN).aa_trials is None


def test_the_pairs_are_those_of_their_block() -> None:
    found = known(compare_run(with_aa_trials(RUN, {1: 1.02, 7: 1.04})).aa_trials)
    (group,) = found.groups
    assert group.estimate == found.estimate
    assert known(found.estimate).ratio == pytest.approx((1.02 * 1.04) ** 0.5)
    assert (known(found.estimate).n_pairs, group.planned, group.finished) == (2, 2, 2)
    assert not found.excludes_1


def test_a_single_pair_has_no_interval_and_excludes_nothing() -> None:
    found = known(compare_run(with_aa_trials(RUN, {0: 1.5})).aa_trials)
    assert known(found.estimate).ratio == pytest.approx(1.5)
    assert known(found.estimate).low is None
    assert not found.excludes_1


def test_aa_interval_is_reported_when_it_excludes_1() -> None:
    found = known(compare_run(with_aa_trials(RUN, {0: 1.05, 4: 1.051, 9: 1.049})).aa_trials)
    assert found.excludes_1


def test_failed_aa_trial_has_no_pair_and_is_listed() -> None:
    analysis = compare_run(with_aa_trials(RUN, {0: 1.01, 5: 0.0}))
    (group,) = known(analysis.aa_trials).groups
    assert (group.planned, group.finished) == (2, 1)
    assert [(f.treatment, f.block) for f in analysis.failures] == [(f"{BASE} (A/A trial)", 5)]


def test_aa_trials_change_nothing_else() -> None:
    without, having = compare_run(RUN), compare_run(with_aa_trials(RUN, {0: 2.0, 3: 0.0, 7: 3.0}))
    assert having.groups == without.groups
    assert len(having.trials) == len(without.trials) + 3
    left = replace(having, aa_trials=None, trials=without.trials, failures=(), spent_s=0.0)
    assert left == replace(without, spent_s=0.0)
