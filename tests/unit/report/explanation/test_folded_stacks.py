from __future__ import annotations

import re

import pytest
from hypothesis import given

from millrace.analysis.explain.call_tree import CallNode
from millrace.report.explanation.folded_stacks import as_differential, as_folded
from tests.unit.report.common.flame_trees import tree, trees


def test_a_line_a_call_path_in_nanoseconds() -> None:
    lines = as_folded(tree(), "A").splitlines()
    assert "connection;mysqld`handle_connection;mysqld`do_command(THD*) 1100" in lines
    assert not any("log_writer" in line for line in lines)
    assert any("log_writer" in line for line in as_folded(tree(), "B").splitlines())


def test_the_differential_form_has_both_weights() -> None:
    lines = as_differential(tree()).splitlines()
    path = "connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command"
    assert f"{path} 700 1900" in lines
    assert f"{path};mysqld`mysql_insert(THD*, TABLE_LIST*) 6100 0" in lines
    assert len(lines) == 18


@given(trees)
def test_every_line_is_a_path_and_whole_weights(root: CallNode) -> None:
    for line in as_differential(root).split("\n")[:-1]:
        assert re.fullmatch(r"[^\n]* \d+ \d+", line)
    # Each path may be rounded by half a nanosecond.
    total = sum(int(line.rsplit(" ", 1)[1]) for line in as_folded(root, "A").split("\n")[:-1])
    below = sum(child.a_us for child in root.children)
    assert total / 1000 == pytest.approx(below, abs=0.05)


def test_what_would_end_a_frame_is_replaced() -> None:
    root = CallNode("all", "", 1, 1, (CallNode("a;b\n c", "m", 1, 1),))
    assert as_folded(root, "A") == "m`a:b c 1000\n"
