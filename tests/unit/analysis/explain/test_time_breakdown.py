"""Test the time breakdown: separately measured parts, the remainder, and the differences."""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.time_breakdown import (
    BreakdownDifference,
    TimeBreakdown,
    breakdown_difference,
    time_breakdown,
    trial_breakdown,
)
from tests.support.known import known, limits
from tests.support.observed_trials import Scene, Truth, loading, seen

WAITS = {
    "lock": 8.0, "log_flush": 30.0, "log_write": 6.0, "fsync": 4.0, "data_read": 12.0,
    "page_fault": 3.0, "data_write": 5.0, "network_send": 1.0, "sleep": 2.0, "io_queue": 1.5,
    "other": 0.5,
}  # fmt: skip
TRUTH = Truth(waits=WAITS)
EXACT = Scene(rate_hz=1e6)  # enough samples to be exact

TIMES = st.floats(0.1, 100)
TRUTHS = st.builds(
    Truth,
    cpu_user=TIMES,
    cpu_system=TIMES,
    runnable=TIMES,
    waits=st.dictionaries(st.sampled_from(sorted(WAITS)), TIMES, max_size=5),
    wire=TIMES,
    gap=TIMES,
    lost=TIMES,
)


def account_of(trials: Sequence[ObservedTrial]) -> TimeBreakdown:
    return known(time_breakdown(trials))


def compared(a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]) -> BreakdownDifference:
    return known(breakdown_difference(account_of(a), account_of(b)))


def us(found: TimeBreakdown) -> dict[str, float]:
    return {part.key: part.us.mean for part in found.parts}


@pytest.mark.parametrize("clients", [1, 16])
def test_the_account_is_what_happened(clients: int) -> None:
    found = account_of([replace(EXACT, clients=clients).trial(TRUTH)])
    assert us(found) == {
        key: pytest.approx(value, abs=0.01)
        for key, value in {
            "cpu_user": 20, "cpu_system": 10, "runnable": 2, "lock": 8, "log_flush": 30,
            "log_write": 6, "fsync": 4, "data_read": 15, "data_write": 5, "network_send": 1,
            "sleep": 2, "other": 2, "client_wire": 15,
        }.items()
    }  # fmt: skip
    assert found.unaccounted.us.mean == pytest.approx(0, abs=0.01)
    assert found.latency.mean == pytest.approx(TRUTH.latency, rel=1e-4)
    assert found.cycle.mean == pytest.approx(TRUTH.cycle)
    assert known(found.gap).mean == pytest.approx(5)
    assert known(found.client_cpu).mean == pytest.approx(9)
    assert found.blocked_us() == pytest.approx(72, abs=0.01)
    assert {kind: cpu.mean for kind, cpu in found.background.items()} == {
        "log": pytest.approx(3), "purge": pytest.approx(1),
    }  # fmt: skip


def test_what_no_clock_counted_is_unaccounted_and_in_no_part() -> None:
    found = account_of([EXACT.trial(replace(TRUTH, lost=25.0))])
    assert found.unaccounted.us.mean == pytest.approx(25, abs=0.02)
    assert us(found)["client_wire"] == pytest.approx(15, abs=0.02)
    assert us(found)["cpu_user"] == pytest.approx(20)


def test_sessions_of_observers_do_not_dilute_what_clients_wait_for() -> None:
    found = account_of([replace(EXACT, clients=2, sessions=5, cached=3).trial(TRUTH)])
    assert us(found)["client_wire"] == pytest.approx(15, abs=0.05)
    assert us(found)["lock"] == pytest.approx(8, abs=0.05)


def test_loading_waits_for_rows_and_has_no_gap() -> None:
    """The client makes a row while the server waits, and this wait is part of the latency."""
    truth = Truth(cpu_user=6, cpu_system=2, runnable=0, wire=12, gap=0)
    made = loading(150_000, 3.0, EXACT.document(truth))
    trial = ObservedTrial("trial", 0, made, seen(made))
    found = account_of([trial])
    assert (found.noun, found.loop) == ("row", "load")
    assert found.latency.mean == pytest.approx(20)
    assert us(found)["client_wire"] == pytest.approx(12, abs=0.01)
    assert found.unaccounted.us.mean == pytest.approx(0, abs=0.01)


def test_client_part_is_unaccounted_in_an_open_loop() -> None:
    found = account_of([replace(EXACT, open_loop=True).trial(TRUTH)])
    assert found.loop == "open"
    assert "client and wire" in found.unknown
    assert found.gap is None
    assert found.unaccounted.us.mean == pytest.approx(15, abs=0.02)
    assert known(found.waiting_for_client).mean == pytest.approx(20, abs=0.02)
    assert "open loop" in found.notes[0]


