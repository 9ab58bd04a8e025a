from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given

from millrace.report.flame_graph import FlameGraph, FlameNode, Graph, as_svg, flame_graph
from tests.unit.report.flame_trees import tree, trees

SVG = "{http://www.w3.org/2000/svg}"


def graphs(root: FlameNode) -> FlameGraph:
    return flame_graph(root, a="mysql-5.6.24", b="mysql-9.7.4")


def size(side: Graph, frame_number: int) -> float:
    frame = next(f for f in side.frames if f.number == frame_number)
    return frame.a_us if side.side == "A" else frame.b_us


@given(trees)
def test_callees_lie_within_their_caller_side_by_side(root: FlameNode) -> None:
    graph = graphs(root)
    for side in graph.graphs:
        above = {f.depth: f for f in side.frames[:1]}
        ends: dict[int, float] = {}
        for frame in side.frames[1:]:
            caller = above[frame.depth - 1]
            assert caller.number < frame.number <= caller.last
            assert frame.last <= caller.last
            assert frame.at >= caller.at - 1e-6
            assert frame.at + frame.width <= caller.at + caller.width + 1e-6
            if frame.depth in ends and above.get(frame.depth) is not None:
                assert frame.at >= ends[frame.depth] - 1e-6
            above = {d: f for d, f in above.items() if d < frame.depth} | {frame.depth: frame}
            ends = {d: e for d, e in ends.items() if d <= frame.depth}
            ends[frame.depth] = frame.at + frame.width


@given(trees)
def test_widths_are_microseconds_on_one_scale(root: FlameNode) -> None:
    graph = graphs(root)
    widest = max(root.a_us, root.b_us)
    for side in graph.graphs:
        for frame in side.frames:
            us = frame.a_us if side.side == "A" else frame.b_us
            assert us > 0
            assert frame.width == pytest.approx(100 * us / widest)
            assert frame.at + frame.width <= 100 + 1e-6


@given(trees)
def test_what_is_left_out_is_counted(root: FlameNode) -> None:
    """Drawn own time and what is left out add up to the whole."""
    graph = graphs(root)
    if not graph.graphs[0].frames and not graph.graphs[1].frames:
        assert max(root.a_us, root.b_us) == 0
        return

    def own(node: FlameNode, side: str) -> float:
        total = node.a_us if side == "a" else node.b_us
        limit = 0.001 * max(root.a_us, root.b_us)
        kept = [c for c in node.children if max(c.a_us, c.b_us) >= limit > 0]
        every = sum((c.a_us if side == "a" else c.b_us) for c in node.children)
        return total - every + sum(own(c, side) for c in kept)

    drawn = own(root, "a") + graph.left_out_a_us
    assert drawn == pytest.approx(root.a_us, abs=1e-6)
    assert own(root, "b") + graph.left_out_b_us == pytest.approx(root.b_us, abs=1e-6)


@given(trees)
def test_the_file_is_xml_whatever_functions_are_called(root: FlameNode) -> None:
    document = ElementTree.fromstring(as_svg(graphs(root)))
    drawn = document.findall(f".//{SVG}svg[@class='graph']")
    assert len(drawn) == 2


def test_narrow_frames_are_told() -> None:
    root = FlameNode(
        "all", "", 100, 50, (FlameNode("f", "m", 99.9, 49.96), FlameNode("g", "m", 0.05, 0.04))
    )
    graph = graphs(root)
    assert [f.label for f in graph.graphs[0].frames] == ["all", "f"]
    assert graph.left_out_text == (
        "Left out: 1 call path narrower than 0.1 % of the wider graph in both, "
        "together 0.05 µs of A and 0.04 µs of B"
    )


def test_a_path_of_one_side_is_missing_in_the_other() -> None:
    old, new = graphs(tree()).graphs
    assert "mysql_insert" in [f.label for f in old.frames]
    assert "mysql_insert" not in [f.label for f in new.frames]
    (inserted,) = (f for f in old.frames if f.label == "mysql_insert")
    assert inserted.only
    assert inserted.shade == "less-4"
    numbers = {f.number for f in old.frames} | {f.number for f in new.frames}
    assert numbers == set(range(len(numbers)))


def test_shades_follow_the_difference() -> None:
    children = tuple(
        FlameNode(f"f{difference}", "m", 50, 50 + difference)
        for difference in (20, 5, 2, 0.5, 0.2, 0, -0.2, -0.5, -2, -5, -20)
    )
    root = FlameNode("all", "", 550, 550, children)
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
    root = FlameNode("all", "", largest, 2 * largest)
    graph = graphs(root)
    assert graph.graphs[1].frames[0].shade == "more-4"
    assert len(graph.shades) == 9


def test_equal_profiles_have_one_shade() -> None:
    graph = graphs(FlameNode("all", "", 5, 5))
    assert [shade.name for shade in graph.shades] == ["same"]


def test_titles_say_function_library_and_figures() -> None:
    (frame,) = (f for f in graphs(tree()).graphs[1].frames if f.label == "dispatch_command")
    assert frame.title.split("\n") == [
        "dispatch_command",
        "mysqld",
        "A 27.6 µs, 70.0 % · B 37.1 µs, 71.7 % · difference +9.5 µs",
        "without what it calls: A 0.7 µs · B 1.9 µs",
    ]
    assert math.isclose(frame.b_us, 37.1)
