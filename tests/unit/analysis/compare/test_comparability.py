"""Test the conditions that refuse or give up a comparison, and how often they do so wrongly."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.refusals import (
    LIKE_WORK,
    MARGIN,
    UNLIKE_WORK,
    Watched,
    of_seconds,
    trial,
    unsteady_in,
    watch_trials,
    watch_work,
)
from millrace.analysis.compare.comparability import (
    Comparability,
    ComparabilityRules,
    TreatmentTrials,
    TrialWork,
    asks_the_same,
    assess_comparability,
    unequal_work,
)
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.model import Comparison, RunAnalysis
from millrace.analysis.steady.policy import lasts, unsteady_sides
from millrace.report.run.sentences import answer, sentence
from millrace.stats.trend import Trend
from millrace.store.records import MeasurementRecord
from tests.support.builders import Fails
from tests.support.query_runs import TIME_S, Levels, QueryRun, Values, nothing_else, usual_rate
from tests.support.stored_records import begun

NAMES = ("mysql-5.6.24", "mysql-8.0.12")
MOST = 16  # blocks
RUNS = 80
GIVEN_UP = 0.05
STEADY, FALLS = Trend("steady"), Trend("drift", -0.07)


def given_up(found: Watched) -> int:
    return int(np.isfinite(found.after).sum())


def most(share: float) -> int:
    """Return the limit on given-up comparisons, exceeded by chance once in 200 times."""
    return int(stats.binom.ppf(0.995, RUNS, share))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4, 0.5])
def test_as_many_unsteady_trials_on_both_sides_are_rarely_given_up(share: float) -> None:
    found = watch_trials(RUNS, unsteady_in(share, share), most=MOST)
    assert given_up(found) <= most(GIVEN_UP)


@pytest.mark.parametrize("name", LIKE_WORK)
def test_work_that_is_alike_is_rarely_given_up(name: str) -> None:
    assert given_up(watch_work(RUNS, *LIKE_WORK[name], most=MOST)) <= most(GIVEN_UP)


def test_noise_of_the_seconds_gives_nothing_up() -> None:
    found = watch_trials(RUNS, of_seconds(RUNS, sd=0.1, rho=0.5), most=MOST)
    assert given_up(found) <= most(GIVEN_UP)


def test_refusals_of_one_look_would_give_up_far_too_much() -> None:
    """Use the same looks, but test at each one only the trials so far, as a single look may."""
    source = np.random.default_rng(5)
    wrong = 0
    for _ in range(RUNS):
        base, candidate = (
            [trial(block, course) for block, course in enumerate(unsteady_in(0.4, 0.4)(source, 0))]
            for _ in range(2)
        )
        looks = (unsteady_sides(base[:n], candidate[:n], names=NAMES) for n in range(5, MOST + 1))
        wrong += any(looks)
    assert wrong > RUNS / 2
    bursts = watch_work(RUNS, *LIKE_WORK["errors in 5 %, in bursts (CV 1)"], most=8, looks="once")
    assert given_up(bursts) > RUNS / 2


@pytest.mark.parametrize(
    ("shares", "blocks", "least"),
    [((1.0, 0.0), 7, 1.0), ((1.0, 1.0), 7, 1.0), ((0.6, 0.0), 16, 0.8), ((0.6, 0.1), 16, 0.35)],
)
def test_what_stays_unsteady_is_given_up(
    shares: tuple[float, float], blocks: int, least: float
) -> None:
    found = watch_trials(RUNS, unsteady_in(*shares), most=blocks)
    assert given_up(found) >= least * RUNS


@pytest.mark.parametrize("name", UNLIKE_WORK)
def test_work_that_differs_is_given_up(name: str) -> None:
    assert given_up(watch_work(RUNS, *UNLIKE_WORK[name], most=MOST)) >= 0.9 * RUNS


def test_what_is_refused_now_may_yet_be_compared() -> None:
    """Three unsteady trials of five prevent a verdict, but the comparison goes on."""
    base = [trial(block, FALLS if block < 3 else STEADY) for block in range(5)]
    candidate = [trial(block, STEADY) for block in range(5)]
    found = said(TreatmentTrials(NAMES[0], (), base), TreatmentTrials(NAMES[1], (), candidate))
    assert found.unsteady.startswith("not steady: 3 of 5 trials of mysql-5.6.24")
    assert found.permanently is None
    assert found.reason == found.unsteady


def test_blocks_that_both_have_count() -> None:
    falling = [trial(block, FALLS) for block in range(9)]
    steady = [trial(block, STEADY) for block in range(9)]
    assert lasts(falling, steady)
    assert not lasts(falling[:6], steady[:6])
    assert (
        said(TreatmentTrials("a", (), falling), TreatmentTrials("b", (), steady[:6])).permanently
        is None
    )
    assert said(TreatmentTrials("a", (), falling), TreatmentTrials("b", (), [])) == Comparability(
        "", "", None
    )


def test_work_is_given_up_after_five_blocks() -> None:
    for blocks, permanently in ((4, None), (5, "unequal")):
        base = [TrialWork(block, 100_000) for block in range(blocks)]
        other = [TrialWork(block, 90_000, 10_000) for block in range(blocks)]
        found = said(TreatmentTrials("a", base, ()), TreatmentTrials("b", other, ()))
        assert found.unequal
        assert found.permanently == permanently


def said(base: TreatmentTrials, candidate: TreatmentTrials) -> Comparability:
    return assess_comparability(base, candidate, ComparabilityRules(MARGIN, 0, True, "any"))


def side(*, errors: int = 0, skipped: int = 0) -> list[TrialWork]:
    tries = 100_000
    return [TrialWork(n, tries - errors, errors, 0, 0, skipped, tries) for n in range(3)]


def two_servers(
    also: Callable[[Levels, int], Values] = nothing_else, **changes: object
) -> RunAnalysis:
    run = QueryRun(NAMES, ("point-query",), (8,), 5, also=also, **changes)  # type: ignore[arg-type]
    return compare_run(run.build())


def of_candidate(name: str, value: float) -> Callable[[Levels, int], Values]:
    """Return the measurement ``name`` as a share of the candidate's transactions, by trial."""
    return lambda levels, block: {name: value + block} if levels["server"] == NAMES[1] else {}