def test_threads_of_a_pool_do_not_tell_idleness_from_waits() -> None:
    made = replace(EXACT, clients=8, serving="pool").attempt(TRUTH)
    instance = replace(made.instances[0], effective={"thread_handling": "pool-of-threads"})
    made = replace(made, instances=(instance,))
    found = account_of([ObservedTrial("trial", 0, made, seen(made, 8))])
    assert set(us(found)) == {
        "cpu_user", "cpu_system", "runnable", "log_flush", "log_write", "fsync", "data_read",
        "data_write", "network_send",
    }  # fmt: skip
    assert us(found)["log_flush"] == pytest.approx(30, abs=0.05)
    assert "pool of threads" in found.notes[0]


def test_what_is_missing_is_unknown_and_not_nothing() -> None:
    document = {name: part for name, part in EXACT.document(TRUTH).items() if name != "states"}
    for thread in document["threads"]["threads"]:
        thread["runnable_s"] = None
    found = account_of([EXACT.trial(TRUTH, document=document)])
    assert us(found) == {"cpu_user": pytest.approx(20), "cpu_system": pytest.approx(10)}
    assert found.unaccounted.us.mean == pytest.approx(TRUTH.latency - 30, abs=0.01)
    assert "ready, but no CPU free" in found.unknown
    assert found.blocked_us() is None


def test_trials_are_left_out_when_less_was_observed() -> None:
    bare = EXACT.trial(TRUTH, block=2, document={"window_s": 2.0})
    found = account_of([EXACT.trial(TRUTH), EXACT.trial(TRUTH, block=1), bare])
    assert [trial.block for trial in found.trials] == [0, 1]
    assert "1 trial left out, with fewer observations" in found.notes[0]


def test_no_account_without_a_latency() -> None:
    trial = EXACT.trial(TRUTH)
    made = replace(trial.attempt, histograms=())
    assert time_breakdown([]) is None
    assert time_breakdown([ObservedTrial("trial", 0, made, seen(made))]) is None


def test_errors_are_noted() -> None:
    trial = EXACT.trial(TRUTH)
    failed = replace(trial.observed, work=replace(trial.observed.work, failed=0.05))
    assert "5 % of the transactions" in account_of([replace(trial, observed=failed)]).notes[0]


def test_differences_are_paired_and_the_largest_comes_first() -> None:
    """Blocks differ threefold, the two servers by the same in each."""
    drift = (1.0, 1.5, 3.0)
    slower = replace(TRUTH, cpu_user=40.0, waits={**WAITS, "lock": 9.0})
    found = compared(
        [EXACT.trial(TRUTH.times(d), block) for block, d in enumerate(drift)],
        [EXACT.trial(slower.times(d), block) for block, d in enumerate(drift)],
    )
    assert found.blocks == (0, 1, 2)
    assert [line.key for line in found.lines[:2]] == ["cpu_user", "lock"]
    assert found.lines[0].difference.mean == pytest.approx(20 * np.mean(drift))
    assert found.latency.mean == pytest.approx(21 * np.mean(drift), rel=1e-3)
    assert found.unaccounted.significant is False
    assert found.unaccounted.adjusted_p is None


def test_only_blocks_that_both_have_are_compared() -> None:
    assert breakdown_difference(
        account_of([EXACT.trial(TRUTH, 0)]), account_of([EXACT.trial(TRUTH, 1)])
    ) is (None)
    found = compared(
        [EXACT.trial(TRUTH, block) for block in (0, 1, 2)],
        [EXACT.trial(TRUTH, block) for block in (2, 3)],
    )
    assert found.blocks == (2,)
    assert found.lines[0].difference.low is None
    assert not any(line.significant for line in found.lines)


def test_part_is_not_compared_when_one_side_has_none() -> None:
    document = {name: part for name, part in EXACT.document(TRUTH).items() if name != "states"}
    a, b = account_of([EXACT.trial(TRUTH)]), account_of([EXACT.trial(TRUTH, document=document)])
    found = known(breakdown_difference(a, b))
    assert {line.key for line in found.lines} == {"cpu_user", "cpu_system", "runnable"}
    assert found.unaccounted.difference.mean == pytest.approx(0, abs=1e-6)
    assert "client and wire" in found.unknown


def noisy(
    truth: Truth, blocks: int, source: np.random.Generator, spread: float, scene: Scene
) -> list[ObservedTrial]:
    return [
        replace(scene, source=source).trial(truth.times(source.lognormal(0, spread)), block)
        for block in range(blocks)
    ]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(TRUTHS, TRUTHS), min_size=1, max_size=4), st.integers(0, 2**32))
