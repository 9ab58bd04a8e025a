"""Test splitting the CPUs of a host into two partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import UserError
from millrace.host.cpuset import core_of, partition
from tests.unit.host.host_trees import CPU, plant, topology

TOPOLOGIES = st.dictionaries(
    st.integers(0, 63), st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=2, max_size=24
)


@given(TOPOLOGIES)
def test_halves_are_alike_and_share_no_cpu(cores: dict[int, tuple[int, int]]) -> None:
    first, second = partition(cores.keys(), cores.__getitem__)
    assert (first.side, second.side) == (0, 1)
    assert len(first.cpus) == len(second.cpus) >= 1
    assert not set(first.cpus) & set(second.cpus)
    assert {*first.cpus, *second.cpus} <= cores.keys()
    if len(set(cores.values())) > 1:
        assert not {cores[cpu] for cpu in first.cpus} & {cores[cpu] for cpu in second.cpus}


def of_tree(root: Path, cpus: int, *, packages: int, threads: int) -> list[tuple[int, ...]]:
    tree = topology(cpus, packages=packages, threads_per_core=threads)
    place = plant(root, tree) / CPU
    return [half.cpus for half in partition(range(cpus), lambda cpu: core_of(cpu, place))]


def test_threads_of_a_core_and_cores_of_a_package_stay_together(tmp_path: Path) -> None:
    assert of_tree(tmp_path / "vm", 2, packages=1, threads=1) == [(0,), (1,)]
    assert of_tree(tmp_path / "laptop", 8, packages=1, threads=2) == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert of_tree(tmp_path / "server", 16, packages=2, threads=2) == [
        (0, 1, 2, 3, 8, 9, 10, 11),
        (4, 5, 6, 7, 12, 13, 14, 15),
    ]
    # Of three cores one is in neither half.
    assert of_tree(tmp_path / "odd", 6, packages=1, threads=2) == [(0, 3), (2, 5)]
    # Only the threads of a single core are available.
    assert of_tree(tmp_path / "small", 2, packages=1, threads=2) == [(0,), (1,)]


def test_a_kernel_that_says_nothing_of_cores_has_a_core_a_cpu(tmp_path: Path) -> None:
    assert core_of(3, tmp_path) == (-1, 3)


def test_a_single_cpu_is_refused_with_a_remedy() -> None:
    with pytest.raises(UserError, match="only one CPU") as refused:
        partition([4], lambda _cpu: (0, 0))
    assert "--interleaved" in (refused.value.hint or "")