def test_a_difference_of_equal_work_is_a_regression() -> None:
    comparisons = two_servers().comparisons()
    assert [c.verdict for c in comparisons] == ["regression"]
    assert comparisons[0].unequal == ""


@pytest.mark.parametrize(
    ("name", "share", "said"),
    [
        ("errors", 40_000, "of the transactions ended in an error with mysql-8.0.12"),
        ("retries", 40_000, "of the transactions begun were retries with mysql-8.0.12"),
    ],
)
def test_unequal_work_is_inconclusive_in_every_metric(name: str, share: float, said: str) -> None:
    analysis = two_servers(of_candidate(name, share))
    for metric in analysis.metrics:
        (comparison,) = analysis.comparisons(metric)
        assert comparison.verdict == "inconclusive"
        assert comparison.reason.startswith("unequal work: ")
        assert said in comparison.reason
        assert "0 % with mysql-5.6.24" in comparison.reason
        reported = sentence(comparison, analysis)
        assert "inconclusive, unequal work: " in reported
        assert "are needed" not in reported, "more blocks would not help"
    assert f" has no verdict: unequal work, 2.83 % {said}, " in answer(analysis), "and no ratio"


def test_a_server_that_leaves_more_of_the_schedule_undone_is_the_slower_one() -> None:
    analysis = two_servers(of_candidate("skipped", 9_000), open_loop=True)
    (comparison,) = analysis.comparisons()
    assert comparison.verdict == "regression"
    assert comparison.skipped is not None
    assert comparison.skipped.base == 0.0
    assert comparison.skipped.candidate == pytest.approx(0.06, rel=0.01)
    assert "6 % of the scheduled transactions were skipped with mysql-8.0.12" in comparison.reason
    said = "mysql-8.0.12 skips 6.0 % of the scheduled transactions, "
    assert answer(analysis).startswith(
        f"Compared with mysql-5.6.24, {said}the base 0.0 % (regression"
    )
    assert sentence(comparison, analysis).startswith(f"{said}mysql-5.6.24 0.0 %: ")
    # What those took that were served does not compare, nor does what each of them cost.
    cpu = next(each for each in analysis.metrics if each.name == "server_cpu")
    (of_cpu,) = analysis.comparisons(cpu)
    assert (of_cpu.verdict, of_cpu.skipped) == ("inconclusive", None)


