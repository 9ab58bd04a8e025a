"""Test the decision on CPU idle states, from measurements and options."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.loadgen.cpu_idle import CpuWakeup
from millrace.trial.cpu_idle import WORTH_AVOIDING_US, Rule, Setting, slowest

SLEEPY = Rule("auto", "auto", "off", 48.0, 19.0, (0, 1), most=1)
SHARING = replace(SLEEPY, share_cpu="auto")
ALERT = replace(SLEEPY, idle_us=5.0, awake_us=4.5)


def test_the_slowest_cpu_counts() -> None:
    assert slowest((CpuWakeup(0, 20.0, 18.0), CpuWakeup(1, 48.0, 19.0))) == (48.0, 19.0)
    assert slowest(()) == (None, None)


def test_cpus_are_kept_awake_where_each_client_leaves_one_to_the_server() -> None:
    control = SLEEPY.control(1)
    assert (control.keep_awake, control.busy_poll, control.client_cpus) == (True, False, None)
    assert "takes 48 µs to run again, one kept awake 19 µs" in control.reason


def test_clients_poll_on_cpus_of_their_own_where_the_server_has_three_times_as_many() -> None:
    wide = replace(SLEEPY, cpus=tuple(range(8)), most=2)
    control = wide.control(2)
    assert (control.keep_awake, control.busy_poll, control.client_cpus) == (True, True, (6, 7))
    control = replace(wide, most=3).control(3)
    assert (control.keep_awake, control.busy_poll, control.client_cpus) == (True, False, None)


def test_many_clients_leave_no_cpu_to_spare() -> None:
    control = replace(SLEEPY, most=8).control(8)
    assert (control.keep_awake, control.busy_poll, control.client_cpus) == (False, False, None)
    assert "clients = 8 leaves none of the 2 CPUs to spare" in control.reason


def test_cpus_that_wake_at_once_are_left_alone() -> None:
    control = replace(ALERT, cpus=tuple(range(8))).control(1)
    assert (control.keep_awake, control.busy_poll, control.client_cpus) == (False, False, None)


def test_the_largest_number_of_clients_decides_for_all_trials() -> None:
    rule = replace(SLEEPY, most=8)
    assert rule.control(1) == rule.control(8)
    assert not rule.control(1).keep_awake


def test_a_single_client_shares_a_cpu_where_even_one_that_is_awake_is_slow_to_wake() -> None:
    control = SHARING.control(1)
    assert (control.shared_cpu, control.keep_awake, control.busy_poll) == (1, False, False)
    quick = replace(SHARING, awake_us=WORTH_AVOIDING_US - 0.1).control(1)
    assert (quick.shared_cpu, quick.keep_awake) == (None, True)
    assert replace(SHARING, idle_us=None, awake_us=None).control(1).shared_cpu is None


def test_single_clients_share_a_cpu_beside_many_and_the_rest_is_alike() -> None:
    rule = replace(SHARING, most=8)
    one, many = rule.control(1), rule.control(8)
    assert (one.shared_cpu, many.shared_cpu) == (1, None)
    assert (one.keep_awake, one.busy_poll) == (many.keep_awake, many.busy_poll) == (False, False)


@pytest.mark.parametrize(
    "rule",
    [
        replace(SHARING, most=8, compared=True),
        replace(SHARING, placeable=False),
        replace(SHARING, cpus=(0,)),
        replace(SHARING, busy_poll="on"),
        replace(SHARING, share_cpu="off"),
        replace(SHARING, share_cpu=None),
    ],
)
def test_no_cpu_is_shared_where_that_would_be_unfair_or_is_not_wanted(rule: Rule) -> None:
    assert rule.control(1).shared_cpu is None


def test_a_shared_cpu_can_be_asked_for() -> None:
    control = replace(ALERT, share_cpu="on").control(1)
    assert control.shared_cpu == 1
    assert 'share_cpu = "on"' in control.reason


def test_what_the_experiment_says_holds() -> None:
    control = replace(ALERT, keep_awake="on", busy_poll="on", most=64).control(64)
    assert control.keep_awake
    assert control.busy_poll
    assert control.client_cpus is None
    assert 'keep_awake = "on"' in control.reason
    assert 'busy_poll = "on"' in control.reason


def test_without_a_measurement_nothing_is_done_by_itself() -> None:
    control = replace(SLEEPY, idle_us=None, awake_us=None).control(1)
    assert (control.keep_awake, control.busy_poll) == (False, False)
    assert "could not be measured" in control.reason


def test_connections_that_load_do_not_poll() -> None:
    rule = replace(SLEEPY, busy_poll=None, share_cpu=None, cpus=tuple(range(8)))
    control = rule.control(1)
    assert (control.keep_awake, control.busy_poll, control.client_cpus) == (True, False, None)
    assert "busy_poll" not in control.reason


settings = st.sampled_from(["auto", "on", "off"])
latencies = st.floats(0.1, 1e4)


@given(settings, settings, latencies, latencies, st.integers(1, 64), st.integers(1, 64))
def test_settings_hold_and_nothing_is_taken_from_a_server(
    keep_awake: Setting, busy_poll: Setting, idle: float, awake: float, clients: int, n_cpus: int
) -> None:
    cpus = tuple(range(n_cpus))
    rule = Rule(keep_awake, busy_poll, "auto", idle, awake, cpus, most=clients)
    control = rule.control(clients)
    for setting, done in ((keep_awake, control.keep_awake), (busy_poll, control.busy_poll)):
        if setting != "auto":
            assert done is (setting == "on")
        elif done:
            assert idle - awake >= WORTH_AVOIDING_US
            assert 2 * clients <= n_cpus
    if busy_poll == "auto" and control.busy_poll:
        assert 4 * clients <= n_cpus
    if control.shared_cpu is not None:
        assert clients == 1 < n_cpus
        assert not control.busy_poll
    if control.client_cpus is not None:
        assert control.busy_poll
        assert len(control.client_cpus) == clients <= n_cpus / 4


@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_setting_of_the_experiment_is_told_and_so_is_no_room(setting: Setting) -> None:
    reason = replace(SLEEPY, keep_awake=setting, most=8).control(8).reason
    assert f'keep_awake = "{setting}"' in reason
    assert "to spare" in reason  # busy_poll is automatic
