"""What is decided about sleeping CPUs, from what was measured and what was asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.load.wakeup import CpuWakeup
from millrace.runner.cpu_wakeup import WORTH_AVOIDING_US, Setting, decide

SLEEPY = (CpuWakeup(0, 20.0, 18.0), CpuWakeup(1, 48.0, 19.0))
ALERT = (CpuWakeup(0, 5.0, 4.5), CpuWakeup(1, 4.0, 4.0))


def test_cpus_that_wake_late_are_kept_awake() -> None:
    control = decide("auto", "auto", SLEEPY, most_clients=32, n_cpus=2)
    assert control.keep_awake
    assert not control.busy_poll
    assert "takes 48 µs to run again, one kept awake 19 µs" in control.reason
    assert "are kept awake" in control.reason


def test_cpus_that_wake_at_once_are_left_alone() -> None:
    control = decide("auto", "auto", ALERT, most_clients=1, n_cpus=8)
    assert not control.keep_awake
    assert not control.busy_poll
    assert "may sleep" in control.reason


@pytest.mark.parametrize(("clients", "polls"), [(1, True), (2, False)])
def test_clients_poll_where_cpus_must_sleep_and_there_is_room(clients: int, polls: bool) -> None:
    control = decide("off", "auto", SLEEPY, most_clients=clients, n_cpus=2)
    assert not control.keep_awake
    assert control.busy_poll is polls


def test_what_the_experiment_says_holds() -> None:
    control = decide("on", "on", ALERT, most_clients=64, n_cpus=2)
    assert control.keep_awake
    assert control.busy_poll
    assert 'keep_awake = "on"' in control.reason
    assert 'busy_poll = "on"' in control.reason


def test_without_a_measurement_nothing_is_done_by_itself() -> None:
    control = decide("auto", "auto", (), most_clients=1, n_cpus=8)
    assert (control.keep_awake, control.busy_poll) == (False, False)
    assert control.idle_wakeup_us is None
    assert "could not be measured" in control.reason


settings = st.sampled_from(["auto", "on", "off"])
latencies = st.floats(0.1, 1e4)


@given(
    settings, settings, st.lists(st.tuples(latencies, latencies), max_size=8), st.integers(1, 64)
)
def test_the_settings_that_are_no_auto_always_hold(
    keep_awake: Setting, busy_poll: Setting, measured: list[tuple[float, float]], clients: int
) -> None:
    found = [CpuWakeup(cpu, idle, awake) for cpu, (idle, awake) in enumerate(measured)]
    control = decide(keep_awake, busy_poll, found, most_clients=clients, n_cpus=8)
    if keep_awake != "auto":
        assert control.keep_awake is (keep_awake == "on")
    elif control.keep_awake:
        assert control.idle_wakeup_us is not None
        assert control.awake_wakeup_us is not None
        assert control.idle_wakeup_us - control.awake_wakeup_us >= WORTH_AVOIDING_US
    if busy_poll != "auto":
        assert control.busy_poll is (busy_poll == "on")