def test_a_base_that_leaves_more_of_the_schedule_undone_makes_an_improvement() -> None:
    def also(levels: Levels, _block: int) -> Values:
        return {"skipped": 9_000} if levels["server"] == NAMES[0] else {}

    (comparison,) = two_servers(also, open_loop=True).comparisons()
    assert comparison.verdict == "improvement"


@pytest.mark.parametrize("server", NAMES)
def test_a_server_that_skips_all_of_the_schedule_is_the_slower_one(server: str) -> None:
    def also(levels: Levels, _block: int) -> Values:
        none = {"transactions": 0.0, "statements": 0.0, "skipped": 150_000.0}
        return none if levels["server"] == server else {}

    stored = QueryRun(NAMES, ("point-query",), (8,), 5, also=also, open_loop=True).build()
    attempts = tuple(
        replace(each, histograms=()) if each.measured["transactions"] == 0 else each
        for each in stored.attempts
    )
    analysis = compare_run(replace(stored, attempts=attempts))
    (comparison,) = analysis.comparisons()
    is_base = server == NAMES[0]
    assert comparison.verdict == ("improvement" if is_base else "regression")
    assert comparison.estimate is None
    shares = "0.0 % of the scheduled transactions, the base 100.0 %"
    if not is_base:
        shares = "100.0 % of the scheduled transactions, the base 0.0 %"
    assert answer(analysis).startswith(f"Compared with mysql-5.6.24, mysql-8.0.12 skips {shares}")
    assert " skips " in sentence(comparison, analysis)


def test_skipped_transactions_are_no_answer_where_others_failed() -> None:
    def also(levels: Levels, _block: int) -> Values:
        return {"skipped": 9_000, "errors": 9_000} if levels["server"] == NAMES[1] else {}

    (comparison,) = two_servers(also, open_loop=True).comparisons()
    assert (comparison.verdict, comparison.skipped) == ("inconclusive", None)


def abandoned(measured: Values, only: str = NAMES[1]) -> RunAnalysis:
    """Return two servers, the trials of one of which were given up with these measurements."""
    late = Fails("measure", "side 1: the time limit of 124 s is over")
    stored = QueryRun(
        NAMES, ("point-query",), (8,), 3,
        fails=lambda levels, _block: late if levels["server"] == only else None,
    ).build()  # fmt: skip
    records = tuple(MeasurementRecord(name, value) for name, value in measured.items())
    attempts = tuple(
        replace(each, measurements=records) if each.outcome == "failed" else each
        for each in stored.attempts
    )
    return compare_run(replace(stored, attempts=attempts))


def test_what_did_not_end_in_time_is_at_least_so_much_slower() -> None:
    # In a round, the base's own time is of the same round; of whole trials it is their mean.
    analysis = abandoned({"unanswered_s": 124.0, "base_transaction_s": 0.00044})
    (comparison,) = analysis.comparisons()
    assert comparison.verdict == "failed"
    assert comparison.slower_at_least == pytest.approx(124 / 0.00044)
    said = "mysql-8.0.12 is at least 280,000 times slower"
    assert answer(analysis).startswith(f"Compared with mysql-5.6.24, {said} (mysql-8.0.12 failed")
    assert sentence(comparison, analysis).startswith(f"{said} than mysql-5.6.24, failed: ")
    (of_trials,) = abandoned({"unanswered_s": 124.0}).comparisons()
    base_s = 8 / usual_rate({"server": NAMES[0], "test": "point-query", "clients": 8})
    assert of_trials.slower_at_least == pytest.approx(124 / base_s, rel=0.1)


