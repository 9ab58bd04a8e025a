"""Test the activity of the host's clocks and hypervisor in the measured part of a trial."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.trial import host_time
from millrace.trial.host_time import HostTime, Moment, between, moment
from tests.support.made_events import interval, mark
from tests.support.measuring import BEGIN as BEGINS
from tests.support.measuring import END as ENDS
from tests.support.measuring import RESULT, measurement

BEGIN = Moment(100.0, 200.0, 1_700_000_000.0, (10, 1_000))
STAT = """\
cpu  30 0 0 60 0 0 0 15 0 0
cpu0 10 0 0 20 0 0 0 5 0 0
cpu1 20 0 0 40 0 0 0 10 0 0
intr 1
"""


def after(
    seconds: float, *, slept_s: float = 0.0, step_s: float = 0.0, steal: tuple[int, int] = (0, 100)
) -> Moment:
    assert BEGIN.steal is not None
    return Moment(
        BEGIN.monotonic_s + seconds,
        BEGIN.boot_s + seconds + slept_s,
        BEGIN.wall_s + seconds + slept_s + step_s,
        (BEGIN.steal[0] + steal[0], BEGIN.steal[1] + steal[1]),
    )


def test_a_part_in_which_nothing_happened() -> None:
    assert between(BEGIN, after(30.0)).to_json() == pytest.approx(
        {"measured_s": 30.0, "suspended_s": 0.0, "clock_step_s": 0.0, "steal_share": 0.0}
    )


def test_sleep_steps_and_steal_are_distinguished() -> None:
    found = between(BEGIN, after(30.0, slept_s=4.0, step_s=-2.5, steal=(25, 100)))
    assert found.to_json() == pytest.approx(
        {"measured_s": 30.0, "suspended_s": 4.0, "clock_step_s": -2.5, "steal_share": 0.25}
    )


def test_steal_that_the_kernel_does_not_count_is_unknown() -> None:
    assert between(replace(BEGIN, steal=None), after(3.0)).steal_share is None
    assert between(BEGIN, after(3.0, steal=(0, 0))).steal_share is None
    assert between(BEGIN, after(3.0, steal=(-1, 100))).steal_share == 0.0


def test_steal_is_of_the_cpus_of_the_trial(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    assert moment([1], stat).steal == (10, 70)
    assert moment([0, 1], stat).steal == (15, 105)
    assert moment([2], stat).steal is None
    stat.write_text("cpu0 1 2 3 4\n")
    assert moment([0], stat).steal is None
    assert moment([0], tmp_path / "missing").steal is None


def test_the_moments_are_those_of_the_measured_part(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([BEGIN, after(30.0, slept_s=1.0)])
    monkeypatch.setattr(host_time, "moment", lambda _cpus: next(moments))
    measuring = measurement()
    hook = HostTime(measuring)
    hook.on_event(mark("connected"))
    hook.on_event(BEGINS)
    hook.contribute(RESULT)
    facts = measuring.outputs.instances["server"].facts
    assert facts.host_time is None, "the end did not come"
    hook.on_event(interval())
    hook.on_event(ENDS)
    hook.contribute(RESULT)
    found = measuring.outputs.instances["server"].facts.host_time
    assert found is not None
    assert found.suspended_s == pytest.approx(1.0)


def test_this_hosts_clocks_are_read() -> None:
    before = time.monotonic()
    now = moment(os.sched_getaffinity(0))
    assert before <= now.monotonic_s <= time.monotonic()
    assert now.boot_s >= before