def test_parts_and_what_is_left_are_the_difference_of_latencies(
    blocks: list[tuple[Truth, Truth]], seed: int
) -> None:
    scene = Scene(source=np.random.default_rng(seed))
    a = [scene.trial(truth, block) for block, (truth, _) in enumerate(blocks)]
    b = [scene.trial(truth, block) for block, (_, truth) in enumerate(blocks)]
    for trials in (a, b):
        of_side = account_of(trials)
        parts = math.fsum(part.us.mean for part in of_side.parts)
        assert parts + of_side.unaccounted.us.mean == pytest.approx(of_side.latency.mean)
    found = compared(a, b)
    result = math.fsum(line.difference.mean for line in found.lines)
    assert result + found.unaccounted.difference.mean == pytest.approx(found.latency.mean, abs=1e-6)
    mean_latencies = np.mean([t.observed.work.latency_s or 0 for t in b]) - np.mean(
        [t.observed.work.latency_s or 0 for t in a]
    )
    assert found.latency.mean == pytest.approx(1e6 * mean_latencies, abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(TRUTHS, min_size=2, max_size=4), st.floats(0.1, 50))
def test_a_host_that_is_so_many_times_slower_has_so_many_times_the_parts(
    truths: list[Truth], factor: float
) -> None:
    one, other = (
        account_of([EXACT.trial(truth.times(f), block) for block, truth in enumerate(truths)])
        for f in (1.0, factor)
    )
    for part, scaled in zip(one.parts, other.parts, strict=True):
        assert scaled.us.mean == pytest.approx(part.us.mean * factor, rel=1e-6, abs=1e-2 * factor)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(TRUTHS, TRUTHS), min_size=2, max_size=5), st.randoms())
def test_the_order_of_blocks_does_not_matter(
    blocks: list[tuple[Truth, Truth]], source: Random
) -> None:
    a = [EXACT.trial(truth, block) for block, (truth, _) in enumerate(blocks)]
    b = [EXACT.trial(truth, block) for block, (_, truth) in enumerate(blocks)]
    order = list(range(len(blocks)))
    source.shuffle(order)
    one, other = compared(a, b), compared([a[n] for n in order], [b[n] for n in order])
    for line in one.lines:
        again = next(each for each in other.lines if each.key == line.key)
        assert again.difference.mean == pytest.approx(line.difference.mean, abs=1e-9)
        assert again.significant == line.significant


@settings(deadline=None)
@given(TRUTHS, TRUTHS)
def test_turned_around_every_difference_changes_its_sign(one: Truth, other: Truth) -> None:
    a, b = [EXACT.trial(one)], [EXACT.trial(other)]
    there = {line.key: line.difference.mean for line in compared(a, b).lines}
    back = {line.key: line.difference.mean for line in compared(b, a).lines}
    assert back == {key: pytest.approx(-value) for key, value in there.items()}


@pytest.mark.parametrize("blocks", [3, 8])
@pytest.mark.parametrize(
    "truth",
    [
        TRUTH,
        Truth(waits={"lock": 0.4, "log_flush": 0.1, "sleep": 0.05, "other": 0.2}),  # seen rarely
    ],
)
def test_parts_of_equal_servers_rarely_differ(blocks: int, truth: Truth) -> None:
    """Test any part of the breakdown, in one comparison of 20 at most.

    Where it is one of 20, the limit is passed in 1 of 140 tests."""
    source = np.random.default_rng(20_261_126)
    repeats, marked = 120, 0
    for _ in range(repeats):
        found = compared(
            noisy(truth, blocks, source, 0.02, Scene()), noisy(truth, blocks, source, 0.02, Scene())
        )
        marked += any(line.significant for line in found.lines)
    assert marked / repeats <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)


def test_what_differs_is_found_and_what_does_not_is_not() -> None:
    """With half more CPU time and 16 clients, the part is named first in most comparisons."""
    source = np.random.default_rng(20_261_127)
    slower = replace(TRUTH, cpu_user=30.0, waits={**WAITS, "log_flush": 45.0})
    scene = Scene(clients=16)
    repeats, named, wrong = 60, 0, 0
    for _ in range(repeats):
        found = compared(
            noisy(TRUTH, 5, source, 0.01, scene), noisy(slower, 5, source, 0.01, scene)
        )
        marked = {line.key for line in found.lines if line.significant}
        named += found.lines[0].key == "log_flush" and found.lines[1].key == "cpu_user"
        named += {"log_flush", "cpu_user"} <= marked
        wrong += bool(marked - {"log_flush", "cpu_user"})
    assert named / (2 * repeats) > 0.9
    assert wrong / repeats <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize("blocks", [3, 8])