def test_other_failures_tell_nothing_of_speed() -> None:
    assert abandoned({}).comparisons()[0].slower_at_least is None
    # A transaction that was under way for less than one of the base's shows nothing.
    short = {"unanswered_s": 0.01, "base_transaction_s": 0.02}
    assert abandoned(short).comparisons()[0].slower_at_least is None
    of_base = abandoned({"unanswered_s": 124.0}, only=NAMES[0])
    assert of_base.comparisons()[0].slower_at_least is None


def test_equal_error_rates_leave_the_verdict() -> None:
    analysis = two_servers(lambda levels, _block: {"errors": 0.02 * TIME_S * usual_rate(levels)})
    (comparison,) = analysis.comparisons()
    assert comparison.verdict == "regression"


def failing(share: float) -> RunAnalysis:
    """Return two servers with these shares of transactions that end in a duplicate key."""
    odds = share / (1 - share)

    def also(levels: Levels, _block: int) -> Values:
        errors = odds * TIME_S * usual_rate(levels)
        return {"errors": errors, "errors_1062": errors}

    return two_servers(also)


def test_a_speed_of_errors_is_no_verdict_though_both_sides_fail_alike() -> None:
    assert failing(0.49).comparisons()[0].verdict == "regression"
    analysis = failing(0.99)
    for metric in analysis.metrics:
        (comparison,) = analysis.comparisons(metric)
        assert comparison.verdict == "inconclusive"
        assert comparison.permanently_incomparable == "unequal", "more blocks do not help"
        assert comparison.reason.startswith(
            "too many errors: 99 % of the transactions ended in an error with mysql-8.0.12, 99 % "
            "with mysql-5.6.24, most with code 1062; "
        )


def test_one_side_of_errors_is_enough() -> None:
    assert reported(side(), side(errors=60_000)).startswith("too many errors: 60 % ")


def test_a_difference_that_few_blocks_cannot_prove_is_no_equal_work() -> None:
    bursts = (0.002, 0.004, 0.003, 0.03, 0.001)

    def also(levels: Levels, block: int) -> Values:
        share = bursts[block] if levels["server"] == NAMES[1] else 0.002
        return {"errors": share * TIME_S * usual_rate(levels)}

    (comparison,) = two_servers(also).comparisons()
    assert comparison.verdict == "inconclusive"
    assert comparison.reason.startswith("work not shown to be equal: ")
    assert "of the transactions ended in an error with mysql-8.0.12" in comparison.reason
    assert comparison.reason.endswith(
        "equal is within 1 percentage point, which more blocks may show"
    )


def test_what_is_equal_goes_by_the_margin() -> None:
    errors = (1_800, 2_000, 2_200)
    base = [TrialWork(block, 98_000, 2_000) for block in range(3)]
    other = [TrialWork(block, 100_000 - each, each) for block, each in enumerate(errors)]
    said = [reported(base, other, margin=margin) for margin in (0.05, 0.02, 0.005)]
    assert said[:2] == ["", ""]
    assert "equal is within 0.25 percentage points" in said[2]


def test_few_errors_leave_the_verdict() -> None:
    (comparison,) = two_servers(of_candidate("errors", 50)).comparisons()
    assert comparison.verdict == "regression"


def test_failed_stays_failed() -> None:
    def fails(levels: Levels, _block: int) -> Fails | None:
        return Fails("measure", "the server went away") if levels["server"] == NAMES[1] else None

    analysis = two_servers(of_candidate("errors", 40_000), fails=fails)
    (comparison,) = analysis.comparisons()
    assert comparison.verdict == "failed"
    assert comparison.unequal == ""


def test_too_few_blocks_stay_without_a_verdict() -> None:
    run = QueryRun(NAMES, ("point-query",), (8,), 2, also=of_candidate("errors", 400_000)).build()
    (comparison,) = compare_run(run).comparisons()
    assert comparison.verdict is None
    assert comparison.unequal != ""


