"""Test that profiles share out the CPU time that was measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.profiles import (
    compare_profiles,
    flat_profile,
    spinning_us,
)
from tests.unit.analysis.explain.test_profiles import (
    INSERT,
    ROOT,
    compared,
    measured,
    trial,
    with_costs,
)
from tests.unit.analysis.observations import Scene, Truth


def test_costs_are_shares_of_the_time_that_was_measured() -> None:
    """Profiled trials took twice as long: they only give shares."""
    a = [trial(INSERT, block, faster=0.5) for block in range(2)]
    b = [trial(with_costs(malloc=9.0), block, faster=0.4) for block in range(2)]
    of_a, of_b = measured([27, 28, 29]), measured([34, 35, 36])
    found = compare_profiles(a, b, measured=(of_a, of_b))
    assert found is not None
    assert found.a_cpu_us == pytest.approx(28)
    assert found.b_cpu_us == pytest.approx(35)
    assert math.fsum(each.difference.mean for each in found.groups) == pytest.approx(7)
    memory = found.group("memory")
    assert memory is not None
    assert memory.difference.mean == pytest.approx(7, abs=0.01)
    assert found.tree.b_us == pytest.approx(35)
    flat = flat_profile(b, of_b)
    assert flat is not None
    assert flat.cpu_us == pytest.approx(35)
    assert sum(line.us for line in flat.lines) == pytest.approx(35)
    assert spinning_us(a, of_a) == pytest.approx(2, abs=0.01)


def test_an_interval_has_the_error_of_the_time_in_it() -> None:
    sides = [[trial(INSERT, block) for block in range(3)] for _ in range(2)]
    steady = compare_profiles(*sides, measured=(measured([28.0] * 4), measured([30.0] * 4)))
    uneven = compare_profiles(*sides, measured=(measured([28.0] * 4), measured([20, 40, 25, 35])))
    assert steady is not None
    assert uneven is not None
    widths = []
    for found in (steady, uneven):
        btree = next(each for each in found.groups if each.name == "btree").difference
        assert btree.low is not None
        assert btree.high is not None
        widths.append(btree.high - btree.low)
    assert uneven.cpu.low is not None
    assert uneven.cpu.high is not None
    # B-tree code is 6 of 28 µs, and has the same share of the error.
    whole = uneven.cpu.high - uneven.cpu.low
    assert widths[1] == pytest.approx(whole * 6 / 28, rel=0.05)
    assert widths[0] < widths[1] / 3


def test_a_profile_without_the_kernel_shares_the_time_in_user_code() -> None:
    scene = Scene()
    truth = Truth(cpu_user=20, cpu_system=10, background={})

    def without_kernel(block: int) -> ObservedTrial:
        profile = {"stacks": {f"{ROOT};mysqld`MYSQLparse": 600}, "with_kernel": False}
        return scene.trial(truth, block, {**scene.document(truth), "profile": profile})

    trials = [without_kernel(block) for block in range(2)]
    found = compared(trials, trials)
    assert found.user_only
    assert found.a_cpu_us == pytest.approx(20)
    flat = flat_profile(trials)
    assert flat is not None
    assert flat.user_only
    assert flat.cpu_us == pytest.approx(20)
    assert compare_profiles(trials, [trial(INSERT, block) for block in range(2)]) is None


def test_a_function_that_costs_more_is_marked_and_comes_first() -> None:
    source = np.random.default_rng(20_261_132)
    dearer = with_costs(MYSQLparse=6.0)
    a = [trial(INSERT, block, source=source) for block in range(5)]
    b = [trial(dearer, block, source=source) for block in range(5)]
    found = compared(a, b)
    assert (found.functions[0].name, found.functions[0].significant) == ("MYSQLparse", True)
    assert found.groups[0].name == "parser"
    assert found.groups[0].significant
    assert sum(each.significant for each in found.functions) == 1
