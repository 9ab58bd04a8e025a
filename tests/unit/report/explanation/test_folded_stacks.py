"""Test the export against the rules of speedscope's own format."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given

from millrace.analysis.explain.call_tree import CallNode
from millrace.report.explanation.folded_stacks import as_differential, as_folded, as_speedscope
from tests.support.flame_trees import tree, trees


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


UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def document(root: CallNode) -> dict[str, Any]:
    text = as_speedscope(root, a="mysql-5.6.24", b="mysql-9.7.4", heading="insert")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def check(loaded: dict[str, Any]) -> None:
    """Check the format's rules: required keys and their types, nothing else, valid indices."""
    keys = {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert set(loaded) <= keys
    assert loaded["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = loaded["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str)
    assert 0 <= loaded["activeProfileIndex"] < len(loaded["profiles"])
    for profile in loaded["profiles"]:
        keys = {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert set(profile) == keys
        assert profile["type"] == "sampled"
        assert isinstance(profile["name"], str)
        assert profile["unit"] in UNITS
        assert profile["startValue"] <= profile["endValue"]
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(weight > 0 and math.isfinite(weight) for weight in profile["weights"])
        for stack in profile["samples"]:
            assert stack
            assert all(type(number) is int and 0 <= number < len(frames) for number in stack)


@given(trees)
def test_speedscope_document_keeps_the_format(root: CallNode) -> None:
    check(document(root))


def test_both_sides_are_profiles_in_microseconds() -> None:
    loaded = document(tree())
    check(loaded)
    old, new = loaded["profiles"]
    assert [old["name"], new["name"]] == ["mysql-5.6.24", "mysql-9.7.4"]
    assert old["unit"] == "microseconds"
    assert old["endValue"] == pytest.approx(sum(old["weights"]))
    assert old["endValue"] == pytest.approx(39.41)
    frames = loaded["shared"]["frames"]
    names = [[frames[number]["name"] for number in stack] for stack in new["samples"]]
    assert ["log", "log_writer(log_t*)"] in names
    assert {"name": "tcp_sendmsg", "file": "[kernel]"} in frames
