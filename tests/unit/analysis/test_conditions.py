"""What besides the servers shaped the figures, from stored attempts."""

from __future__ import annotations

import pytest

from millrace.analysis import conditions
from millrace.analysis.judge import judge
from tests.unit.analysis.builders import RunBuilder, extended, measured, noisy

BASE, OTHER = "mysql-5.6.24", "mysql-5.7.22"
RUN = RunBuilder({BASE: (4.0, 4.0, 4.0), OTHER: (2.0, 2.0, 2.0)}).build()


def test_the_wait_is_a_share_of_the_load_alone() -> None:
    analysis = judge(measured(RUN, "load_generator_wait_s", {OTHER: 0.098}))
    base, other = analysis.treatments
    assert base.generator_wait is None
    assert other.generator_wait == pytest.approx(0.05)  # the load is 98 % of 2 s


def test_warnings_are_a_mean_of_trials_and_unknown_without_a_count() -> None:
    base, other = judge(measured(RUN, "load_warnings", {BASE: 7})).treatments
    assert (base.load_warnings, other.load_warnings) == (7, None)


def test_looks_are_counted_from_what_had_ended() -> None:
    run = RunBuilder({BASE: noisy(4, 10), OTHER: noisy(4, 10)}).build()
    assert conditions.looks(run) == ()
    assert conditions.looks(extended(run, 10, at_block=5)) == (5,)
    assert conditions.looks(extended(run, 10, at_block=0)) == ()  # nothing was there to look at
