"""Test the export against the rules of speedscope's own format."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from millrace.analysis.explain.call_tree import CallNode
from millrace.report.explanation.folded_stacks import as_speedscope
from tests.unit.report.common.flame_trees import tree, trees

UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def document(root: CallNode) -> dict[str, Any]:
    text = as_speedscope(root, a="mysql-5.6.24", b="mysql-9.7.4", heading="insert")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def check(loaded: dict[str, Any]) -> None:
    """Check the format's rules: required keys and their types, nothing else, valid indices."""
    assert set(loaded) <= {
        "$schema",
        "shared",
        "profiles",
        "name",
        "activeProfileIndex",
        "exporter",
    }
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
def test_it_is_what_the_format_says(root: CallNode) -> None:
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
