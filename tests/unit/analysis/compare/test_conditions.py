"""Test the conditions besides the servers that affected the figures, from stored attempts."""

from dataclasses import replace

import pytest

from millrace.analysis.compare import conditions
from millrace.analysis.compare.compare_run import compare_run
from millrace.model.host_facts import HostFacts
from millrace.report.run.notes import warnings
from tests.support.builders import Fails, RunBuilder, extended, measured, noisy, tried_again
from tests.support.known import known
from tests.support.query_runs import TIME_S, Levels, QueryRun, Values

BASE, OTHER = "mysql-5.6.24", "mysql-5.7.22"
RUN = RunBuilder({BASE: (4.0, 4.0, 4.0), OTHER: (2.0, 2.0, 2.0)}).build()


def test_the_wait_is_a_share_of_the_load_alone() -> None:
    analysis = compare_run(measured(RUN, "load_row_wait_s", {OTHER: 0.098}))
    base, other = analysis.treatments
    assert base.generator_wait is None
    assert other.generator_wait == pytest.approx(0.05)  # the load is 98 % of 2 s


def test_warnings_are_a_mean_of_trials_and_unknown_without_a_count() -> None:
    base, other = compare_run(measured(RUN, "load_warnings", {BASE: 7})).treatments
    assert (base.load_warnings, other.load_warnings) == (7, None)


def test_looks_are_counted_from_what_had_ended() -> None:
    run = RunBuilder({BASE: noisy(4, 10), OTHER: noisy(4, 10)}).build()
    assert conditions.blocks_at_extensions(run) == ()
    assert conditions.blocks_at_extensions(extended(run, 10, at_block=5)) == (5,)
    unobserved = extended(run, 10, at_block=0)
    assert conditions.blocks_at_extensions(unobserved) == ()


BEFORE, AFTER = "2026-01-05T10:00:00Z", "2026-01-05T10:01:00Z"


@pytest.mark.parametrize(
    ("load_s", "started_utc", "holds_for"),
    [(2.0, AFTER, "any"), (2.0, BEFORE, "once"), (None, AFTER, "once")],
)
def test_a_result_made_again_when_all_had_ended_follows_a_look(
    load_s: float | None, started_utc: str, holds_for: str
) -> None:
    run = RunBuilder({BASE: noisy(4, 6), OTHER: (Fails(), *noisy(2, 5))}).build()
    assert compare_run(run).holds_for == "once"
    analysis = compare_run(tried_again(run, load_s, started_utc=started_utc))
    assert analysis.holds_for == holds_for
    assert {c.estimate.looks for c in analysis.comparisons() if c.estimate} == {holds_for}
    notes = [each for each in warnings(analysis) if "made again" in each]
    result = (
        "1 trial that had failed was made again after the run had been over, so the interval is "
        "the wider one that holds for any number of looks"
    )
    assert notes == ([] if holds_for == "once" else [result])


def test_a_run_that_is_not_over_was_never_looked_at_as_a_whole() -> None:
    run = RunBuilder({BASE: (*noisy(4, 5), None), OTHER: (Fails(), *noisy(2, 5))}).build()
    assert conditions.retried(tried_again(run, 2.0, started_utc=AFTER)) == 0


def test_conditions_of_driven_clients_are_of_all_their_trials() -> None:
    def also(_levels: Levels, block: int) -> Values:
        restored = {"snapshot_restore_s": 1.5, "snapshot_saved_s": 21.5} if block else {}
        return {"settled": float(block > 0), "settle_duration_s": 10.0 * (3 - block),
                "buffer_pool_reads": 50.0 * block, "buffer_pool_read_requests": 1_000.0,
                "transactions": 1_000.0 * (block + 1), "load_generator_user_s": 0.5,
                "load_generator_system_s": 1.0, "server_user_s": 3.0, "server_system_s": 1.0,
                "load_generator_voluntary_switches": 900.0,
                "load_generator_involuntary_switches": 100.0, **restored}  # fmt: skip

    stored = QueryRun((BASE,), ("point-query",), (8,), 3, also=also).build()
    (treatment,) = compare_run(stored).treatments
    driven = known(treatment.driven)
    assert (driven.trials, driven.unsettled, driven.longest_settle_s) == (3, 1, 30.0)
    assert driven.missed == pytest.approx(150 / 3_000)
    assert driven.snapshots_saved_s == pytest.approx(40.0)
    assert driven.client_s == pytest.approx(4.5 / 6_000)
    assert driven.server_s == pytest.approx(12 / 6_000)
    assert driven.client_switches == pytest.approx(0.5)
    assert driven.client_share == pytest.approx(4.5 / (3 * TIME_S * 2))  # the host has 2 CPUs


def test_without_driven_clients_there_are_no_such_conditions() -> None:
    assert all(treatment.driven is None for treatment in compare_run(RUN).treatments)


def test_condition_is_none_when_a_trial_has_none() -> None:
    stored = QueryRun((BASE,), ("point-query",), (8,), 2).build()
    first = stored.attempts[0]
    kept = tuple(m for m in first.measurements if not m.name.startswith(("server_", "load_gen")))
    lacking = replace(stored, attempts=(replace(first, measurements=kept), *stored.attempts[1:]))
    driven = known(compare_run(lacking).treatments[0].driven)
    assert (driven.server_s, driven.client_s, driven.client_share) == (None, None, None)
    assert driven.snapshots_saved_s is None
    unknown = replace(stored.run, host=replace(stored.run.host, facts=HostFacts()))
    assert conditions.trial_cpus(unknown) is None