def fixed_number(short: float) -> Comparison:
    """Return a run of 50,000 transactions per trial.

    A candidate's trials lack ``short`` of them."""

    def also(levels: Levels, block: int) -> Values:
        missing = short if levels["server"] == NAMES[1] and block == 1 else 0
        duration = 2.0 if levels["server"] == NAMES[1] else 1.5
        return {"transactions": 50_000 - missing, "measure_duration_s": duration + block / 100}

    (comparison,) = two_servers(also, parameters={"operations": 50_000}).comparisons()
    return comparison


def test_a_fixed_number_of_transactions_must_be_the_same() -> None:
    assert fixed_number(0).verdict == "regression"
    assert fixed_number(8).verdict == "regression", "clients may end within a transaction"
    unequal = fixed_number(900)
    assert unequal.verdict == "inconclusive"
    assert (
        "49,100 of 50,000 transactions were carried out with mysql-8.0.12 in block 2, "
        "50,000 with mysql-5.6.24"
    ) in unequal.reason


def test_only_blocks_of_both_count() -> None:
    base = side()
    worse = [replace(work, errors=20_000, transactions=80_000) for work in side()]
    other_blocks = [replace(work, block=work.block + 10) for work in worse]
    assert reported(base, worse)
    assert reported(base, other_blocks) == ""
    assert reported(base, []) == ""


def rows(read: float, changed: float = 0.0, noise: float = 0.0) -> list[TrialWork]:
    """Return trials whose transactions each read and changed these numbers of rows."""
    shares = (1 - noise, 1.0, 1 + noise)
    return [
        replace(work, rows_read=round(1e5 * read * share), rows_affected=round(1e5 * changed))
        for work, share in zip(side(), shares, strict=True)
    ]


def reported(
    base: list[TrialWork],
    other: list[TrialWork],
    *,
    same_statements: bool = True,
    margin: float = 0.02,
) -> str:
    return unequal_work(base, other, NAMES, ComparabilityRules(margin, 0, same_statements)).reason


def test_transactions_that_read_or_change_other_numbers_of_rows_are_unequal_work() -> None:
    assert reported(rows(1, 1), rows(1, 0.93)) == (
        "unequal work: a transaction changed 0.93 rows with mysql-8.0.12, 1 with mysql-5.6.24"
    )
    assert "a transaction read 140 rows with mysql-8.0.12" in reported(rows(100), rows(140))
    assert "changed 0 rows with mysql-8.0.12" in reported(rows(1, 1), rows(1))
    one_without = [*rows(1, 1)[:2], *rows(1)[2:]]
    assert "changed 0.6667 rows with mysql-8.0.12" in reported(rows(1, 1), one_without)


def test_rows_that_differ_by_chance_or_hardly_are_equal_work() -> None:
    assert reported(rows(1, 1), rows(1, 1)) == ""
    assert reported(rows(100), rows(100.5)) == ""
    assert reported(rows(100, noise=0.1), rows(104, noise=0.3)) == ""
    assert reported(rows(100)[:1], rows(104)[:1]) == ""


def test_rows_may_differ_when_levels_have_other_statements() -> None:
    assert reported(rows(10), rows(1000), same_statements=False) == ""
    assert asks_the_same("server")
    assert asks_the_same("options.log_bin")
    assert asks_the_same("compression")
    assert asks_the_same("replica.options.log_bin")
    assert not asks_the_same("limit")


def test_every_reason_of_unequal_work_is_reported() -> None:
    said = reported(side(), side(errors=3_000, skipped=5_000))
    assert said == (
        "unequal work: 3 % of the transactions ended in an error with mysql-8.0.12, "
        "0 % with mysql-5.6.24; 5 % of the scheduled transactions were skipped with "
        "mysql-8.0.12, 0 % with mysql-5.6.24"
    )


def test_operations_are_those_of_the_parameters() -> None:
    spec = begun().run.spec
    assert spec.operations == 0
    assert spec.replace(parameters={"operations": 0}).operations == 0
    assert spec.replace(parameters={"operations": 1_000}).operations == 1_000
