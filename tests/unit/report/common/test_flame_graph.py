import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings

from millrace.analysis.explain.call_tree import CallNode
from millrace.report.common.flame_graph import ROW_PX, FlameGraph, Frame, as_svg, flame_graph
from tests.support.flame_trees import tree, trees

SVG = "{http://www.w3.org/2000/svg}"


def graphs(root: CallNode) -> FlameGraph:
    return flame_graph(root, a="mysql-5.6.24", b="mysql-9.7.4")


def frame(graph: FlameGraph, side: int, label: str) -> Frame:
    return next(f for f in graph.graphs[side].frames if f.label == label)


@given(trees)
def test_callees_lie_within_their_caller_concurrent(root: CallNode) -> None:
    for side in graphs(root).graphs:
        callers: list[Frame] = []
        ends: dict[int, float] = {}
        for number, each in enumerate(side.frames):
            assert each.number == number
            while callers and callers[-1].depth >= each.depth:
                callers.pop()
            if not callers:
                assert (each.number, each.last, each.at) == (0, len(side.frames) - 1, 0)
            else:
                caller = callers[-1]
                assert caller.depth == each.depth - 1
                assert caller.number < each.number <= each.last <= caller.last
                assert each.at >= ends.get(caller.number, caller.at) - 1e-6
                assert each.at + each.width <= caller.at + caller.width + 1e-6
                ends[caller.number] = each.at + each.width
            callers.append(each)


@given(trees)
def test_widths_are_microseconds_on_one_scale(root: CallNode) -> None:
    widest = max(root.a_us, root.b_us)
    for side in graphs(root).graphs:
        for each in side.frames:
            assert each.us > 0
            assert each.width == pytest.approx(100 * each.us / widest)
            assert each.at + each.width <= 100 + 1e-6


@given(trees)
def test_left_out_time_completes_the_whole(root: CallNode) -> None:
    """The frames' own time and the omitted time add up to the whole."""
    widest = max(root.a_us, root.b_us)

    def own(node: CallNode, side: int) -> float:
        costs = [(child.a_us, child.b_us)[side] for child in node.children]
        drawn = [c for c, us in zip(node.children, costs, strict=True) if us >= 0.001 * widest]
        left = (node.a_us, node.b_us)[side] - math.fsum(costs)
        return left + math.fsum(own(child, side) for child in drawn)

    for number, side in enumerate(graphs(root).graphs):
        if side.frames:
            assert own(root, number) + side.left_out_us == pytest.approx(side.total_us, abs=1e-6)


@settings(max_examples=20)
@given(trees)
def test_the_file_is_xml_whatever_functions_are_called(root: CallNode) -> None:
    document = ElementTree.fromstring(as_svg(graphs(root)))
    drawn = document.findall(f".//{SVG}svg[@class='graph']")
    assert len(drawn) == 2


def test_stacks_may_be_deeper_than_our_own() -> None:
    node = CallNode("f", "m", 1, 1)
    for _ in range(5000):
        node = CallNode("f", "m", 1, 1, (node,))
    assert graphs(node).graphs[0].height == 5001 * ROW_PX


def test_narrow_frames_are_counted() -> None:
    graph = graphs(tree("m`f 99.95 49.96\nm`g 0.05 0.04"))
    assert [f.label for f in graph.graphs[0].frames] == ["all", "f"]
    assert "narrower than 0.1 %: 1 call path of A, together 0.05 µs (0.1 %)" in graph.left_out_text
    assert "1 call path of B, together 0.04 µs (0.1 %)" in graph.left_out_text


def test_a_path_of_one_side_is_missing_in_the_other() -> None:
    graph = graphs(tree())
    assert frame(graph, 0, "mysql_insert").kind == "only"
    with pytest.raises(StopIteration):
        frame(graph, 1, "mysql_insert")