def test_intervals_of_parts_hold_as_often_as_claimed(blocks: int) -> None:
    source = np.random.default_rng(20_261_128)
    repeats = 120
    held = dict.fromkeys(("cpu_user", "log_flush", "client_wire", "unaccounted"), 0)
    expected = {"cpu_user": 20.0, "log_flush": 30.0, "client_wire": 15.0, "unaccounted": 0.0}
    scene = Scene(clients=4)
    for _ in range(repeats):
        found = account_of(noisy(TRUTH, blocks, source, 0.01, scene))
        for part in (*found.parts, found.unaccounted):
            if part.key in held:
                low, high = limits(part.us)
                held[part.key] += low <= expected[part.key] <= high
    for count in held.values():
        assert count / repeats >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / repeats)


def test_unaccounted_time_has_the_counting_error_of_its_parts() -> None:
    """In an open loop no part contains waits for clients, so their share is in the error."""
    closed, opened = (trial_breakdown(Scene(open_loop=loop).trial(TRUTH)) for loop in (False, True))
    assert closed is not None
    errors = [result.left(list(result.parts)).error_us for result in (closed, known(opened))]
    running, waiting = (TRUTH.shares()[name] for name in ("running", "network"))
    for error, share in zip(errors, (running, running + waiting), strict=True):
        expected = TRUTH.cycle * math.sqrt(share * (1 - share) / 300)
        assert error == pytest.approx(expected, rel=0.02)
    assert closed.left(["cpu_user"]).error_us == 0


def in_slices(ready_outside_us: float, scene: Scene = EXACT) -> ObservedTrial:
    """Return a trial in whose transactions clients of another server worked for 100 µs.

    The thread is ready without a CPU for a part of that time, after it has answered.
    """
    truth = replace(
        TRUTH, runnable=TRUTH.runnable + ready_outside_us, gap=TRUTH.gap + 100.0 - ready_outside_us
    )
    trial = scene.trial(truth)
    work = trial.observed.work
    work = replace(
        work,
        duration_s=work.elapsed_s * TRUTH.cycle / truth.cycle,
        latency_s=TRUTH.latency * 1e-6,
        gap_s=TRUTH.gap * 1e-6,
    )
    return replace(trial, observed=replace(trial.observed, work=work))


@pytest.mark.parametrize("ready_outside_us", [0.0, 40.0, 90.0])
def test_time_ready_while_other_servers_work_is_no_time_of_an_operation(
    ready_outside_us: float,
) -> None:
    trial = in_slices(ready_outside_us)
    assert trial.observed.others_turn_us == pytest.approx(100.0)
    found = account_of([trial])
    # Waits for the client cannot be separated from time ready for a CPU.
    in_excess = max(ready_outside_us - 15.0, 0.0)
    assert us(found)["client_wire"] == pytest.approx(15.0 - ready_outside_us + in_excess, abs=0.1)
    assert us(found)["runnable"] == pytest.approx(2.0 + ready_outside_us - in_excess, abs=0.1)
    assert found.unaccounted.us.mean == pytest.approx(0.0, abs=0.1)


def test_time_ready_is_left_alone_within_the_error_of_counting() -> None:
    (few,) = account_of([in_slices(17.0, Scene(rate_hz=50.0))]).trials
    assert few.parts["client_wire"].us < 0
    assert few.parts["runnable"].us == pytest.approx(19.0, abs=0.1)
    alone = replace(EXACT.trial(TRUTH))
    waited = replace(alone.observed.work, gap_s=60e-6)  # no other server took a turn
    parts = account_of([replace(alone, observed=replace(alone.observed, work=waited))]).trials[0]
    assert parts.parts["client_wire"].us == pytest.approx(-40.0, abs=0.1)
    assert parts.parts["runnable"].us == pytest.approx(2.0, abs=0.1)


def test_part_below_zero_is_of_the_side_that_it_is_beyond_chance() -> None:
    def trials(gap_us: float) -> list[ObservedTrial]:
        found = []
        for block in range(4):
            made = EXACT.trial(TRUTH.times(1 + 0.01 * block), block)
            work = replace(made.observed.work, gap_s=gap_us * 1e-6)
            found.append(replace(made, observed=replace(made.observed, work=work)))
        return found

    lines = {line.key: line.below_zero for line in compared(trials(60.0), trials(5.0)).lines}
    assert lines.pop("client_wire") == (True, False)
    assert set(lines.values()) == {(False, False)}
