"""Test profiles as cost: functions, groups and call paths of an operation, and changes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.analysis.explain.call_tree import CallNode
from millrace.analysis.explain.observations import ObservedTrial
from millrace.analysis.explain.profiles import (
    FunctionDifference,
    ProfileComparison,
    compare_profiles,
    flat_profile,
    spinning_us,
)
from tests.support.known import known, limits
from tests.support.observed_trials import Scene, Truth

# µs of an operation by stack, for a server that inserts rows.
ROOT = "connection;mysqld`handle_one_connection;mysqld`dispatch_command"
INSERT: Mapping[str, float] = {
    f"{ROOT}": 1.0,
    f"{ROOT};mysqld`MYSQLparse": 4.0,
    f"{ROOT};mysqld`MYSQLparse;libc.so`malloc": 2.0,
    f"{ROOT};mysqld`mysql_insert": 2.0,
    f"{ROOT};mysqld`mysql_insert;mysqld`ha_innobase::write_row": 3.0,
    f"{ROOT};mysqld`mysql_insert;mysqld`ha_innobase::write_row;mysqld`row_ins_step": 6.0,
    f"{ROOT};mysqld`mysql_insert;mysqld`ha_innobase::write_row;mysqld`ut_delay": 2.0,
    f"{ROOT};mysqld`vio_write;[kernel]`unix_stream_sendmsg;[kernel]`_raw_spin_lock": 5.0,
    "log;mysqld`log_writer;mysqld`ut_delay": 3.0,
}
ALONE = Truth()


def trial(
    costs: Mapping[str, float],
    block: int = 0,
    *,
    samples: float = 20_000,
    source: np.random.Generator | None = None,
    faster: float = 1.0,
    call_graph: str = "fp",
) -> ObservedTrial:
    """Return a profiled trial; ``faster`` divides all costs."""
    total = sum(costs.values())
    truth = Truth(cpu_user=total / faster, cpu_system=0.0, background={})
    chances = np.asarray(list(costs.values())) / total
    counts = (
        np.round(chances * samples)
        if source is None
        else source.multinomial(source.poisson(samples), chances)
    )
    profile: dict[str, Any] = {
        "event": "cpu-clock",
        "frequency_hz": 999,
        "call_graph": call_graph,
        "samples": int(counts.sum()),
        "lost": 1,
        "seconds": 3.0,
        "stacks": {stack: int(count) for stack, count in zip(costs, counts, strict=True) if count},
    }
    scene = Scene()
    return scene.trial(truth, block, {**scene.document(truth), "profile": profile})


def compared(a: Sequence[ObservedTrial], b: Sequence[ObservedTrial]) -> ProfileComparison:
    return known(compare_profiles(a, b))


def function(found: ProfileComparison, name: str) -> FunctionDifference:
    return next(each for each in found.functions if each.name == name)


def nodes(node: CallNode) -> Iterator[CallNode]:
    yield node
    for callee in node.children:
        yield from nodes(callee)


def with_costs(**changed: float) -> dict[str, float]:
    """Return INSERT with other costs of the stacks that end in these functions."""
    return {
        stack: changed.get(stack.rpartition("`")[2].replace("::", "_"), us)
        for stack, us in INSERT.items()
    }


def test_a_functions_cost_is_its_share_of_the_servers_cpu_of_an_operation() -> None:
    found = compared([trial(INSERT)], [trial(INSERT, faster=2.0)])
    assert found.a_cpu_us == pytest.approx(28)
    assert found.b_cpu_us == pytest.approx(14)
    parse = function(found, "MYSQLparse")
    assert parse.a_us == pytest.approx(4, abs=0.01)
    assert parse.b_us == pytest.approx(2, abs=0.01)  # the same share of half of the time
    assert parse.a_inclusive_us == pytest.approx(6, abs=0.01)
    assert (parse.module, parse.kernel, parse.group) == ("mysqld", False, "parser")


def test_a_recursive_function_counts_each_sample_once() -> None:
    stack = "connection;mysqld`f;mysqld`g;mysqld`f"
    found = compared([trial({stack: 10.0})], [trial({stack: 10.0})])
    assert function(found, "f").a_inclusive_us == pytest.approx(10)
    assert function(found, "g").a_inclusive_us == pytest.approx(10)


def test_the_tree_has_both_widths_and_adds_up() -> None:
    other = {**with_costs(MYSQLparse=8.0), "purge;mysqld`row_purge": 1.0}
    found = compared([trial(INSERT), trial(INSERT, 1)], [trial(other), trial(other, 1)])
    tree = found.tree
    assert tree.a_us == pytest.approx(28)
    assert tree.b_us == pytest.approx(33)
    assert [kind.name for kind in tree.children] == ["connection", "log", "purge"]
    parse = next(node for node in nodes(tree) if node.name == "MYSQLparse")
    assert parse.a_us == pytest.approx(6, abs=0.01)
    assert parse.b_us == pytest.approx(10, abs=0.01)
    assert parse.module == "mysqld"
    for node in nodes(tree):
        assert sum(callee.a_us for callee in node.children) <= node.a_us + 1e-9
        assert sum(callee.b_us for callee in node.children) <= node.b_us + 1e-9
    purge = next(kind for kind in tree.children if kind.name == "purge")
    assert purge.a_us == 0


def test_stacks_deeper_than_pythons_own() -> None:
    deep = "connection;" + ";".join(f"mysqld`f{n}" for n in range(3_000))
    node = compared([trial({deep: 1.0})], [trial({deep: 1.0})]).tree
    depth = 0
    while node.children:
        (node,) = node.children
        depth += 1
    assert depth == 1 + 1_024  # what is deeper is part of the last


def test_groups_are_the_sum_of_their_functions_and_tell_who_serves_clients() -> None:
    found = compared([trial(INSERT)], [trial(with_costs(malloc=5.0))])
    groups = {group.name: group for group in found.groups}
    assert found.groups[0].name == "memory"
    assert groups["memory"].difference.mean == pytest.approx(3, abs=0.01)
    assert groups["memory"].title == "memory allocation"
    assert groups["kernel_network"].a_us == pytest.approx(5, abs=0.01)
    assert groups["kernel_network"].kernel
    spinning = known(found.group("spinning"))
    assert spinning.a_us == pytest.approx(5, abs=0.01)
    assert spinning.a_foreground_us == pytest.approx(2, abs=0.01)
    assert found.group("encryption") is None
    assert sum(group.a_us for group in found.groups) == pytest.approx(28)
    assert spinning_us([trial(INSERT)]) == pytest.approx(2, abs=0.01)
    assert spinning_us([Scene().trial(ALONE)]) is None


def test_a_flat_profile_is_as_profilers_print_it() -> None:
    found = known(flat_profile([trial(INSERT, samples=2_800), trial(INSERT, 1, samples=2_800)]))
    assert (found.trials, found.samples, found.lost, found.event) == (2, 5_600, 2, "cpu-clock")
    first = found.lines[0]
    assert (first.samples, first.library, first.symbol) == (1_200, "mysqld", "row_ins_step")
    assert first.percent == pytest.approx(100 * 6 / 28)
    assert first.us == pytest.approx(6)
    assert sum(line.percent for line in found.lines) == pytest.approx(100)
    assert found.runs == 2  # a document without the number counts as one run
    assert flat_profile([Scene().trial(ALONE)]) is None


def test_call_paths_are_separate_and_add_up_to_the_cpu_time() -> None:
    """Only the more expensive call path of a function that has two callers differs."""
    spun = f"{ROOT};mysqld`mysql_insert;mysqld`ha_innobase::write_row;mysqld`ut_delay"
    source = np.random.default_rng(7)
    dearer = {**INSERT, spun: 6.0}
    sides = [[trial(costs, block, source=source) for block in range(4)]
             for costs in (INSERT, dearer)]  # fmt: skip
    found = compared(*sides)
    first, *others = found.paths
    assert ";".join(first.path) == spun
    assert first.difference.mean == pytest.approx(4, abs=0.3)
    assert first.significant
    assert not any(each.significant for each in others if "ut_delay" in each.path[-1])
    for side in ("a_us", "b_us"):
        total = math.fsum(getattr(each, side) for each in found.paths)
        assert total == pytest.approx(getattr(found, side.replace("_us", "_cpu_us")))


def test_one_block_has_the_interval_of_its_samples_and_marks_nothing() -> None:
    found = compared([trial(INSERT)], [trial(with_costs(MYSQLparse=8.0))])
    assert found.by == "samples"
    parse = found.functions[0]
    assert parse.name == "MYSQLparse"
    low, high = limits(parse.difference)
    assert 3.7 < low < 4 < high < 4.3
    assert (parse.adjusted_p, parse.significant) == (None, False)


def test_only_blocks_that_both_have_are_compared() -> None:
    found = compared([trial(INSERT, 0), trial(INSERT, 1)], [trial(INSERT, 1), trial(INSERT, 2)])
    assert found.blocks == (1,)
    assert compare_profiles([trial(INSERT, 0)], [trial(INSERT, 1)]) is None
    assert compare_profiles([], [trial(INSERT)]) is None


def test_functions_without_names_are_apart_by_library() -> None:
    stacks = {"connection;mysqld`[unknown]": 1.0, "connection;libc.so`[unknown]": 2.0,
              "connection;[kernel]`[unknown]": 3.0}  # fmt: skip
    found = compared([trial(stacks)], [trial(stacks)])
    assert sorted(each.name for each in found.functions) == [
        "[unknown]", "[unknown] in libc.so", "[unknown] in mysqld",
    ]  # fmt: skip


def test_the_servers_program_may_have_another_name() -> None:
    renamed = {stack.replace("mysqld`", "mariadbd`"): us for stack, us in INSERT.items()}
    found = compared([trial(INSERT)], [trial(renamed)])
    assert all(abs(each.difference.mean) < 0.01 for each in found.functions)


# Renamed, inlined, gone.


def three(costs: Mapping[str, float], seed: int) -> list[ObservedTrial]:
    source = np.random.default_rng(seed)
    return [trial(costs, block, source=source) for block in range(3)]


def renamed(before: str, after: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for stack, us in INSERT.items():
        changed = stack.replace(before, after)
        found[changed] = found.get(changed, 0.0) + us
    return found


def test_a_function_with_another_name_is_no_gain_and_no_loss() -> None:
    found = compared(three(INSERT, 1), three(renamed("row_ins_step", "row_ins"), 2))
    expected = "renamed or inlined under ha_innobase::write_row"
    assert function(found, "row_ins_step").shifted == expected
    assert function(found, "row_ins").shifted == expected
    assert {each.name for each in found.functions if each.shifted} == {"row_ins", "row_ins_step"}


def test_a_function_that_was_put_into_its_caller_is_no_gain_and_no_loss() -> None:
    found = compared(three(INSERT, 1), three(renamed(";mysqld`row_ins_step", ""), 2))
    assert function(found, "row_ins_step").shifted == (
        "renamed or inlined under ha_innobase::write_row"
    )
    caller = function(found, "ha_innobase::write_row")
    assert caller.shifted == "with or without inlined row_ins_step"
    assert caller.difference.mean == pytest.approx(6, abs=0.5)
    back = compared(three(renamed(";mysqld`row_ins_step", ""), 1), three(INSERT, 2))
    assert function(back, "ha_innobase::write_row").shifted == (
        "with or without inlined row_ins_step"
    )


def test_two_calls_that_both_have_other_names() -> None:
    both = renamed("ha_innobase::write_row", "ha_innodb::write")
    both = {stack.replace("row_ins_step", "row_ins"): us for stack, us in both.items()}
    found = compared(three(INSERT, 1), three(both, 2))
    assert function(found, "row_ins_step").shifted == "renamed or inlined under mysql_insert"
    assert function(found, "ha_innobase::write_row").shifted == (
        "renamed or inlined under mysql_insert"
    )


def test_what_is_really_gone_is_a_gain() -> None:
    gone = {stack: us for stack, us in INSERT.items() if not stack.endswith("row_ins_step")}
    found = compared(three(INSERT, 1), three(gone, 2))
    assert function(found, "row_ins_step").shifted is None
    assert function(found, "row_ins_step").difference.mean == pytest.approx(-6, abs=0.5)


def test_another_name_and_twice_the_cost_is_a_loss() -> None:
    costlier = {
        stack: us * (2 if stack.endswith("row_ins") else 1)
        for stack, us in renamed("row_ins_step", "row_ins").items()
    }
    found = compared(three(INSERT, 1), three(costlier, 2))
    assert not any(each.shifted for each in found.functions)


def test_too_few_samples_make_nothing_vanish() -> None:
    rare = {**INSERT, f"{ROOT};mysqld`rare": 0.004}  # 3 samples
    found = compared([trial(rare)], [trial(INSERT)])
    assert function(found, "rare").shifted is None


def test_without_call_paths_nothing_is_called_renamed() -> None:
    flat = {f"connection;{stack.rpartition(';')[2]}": us for stack, us in INSERT.items()}
    other = {stack.replace("row_ins_step", "row_ins"): us for stack, us in flat.items()}
    found = compared([trial(flat, call_graph="none")], [trial(other, call_graph="none")])
    assert not any(each.shifted for each in found.functions)


# Certain by numbers.


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(INSERT)), st.floats(0.5, 50), min_size=2),
        min_size=2,
        max_size=2,
    ),
    st.integers(1, 3),
)
def test_self_costs_add_up_to_the_cpu_time_and_to_the_groups(
    sides: list[dict[str, float]], blocks: int
) -> None:
    a, b = ([trial(costs, block) for block in range(blocks)] for costs in sides)
    found = compared(a, b)
    for side, total in (("a_us", found.a_cpu_us), ("b_us", found.b_cpu_us)):
        assert sum(getattr(each, side) for each in found.functions) == pytest.approx(total)
        assert sum(getattr(each, side) for each in found.groups) == pytest.approx(total)
    assert found.tree.a_us == pytest.approx(found.a_cpu_us)
    result = math.fsum(each.difference.mean for each in found.groups)
    assert result == pytest.approx(found.cpu.mean, abs=1e-6)
    back = compared(b, a)
    there = {each.name: each.difference.mean for each in found.functions}
    assert {each.name: -each.difference.mean for each in back.functions} == {
        name: pytest.approx(us, abs=1e-9) for name, us in there.items()
    }


MANY = {f"{ROOT};mysqld`row_f{n}": 10.0 / (1 + n) for n in range(60)}


@pytest.mark.parametrize(("blocks", "noisy"), [(3, False), (5, False), (3, True)])
def test_functions_and_groups_of_equal_servers_rarely_differ(blocks: int, noisy: bool) -> None:
    source = np.random.default_rng(20_261_130)
    repeats, functions, groups, shifted = 80, 0, 0, 0

    def side() -> list[ObservedTrial]:
        """Return one side: blocks differ in cost, and functions a little from trial to trial."""
        return [
            trial(
                {stack: us * source.lognormal(0, 0.03) for stack, us in {**INSERT, **MANY}.items()},
                block,
                samples=3_000,
                source=source,
            )
            for block in range(blocks)
        ]

    def times() -> list[ObservedTrial]:
        return measured([28 * float(source.lognormal(0, 0.1)) for _ in range(4)])

    for _ in range(repeats):
        found = compare_profiles(side(), side(), measured=(times(), times()) if noisy else ([], []))
        assert found is not None
        functions += any(each.significant for each in found.functions)
        groups += any(each.significant for each in found.groups)
        shifted += any(each.shifted for each in found.functions)
    limit = 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / repeats)
    assert functions / repeats <= limit
    assert groups / repeats <= limit
    assert shifted / repeats <= limit


def test_intervals_of_one_block_hold_as_often_as_samples_make_them() -> None:
    source = np.random.default_rng(20_261_131)
    dearer = with_costs(MYSQLparse=5.0)
    repeats, held = 200, 0
    for _ in range(repeats):
        found = compared(
            [trial(INSERT, samples=2_000, source=source)],
            [trial(dearer, samples=2_000, source=source)],
        )
        parse = function(found, "MYSQLparse").difference
        low, high = limits(parse)
        held += low <= 1.0 <= high
    assert held / repeats >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / repeats)


def measured(us: Sequence[float]) -> list[ObservedTrial]:
    return [
        Scene().trial(Truth(cpu_user=each, cpu_system=0.0, background={}), block)
        for block, each in enumerate(us)
    ]


def measured_trials(costs: Mapping[str, float], blocks: int = 3) -> list[ObservedTrial]:
    """Return trials that measure the CPU time of these costs, with a little noise."""
    source = np.random.default_rng(5)
    noises = source.normal(1, 0.003, blocks)
    return [trial(costs, block, faster=float(noise)) for block, noise in enumerate(noises)]


def leading_of(
    a: Mapping[str, float], b: Mapping[str, float], samples: float = 2_000, seed: int = 1
) -> ProfileComparison:
    """Compare one profiled block of each, with CPU times that three blocks measured."""
    source = np.random.default_rng(seed)
    sides = ([trial(each, samples=samples, source=source)] for each in (a, b))
    return known(compare_profiles(*sides, measured=(measured_trials(a), measured_trials(b))))


def test_one_profiled_block_names_the_function_that_makes_most_of_the_difference() -> None:
    slower = with_costs(row_ins_step=13.0, malloc=2.5)
    found = leading_of(INSERT, slower)
    assert found.by == "samples"
    (leading,) = found.leading
    assert leading.name == "row_ins_step"
    assert not leading.with_callees
    assert leading.us == pytest.approx(7, abs=1)
    assert leading.share == pytest.approx(7 / 7.5, abs=0.15)
    assert leading.low < leading.us < leading.high
    faster = leading_of(slower, INSERT).leading  # it is named where it is faster, too
    assert [each.name for each in faster] == ["row_ins_step"]
    assert faster[0].us < 0
    assert faster[0].share > 0


def test_caller_is_named_when_its_callees_share_the_difference() -> None:
    root = f"{ROOT};mysqld`mysql_select;mysqld`scan"
    a = {f"{ROOT};mysqld`send": 20.0, **{f"{root};mysqld`step_{n}": 1.0 for n in range(20)}}
    b = {f"{ROOT};mysqld`send": 20.0, **{f"{root};mysqld`step_{n}": 2.0 for n in range(20)}}
    *own, caller = leading_of(a, b, samples=8_000).leading
    assert own == []
    assert (caller.name, caller.with_callees) == ("scan", True)
    assert caller.share == pytest.approx(1, abs=0.1)


def test_no_function_is_named_when_few_samples_may_differ_by_chance() -> None:
    assert leading_of(INSERT, with_costs(row_ins_step=13.0), samples=20).leading == ()


def test_no_function_is_named_when_cpu_time_does_not_differ() -> None:
    source = np.random.default_rng(3)
    sides = ([trial(INSERT, source=source)] for _ in range(2))
    found = compare_profiles(*sides, measured=(measured_trials(INSERT), measured_trials(INSERT)))
    assert found is not None
    assert found.leading == ()


def test_functions_that_are_the_same_are_seldom_named() -> None:
    """All the difference is in one function; of 100 others, chance makes the largest ones."""
    others = {f"{ROOT};mysqld`f_{number}": 0.5 for number in range(100)}
    a, b = ({**others, f"{ROOT};mysqld`slow": us} for us in (1.0, 4.0))
    wrong = sum(
        any(each.name.startswith("f_") for each in leading_of(a, b, samples, seed).leading)
        for seed in range(40)
        for samples in (400, 4_000)
    )
    assert wrong <= 4  # of 80


def test_renamed_function_is_not_named() -> None:
    renamed = {stack.replace("row_ins_step", "row_ins_new"): us for stack, us in INSERT.items()}
    slower = {**renamed, f"{ROOT};mysqld`MYSQLparse": 9.0}
    assert [each.name for each in leading_of(INSERT, slower, 20_000).leading] == ["MYSQLparse"]


def test_costs_are_shares_of_the_time_that_was_measured() -> None:
    """Profiled trials took twice as long: they only give shares."""
    a = [trial(INSERT, block, faster=0.5) for block in range(2)]
    b = [trial(with_costs(malloc=9.0), block, faster=0.4) for block in range(2)]
    of_a, of_b = measured([27, 28, 29]), measured([34, 35, 36])
    found = known(compare_profiles(a, b, measured=(of_a, of_b)))
    assert found.a_cpu_us == pytest.approx(28)
    assert found.b_cpu_us == pytest.approx(35)
    assert math.fsum(each.difference.mean for each in found.groups) == pytest.approx(7)
    memory = known(found.group("memory"))
    assert memory.difference.mean == pytest.approx(7, abs=0.01)
    assert found.tree.b_us == pytest.approx(35)
    flat = known(flat_profile(b, of_b))
    assert flat.cpu_us == pytest.approx(35)
    assert sum(line.us for line in flat.lines) == pytest.approx(35)
    assert spinning_us(a, of_a) == pytest.approx(2, abs=0.01)


def test_an_interval_has_the_error_of_the_time_in_it() -> None:
    sides = [[trial(INSERT, block) for block in range(3)] for _ in range(2)]
    steady = compare_profiles(*sides, measured=(measured([28.0] * 4), measured([30.0] * 4)))
    uneven = compare_profiles(*sides, measured=(measured([28.0] * 4), measured([20, 40, 25, 35])))
    assert uneven is not None
    widths = []
    for found in (known(steady), uneven):
        btree = next(each for each in found.groups if each.name == "btree").difference
        low, high = limits(btree)
        widths.append(high - low)
    # B-tree code is 6 of 28 µs, and has the same share of the error.
    whole = known(uneven.cpu.high) - known(uneven.cpu.low)
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
    flat = known(flat_profile(trials))
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