def test_what_is_called_through_other_functions_is_compared_all_the_same() -> None:
    """In A mysql_insert calls write_row, in B Sql_cmd_insert_values does."""
    graph = graphs(tree())
    of_a, of_b = (frame(graph, side, "ha_innobase::write_row") for side in (0, 1))
    assert of_a.counterpart == of_b.counterpart
    assert of_a.kind == "both"
    assert of_a.shade == of_b.shade == "more-3"
    assert of_a.title.split("\n")[2] == "A 11.3 µs, 28.7 % · B 16 µs, 30.9 % · difference +4.7 µs"
    assert frame(graph, 0, "mysql_insert").counterpart is None


def test_functions_without_a_name_or_with_other_arguments_do_not_stand_between() -> None:
    stacks = "mysqld`[unknown] 0 9\nmysqld`[unknown];mysqld`run(THD*) 50 0"
    graph = graphs(tree(f"{stacks}\nmysqld`run(THD*, bool) 0 41"))
    of_a, of_b = frame(graph, 0, "run"), frame(graph, 1, "run")
    assert of_a.counterpart == of_b.counterpart
    assert of_a.title.split("\n")[2] == "A 50 µs, 100.0 % · B 41 µs, 82.0 % · difference −9 µs"
    unnamed = frame(graph, 1, "[unknown]")
    assert (unnamed.kind, unnamed.shade) == ("unnamed", "same")
    assert unnamed.title.split("\n")[2] == "not compared, in B 9 µs, 18.0 %"


def test_functions_of_one_side_have_the_colour_of_their_own_time() -> None:
    graph = graphs(tree("m`old;m`write 60 0\nm`new 0 20\nm`new;m`write 0 60"))
    assert frame(graph, 0, "old").shade == "same"
    assert frame(graph, 1, "new").shade == "more-4"
    assert frame(graph, 1, "write").shade == "same"
    assert frame(graph, 1, "new").title.split("\n")[2:] == [
        "only in B: 80 µs, 100.0 %", "without what it calls 20 µs",
    ]  # fmt: skip


def test_shades_follow_the_difference() -> None:
    children = tuple(
        CallNode(f"f{difference}", "m", 50, 50 + difference)
        for difference in (20, 5, 2, 0.5, 0.2, 0, -0.2, -0.5, -2, -5, -20)
    )
    root = CallNode("all", "", 550, 550, children)
    by_label = {f.label: f.shade for f in graphs(root).graphs[1].frames}
    assert by_label == {
        "all": "same", "f20": "more-4", "f5": "more-3", "f2": "more-2", "f0.5": "more-1",
        "f0.2": "same", "f0": "same", "f-0.2": "same", "f-0.5": "less-1", "f-2": "less-2",
        "f-5": "less-3", "f-20": "less-4",
    }  # fmt: skip
    ends = [shade.end for shade in graphs(root).shades]
    assert ends == ["−10", "−3", "−1", "−0.3", "+0.3", "+1", "+3", "+10", ""]


@pytest.mark.parametrize("largest", [1e-9, 0.0099, 0.01, 0.3, 1, 2.9999, 3, 14.2, 1e7])
def test_the_largest_difference_has_the_deepest_shade(largest: float) -> None:
    graph = graphs(CallNode("all", "", largest, 2 * largest))
    assert graph.graphs[1].frames[0].shade == "more-4"
    assert len(graph.shades) == 9


def test_equal_profiles_have_one_shade() -> None:
    graph = graphs(CallNode("all", "", 5, 5))
    assert [shade.name for shade in graph.shades] == ["same"]


def test_titles_say_function_library_and_figures() -> None:
    assert frame(graphs(tree()), 1, "dispatch_command").title.split("\n") == [
        "dispatch_command",
        "mysqld",
        "A 27.6 µs, 70.0 % · B 37.1 µs, 71.7 % · difference +9.5 µs",
        "without what it calls: A 0.7 µs · B 1.9 µs",
    ]
