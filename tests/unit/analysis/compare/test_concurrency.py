"""Test which calibrations permit concurrent pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from millrace.analysis.compare.calibration_model import (
    Calibration,
    GroupCalibration,
    SequentialVerdict,
)
from millrace.analysis.compare.compare_run import compare_run
from millrace.analysis.compare.concurrency import ENOUGH, objection
from millrace.analysis.compare.metrics import read_metrics
from millrace.levels import Level
from millrace.model.run_spec import Calibrates
from millrace.stats.ratio import paired_ratio
from millrace.store.records import PAIR_FAILED, RunRecord
from tests.unit.analysis.builders import Fails, RunBuilder, study

NOW = datetime(2026, 2, 1, tzinfo=UTC)
GROUPS: list[dict[str, Level]] = [{"clients": 1}, {"clients": 8}]

SAME = SequentialVerdict("equivalent", paired_ratio([1.0, 1.01, 0.99], [1.01, 1.0, 0.99]), (0, 1))
OTHER = SequentialVerdict("regression", paired_ratio([1.0, 1.01, 0.99], [0.8, 0.8, 0.8]), (0, 1))


@pytest.fixture(scope="module")
def run() -> RunRecord:
    return study().run


def calibrated(
    run: RunRecord,
    *verdicts: Sequence[SequentialVerdict],
    ended: datetime = NOW - timedelta(hours=1),
    **changes: Any,
) -> Calibration:
    """Return a calibration with these verdicts in its groups."""
    groups = tuple(
        GroupCalibration(
            fixed_factors={"server": "base", **held}, label="", treatments=("a", "b"),
            verdicts=tuple(of), under_way=(), noise=None, detectable={}, block_s=None, injected=(),
            failed=0,
        )
        for held, of in zip(GROUPS, verdicts, strict=False)
    )  # fmt: skip
    asked = Calibrates(
        digest="digest", name=run.name, factor="server", base="base", blocks=10, margin=0.02
    )
    metric = read_metrics(run.spec.workload)[0]
    return Calibration(replace(run, **changes), asked, metric, groups, ended.isoformat())


def asked(run: RunRecord, *found: Calibration) -> str | None:
    return objection(run, GROUPS, found, NOW)


def test_enough_verdicts_of_which_no_more_are_false_than_chance_allows(run: RunRecord) -> None:
    assert SAME.excludes_1 is False
    assert OTHER.excludes_1 is True
    half = ENOUGH // 2
    for false, opens in ((0, True), (3, True), (4, False), (10, False)):
        found = calibrated(run, [OTHER] * false + [SAME] * (half - false), [SAME] * half)
        said = asked(run, found)
        assert (said is None) is opens, said
    assert "4 of 20 intervals" in str(
        asked(run, calibrated(run, [SAME] * half, [SAME] * (half - 4) + [OTHER] * 4))
    )
    # Of more verdicts more may be false, but a smaller share of them.
    many = calibrated(run, [SAME] * 95 + [OTHER] * 5, [SAME] * 95 + [OTHER] * 5)
    assert asked(run, many) is None
    too_many = calibrated(run, [SAME] * 85 + [OTHER] * 15, [SAME] * 95 + [OTHER] * 5)
    assert "disturb each other" in str(asked(run, too_many))


def test_without_a_calibration_of_all_groups_it_stays_shut(run: RunRecord) -> None:
    assert "never measured beside itself" in str(asked(run))
    assert "never measured beside itself" in str(asked(run, calibrated(run, [SAME] * 40)))
    assert "never measured beside itself" in str(asked(run, calibrated(run, [SAME] * 40, [])))
    few = calibrated(run, [SAME] * 4, [SAME] * 3)
    assert "has 7 of the 20 verdicts" in str(asked(run, few))


def test_the_newest_with_enough_verdicts_decides(run: RunRecord) -> None:
    good = calibrated(run, [SAME] * 10, [SAME] * 10)
    bad = calibrated(run, [SAME] * 10, [OTHER] * 10)
    few = calibrated(run, [OTHER], [SAME])
    assert asked(run, few, good, bad) is None
    assert "disturb" in str(asked(run, few, bad, good))


def test_a_stale_one_is_none(run: RunRecord) -> None:
    both = [SAME] * 10, [SAME] * 10
    old = calibrated(run, *both, ended=NOW - timedelta(days=15))
    assert "stale: it and this run are 15 days apart" in str(asked(run, old))
    other = calibrated(run, *both, versions={**run.versions, "load_generator": "0.0.1"})
    assert "stale: the load generator was 0.0.1" in str(asked(run, other))


BASE, OTHER_SERVER = "mysql-5.6.24", "mysql-5.7.22"
LEFT_OUT = Fails(
    PAIR_FAILED,
    f"the other trial of the pair, {OTHER_SERVER}, failed at step start: no such option",
)


def test_a_trial_that_was_left_out_did_not_fail_itself() -> None:
    """The report names the trial that failed, not its partner, which was ended for it."""
    broken = Fails("start", "no such option")
    of_candidate = RunBuilder({BASE: (LEFT_OUT,) * 3, OTHER_SERVER: (broken,) * 3}).build()
    (comparison, *_) = compare_run(of_candidate).comparisons()
    assert comparison.verdict == "failed"
    assert comparison.reason.startswith(f"{OTHER_SERVER} failed at step start: no such option")
    assert not comparison.only_base_failed
    assert comparison.lost == f"3 of 3 trials of {OTHER_SERVER} failed"
    of_base = RunBuilder({BASE: (broken,) * 3, OTHER_SERVER: (LEFT_OUT,) * 3}).build()
    (comparison, *_) = compare_run(of_base).comparisons()
    assert comparison.verdict == "failed"
    assert comparison.reason.startswith(f"the base {BASE} failed at step start")
    assert comparison.only_base_failed
    assert comparison.lost == f"3 of 3 trials of {BASE} failed"
