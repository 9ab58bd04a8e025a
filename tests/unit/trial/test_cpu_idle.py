"""Test the decision on CPU idle states, from measurements and options."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.loadgen.cpu_idle import IdleLatency
from millrace.trial.cpu_idle import WORTH_AVOIDING_US, CpuIdlePolicy, slowest
from millrace.workloads.settings import Switch

SLEEPY = CpuIdlePolicy("auto", "auto", "off", 48.0, 19.0, (0, 1), most_clients=1)
SHARING = replace(SLEEPY, colocate_client="auto")
ALERT = replace(SLEEPY, idle_us=5.0, awake_us=4.5)
EIGHT = tuple(range(8))


def test_the_slowest_cpu_counts() -> None:
    assert slowest((IdleLatency(0, 20.0, 18.0), IdleLatency(1, 48.0, 19.0))) == (48.0, 19.0)
    assert slowest(()) == (None, None)


@pytest.mark.parametrize(
    ("changed", "expected", "reason"),
    [
        ({}, (True, False, None), "takes 48 µs to run again, one kept awake 19 µs"),
        ({"cpus": EIGHT, "most_clients": 2}, (True, True, (6, 7)), ""),
        ({"cpus": EIGHT, "most_clients": 3}, (True, False, None), ""),
        ({"most_clients": 8}, (False, False, None), "8 clients leave none of the 2 CPUs to spare"),
        ({"cpus": EIGHT, "idle_us": 5.0, "awake_us": 4.5}, (False, False, None), ""),
        ({"idle_us": None, "awake_us": None}, (False, False, None), "could not be measured"),
        ({"cpus": EIGHT, "busy_poll": None, "colocate_client": None}, (True, False, None), ""),
    ],
    ids=[
        "each client leaves a CPU to the server", "the server has three times as many",
        "the server has less than that", "no CPU is left", "CPUs wake at once", "nothing is known",
        "connections load",
    ],
)  # fmt: skip
def test_cpus_are_kept_awake_and_polled_where_they_are_to_spare(
    changed: dict[str, Any], expected: tuple[bool, bool, tuple[int, ...] | None], reason: str
) -> None:
    policy = replace(SLEEPY, **changed)
    chosen = policy.settings(policy.most_clients)
    assert (chosen.disable_idle_states, chosen.busy_poll, chosen.client_cpus) == expected
    assert reason in chosen.reason
    assert policy.busy_poll is not None or "busy_poll" not in chosen.reason


def test_the_largest_number_of_clients_decides_for_all_trials() -> None:
    policy = replace(SLEEPY, most_clients=8)
    assert policy.settings(1) == policy.settings(8)
    assert not policy.settings(1).disable_idle_states


def test_a_single_client_shares_a_cpu_where_even_one_that_is_awake_is_slow_to_wake() -> None:
    chosen = SHARING.settings(1)
    assert (chosen.shared_cpu, chosen.disable_idle_states, chosen.busy_poll) == (1, False, False)
    quick = replace(SHARING, awake_us=WORTH_AVOIDING_US - 0.1).settings(1)
    assert (quick.shared_cpu, quick.disable_idle_states) == (None, True)
    assert replace(SHARING, idle_us=None, awake_us=None).settings(1).shared_cpu is None


def test_cpus_stay_awake_for_the_threads_that_a_write_waits_for() -> None:
    chosen = replace(SHARING, writes=True).settings(1)
    assert (chosen.shared_cpu, chosen.disable_idle_states, chosen.busy_poll) == (1, True, False)
    assert not replace(SHARING, writes=True, most_clients=8).settings(1).disable_idle_states


def test_single_clients_share_a_cpu_beside_many_and_the_rest_is_alike() -> None:
    policy = replace(SHARING, most_clients=8)
    one, many = policy.settings(1), policy.settings(8)
    assert (one.shared_cpu, many.shared_cpu) == (1, None)
    assert (
        (one.disable_idle_states, one.busy_poll)
        == (many.disable_idle_states, many.busy_poll)
        == (False, False)
    )


@pytest.mark.parametrize(
    "policy",
    [
        replace(SHARING, most_clients=8, compares_clients=True),
        replace(SHARING, places_threads=False),
        replace(SHARING, cpus=(0,)),
        replace(SHARING, busy_poll="on"),
        replace(SHARING, colocate_client="off"),
        replace(SHARING, colocate_client=None),
    ],
)
def test_no_cpu_is_shared_where_that_would_be_unfair_or_is_not_wanted(
    policy: CpuIdlePolicy,
) -> None:
    assert policy.settings(1).shared_cpu is None


def test_shared_cpu_can_be_requested() -> None:
    chosen = replace(ALERT, colocate_client="on").settings(1)
    assert chosen.shared_cpu == 1
    assert 'colocate_client = "on"' in chosen.reason


def test_experiment_setting_wins() -> None:
    chosen = replace(ALERT, disable_idle_states="on", busy_poll="on", most_clients=64).settings(64)
    assert chosen.disable_idle_states
    assert chosen.busy_poll
    assert chosen.client_cpus is None
    assert 'disable_idle_states = "on"' in chosen.reason
    assert 'busy_poll = "on"' in chosen.reason


any_setting = st.sampled_from(["auto", "on", "off"])
latencies = st.floats(0.1, 1e4)


@given(
    any_setting, any_setting, latencies, latencies, st.integers(1, 64), st.integers(1, 64),
    st.booleans(),
)  # fmt: skip
def test_settings_hold_and_nothing_is_taken_from_a_server(
    disable_idle_states: Switch,
    busy_poll: Switch,
    idle: float,
    awake: float,
    clients: int,
    n_cpus: int,
    in_slices: bool,
) -> None:
    cpus = tuple(range(n_cpus))
    policy = CpuIdlePolicy(
        disable_idle_states, busy_poll, "auto", idle, awake, cpus, most_clients=clients
    )
    chosen = policy.settings(clients, in_slices=in_slices)
    for setting, done in (
        (disable_idle_states, chosen.disable_idle_states),
        (busy_poll, chosen.busy_poll),
    ):
        if setting != "auto":
            assert done is (setting == "on")
        elif done:
            assert idle - awake >= WORTH_AVOIDING_US
            assert 2 * clients <= n_cpus
    if busy_poll == "auto" and chosen.busy_poll:
        assert 4 * clients <= n_cpus
    if chosen.shared_cpu is not None:
        assert clients == 1 < n_cpus
        assert not chosen.busy_poll
    if chosen.server_cpus is not None:
        assert in_slices
        assert clients > 1
        assert (chosen.server_cpus, chosen.client_cpus) == (cpus, cpus[-1:])
    elif chosen.client_cpus is not None:
        assert chosen.busy_poll
        assert len(chosen.client_cpus) == clients <= n_cpus / 4


@pytest.mark.parametrize("setting", ["on", "off"])
def test_reasons_name_settings_and_missing_cpus(setting: Switch) -> None:
    reason = replace(SLEEPY, disable_idle_states=setting, most_clients=8).settings(8).reason
    assert f'disable_idle_states = "{setting}"' in reason
    assert "to spare" in reason  # busy_poll is automatic


@pytest.mark.parametrize(
    ("changed", "server_cpus"),
    [
        ({}, (0, 1)),
        ({"colocate_client": "off"}, None),
        ({"places_threads": False}, None),
        ({"busy_poll": "on"}, None),
        ({"cpus": (1,)}, None),
    ],
)
def test_threads_of_several_clients_are_pinned_in_slices(
    changed: dict[str, Any], server_cpus: tuple[int, ...] | None
) -> None:
    policy = replace(SLEEPY, **{"colocate_client": "auto", "most_clients": 8, **changed})
    assert policy.settings(8, in_slices=True).server_cpus == server_cpus
    assert policy.settings(8).server_cpus is None
    assert policy.settings(1, in_slices=True).server_cpus is None
