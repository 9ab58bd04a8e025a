"""Test which share of a difference each likely cause is ranked by."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.explain.causes.cases import (
    EXACT,
    Seen,
    case,
    named,
    suspects,
    truth,
)
from tests.unit.analysis.explain.causes.test_ranking import (
    CAUSES,
    FLUSH,
    PLAN,
    SOME_MORE_CPU,
    flushed,
)
from tests.unit.analysis.observations import Scene, Truth


def test_more_cpu_time_is_named_with_its_share_of_the_queue() -> None:
    """Three times the CPU time makes all threads queue three times as long."""
    found = suspects(*SOME_MORE_CPU, scene=Scene(clients=16, rate_hz=1e6))
    assert named(found)[0] == ("cpu", "CPU time")
    assert (found[0].share or 0.0) > 0.9
    assert re.search(r"60\d µs more a transaction, most of it in user code", found[0].sentence)
    assert re.search(r"plus an estimated 5,0\d\d µs of the queue for CPUs", found[0].sentence)


def test_cpu_time_of_which_groups_of_functions_have_less_than_most() -> None:
    scene = Scene(clients=16, rate_hz=1e6)
    groups = {"btree": (50.0, 300.0), "locking": (10.0, 60.0), "memory": (5.0, 4.0)}
    found = suspects(*SOME_MORE_CPU, scene=scene, groups=groups)
    assert named(found)[:3] == [("cpu", "CPU time"), ("cpu", "btree"), ("cpu", "locking")]
    result = r"\(250 µs for btree, 50 µs for locking and 30\d µs for all else\)"
    assert re.search(result, found[0].sentence)
    most = suspects(*SOME_MORE_CPU, scene=scene, groups={"btree": (50.0, 640.0)})
    assert named(most)[0] == ("cpu", "btree")
    assert "plus an estimated" in most[0].sentence


def test_a_queue_that_no_cpu_time_explains_is_named_whole() -> None:
    a, b = Seen(truth(runnable=200.0)), Seen(truth(runnable=900.0))
    (found,) = suspects(a, b)
    assert found.about == "queue for CPUs"
    assert found.share == pytest.approx(1, abs=0.02)


def test_the_plans_of_other_statements_are_evidence() -> None:
    def reading(name: str, **columns: Any) -> dict[str, Any]:
        return {"plans": {name: {"sql": "", "rows": [{**PLAN, **columns}], "error": None}}}

    a, b = SOME_MORE_CPU
    a = replace(a, sections=reading("covering", Extra="Using index"))
    b = replace(b, sections=reading("lookup"))
    found = suspects(a, b, scene=Scene(clients=16, rate_hz=1e6))
    assert named(found)[0] == ("cpu", "CPU time")
    assert found[0].evidence == (
        "covering (A) reads sbtest1 by index k_1 alone (Using index)",
        "lookup (B) reads sbtest1 by index k_1, and looks the row of each entry up in the table",
    )


@pytest.mark.parametrize("name", CAUSES)
def test_three_blocks_are_enough_for_a_large_effect(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.analysis.explain.causes.cases.BLOCKS", 3)
    (a, b), more, expected = CAUSES[name]
    assert named(suspects(a, b, **more))[0] == expected


@pytest.mark.parametrize("blocks", [3, 7])
def test_a_part_that_did_not_move_is_rarely_called_moved(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare a slower client, and parts that vary between trials as on busy hosts."""
    monkeypatch.setattr("tests.unit.analysis.explain.causes.cases.BLOCKS", blocks)
    source = np.random.default_rng(20_261_140)
    steady = truth(lock=40.0, log_flush=300.0, data_write=20.0, fsync=30.0, runnable=50.0)

    def noisy(result: Truth) -> Truth:
        def by(us: float) -> float:
            return us * float(source.lognormal(0, 0.2))

        return replace(
            result,
            cpu_user=by(result.cpu_user),
            cpu_system=by(result.cpu_system),
            runnable=by(result.runnable),
            waits={name: by(us) for name, us in result.waits.items()},
        )

    repeats, wrong = 100, 0
    for seed in range(repeats):
        found = case(
            Seen(steady), Seen(replace(steady, wire=1500.0)), seed=seed, scene=EXACT, noisy=noisy
        )
        wrong += bool(found.growth_us.keys() - {"client_wire"})
    assert wrong / repeats <= 0.1


def test_a_function_group_counts_where_it_differs_among_all() -> None:
    a, b = SOME_MORE_CPU
    found = case(a, b, groups={"btree": (50.0, 300.0)})
    (group,) = found.groups
    assert found.group_growth_us
    unsure = replace(found, groups=(replace(group, significant=False),))
    assert not unsure.group_growth_us


def test_a_wait_that_is_longer_than_the_locks_is_no_evidence_for_them() -> None:
    def waits(us: float) -> dict[str, Any]:
        latch = "wait/synch/rwlock/innodb/btr_search_latch"
        events = [{"name": latch, "count": 9, "wait_s": us}]
        return {"waits": {"enabled": True, "why": None, "events": events}}

    a = Seen(truth(), {"Innodb_row_lock_time": 0.0})
    b = Seen(truth(lock=50.0), {"Innodb_row_lock_time": 0.0}, waits(20.0))
    (found,) = suspects(a, b)
    assert found.evidence == ()
    assert "instruments" not in found.sentence


def test_flushes_that_overlap_are_no_prediction() -> None:
    flushes = flushed(12.0)
    a, b = (replace(each, effective={}, sections=flushes) for each in FLUSH)
    sentence = suspects(a, b)[0].sentence
    assert "took 12 s, in sum over overlapping flushes, of a trial of 3 s" in sentence
    assert "predict" not in sentence
