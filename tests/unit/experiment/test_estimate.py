"""Test the estimate of a plan, and its refusal when the disk cannot hold it."""

from dataclasses import replace

import pytest

from millrace import databases
from millrace.errors import HostError
from millrace.experiment import estimate as costs
from millrace.experiment.estimate import Needs, estimate, expected_s, require_space, shortfall
from millrace.experiment.model import Factor, Plan
from millrace.experiment.plan import expand, without_slices
from tests.support.experiment_files import DRIVEN, parsed, read_shipped

GB = 10**9


def plan_at(scale: str) -> Plan:
    return expand(read_shipped(scale), seed=1)


def needs(plan: Plan, *, binary_log: tuple[str, ...] = ()) -> dict[str, list[Needs]]:
    table_bytes = databases.get("mysql").storage.table_bytes
    return {
        each.id: [Needs(GB, each.levels["configuration"] in binary_log, table_bytes)]
        for each in plan.treatments
    }


def test_the_peak_is_the_treatment_that_needs_most() -> None:
    plan = plan_at("published")
    found = estimate(plan, needs=needs(plan, binary_log=("wmf",)), host_free_bytes=100 * GB)
    rows = 46_741_126
    assert found.peak_disk_bytes == GB + rows * (125 + costs.UNDO_ROW_BYTES) + 2 * rows * 79
    assert "wmf" in found.peak_treatment
    assert found.fits


def test_a_file_that_servers_read_counts_for_all() -> None:
    plan = plan_at("smoke")
    factors = (*plan.experiment.factors, Factor("load_mode", ("local", "server_file")))
    alone = without_slices(plan.experiment)
    local = estimate(expand(alone, seed=1), needs=needs(plan), host_free_bytes=GB)
    mixed = expand(replace(alone, factors=factors), seed=1)
    found = estimate(mixed, needs=needs(mixed), host_free_bytes=GB)
    assert found.peak_disk_bytes - local.peak_disk_bytes == 100_000 * 79


def test_counted_starts_take_as_long_as_they_took_before() -> None:
    experiment = replace(plan_at("smoke").experiment, counted_starts=2)
    plan = expand(experiment, seed=1)
    counted = sum(trial.purpose == "count" for trial in plan.trials)
    unknown, known = (
        estimate(plan, needs=needs(plan), host_free_bytes=GB, measured_count_s=each)
        for each in (None, costs.COUNT_S + 10.0)
    )
    assert counted > 0
    assert known.time_s - unknown.time_s == pytest.approx(10.0 * counted)


def test_a_disk_that_is_too_small_is_refused_with_what_is_needed() -> None:
    plan = plan_at("laptop")
    found = estimate(plan, needs=needs(plan), host_free_bytes=GB)
    assert not found.fits
    with pytest.raises(HostError, match=r"1\.3 GB.*500 MB.*1 GB are free") as raised:
        require_space(found, "/data")
    assert "/data" in raised.value.message
    assert "--scale" in (raised.value.hint or "")


def test_the_reserve_is_part_of_what_must_fit() -> None:
    plan = plan_at("smoke")
    peak = estimate(plan, needs=needs(plan), host_free_bytes=0).peak_disk_bytes
    for free_bytes, fits in (
        (peak + costs.RESERVE_BYTES, True),
        (peak + costs.RESERVE_BYTES - 1, False),
    ):
        assert estimate(plan, needs=needs(plan), host_free_bytes=free_bytes).fits is fits


def test_time_comes_from_earlier_trials_where_there_are_any() -> None:
    plan = plan_at("demo")
    fresh = estimate(plan, needs=needs(plan), host_free_bytes=GB)
    assert fresh.measured_share == 0
    assert fresh.time_s > len(plan.trials) * costs.TRIAL_OVERHEAD_S
    one = plan.treatments[0].id
    known = estimate(plan, needs=needs(plan), host_free_bytes=GB, measured_trial_s={one: 100.0})
    share = 1 / len(plan.treatments)
    assert known.measured_share == pytest.approx(share)
    assert known.time_s == pytest.approx(fresh.time_s * (1 - share) + plan.experiment.blocks * 100)


def test_each_test_of_a_sequence_runs_once_for_the_tables_of_the_others() -> None:
    def first_s(*tests: str) -> float:
        """Return the seconds of what is done once: all, without those of the trials."""
        text = DRIVEN.replace("sysbench", "insert-benchmark").replace("table_size", "rows")
        text = text.replace('["point-query"]', str(list(tests)))
        plan = expand(parsed(text), seed=1)
        known = {each.id: 10.0 for each in plan.treatments}
        return expected_s(plan, [], {}, None) - expected_s(plan, [], known, None)

    loaded_s, indexed_s = first_s("l.x"), first_s("l.i1")
    assert 0 < loaded_s < indexed_s
    assert first_s("l.x", "l.i1", "l.i2") == first_s("l.i2") > indexed_s


def test_limit_too_short_for_a_verdict_names_a_sufficient_one() -> None:
    plan = plan_at("demo")
    found = estimate(plan, needs=needs(plan), host_free_bytes=GB)

    def within(limit_s: float | None) -> str | None:
        experiment = replace(plan.experiment, sequential=True, max_time_s=limit_s)
        return shortfall(replace(plan, experiment=experiment), found)

    assert within(None) is None
    assert within(found.least_time_s) is None
    assert "for not even one block; a verdict needs 3" in str(within(found.least_time_s / 4))
    assert "for only 2 blocks; a verdict needs 3" in str(within(found.least_time_s * 0.9))
    assert "fewer levels" in str(within(1.0))
