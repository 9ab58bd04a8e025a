"""Test `millrace analyze series`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.cli.judged import Call, caller, check_refused

KEYS = {"series", "index", "label", "ratio", "low", "high", "state"}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    return caller(monkeypatch, capfd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.csv"


def stepping(seed: int, ratio: float, at: int = 40, points: int = 80) -> list[float]:
    source = np.random.default_rng(seed)
    logs = source.normal(0, 0.01, points) + np.where(np.arange(points) < at, 0.0, math.log(ratio))
    return [float(1000 * math.exp(x)) for x in logs]


def keep(file: Path, head: str, **series: Sequence[float]) -> Path:
    lines = [head]
    for name, values in series.items():
        for number, value in enumerate(values):
            label = f"c{number}"
            lines.append(f"{name},{label},{value!r}" if "series" in head else f"{label},{value!r}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def changes(call: Call, path: str, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call("series", path, "--json", *options)[0])["changes"]
    return found


@pytest.mark.parametrize("head", ["label,value", "time,value"])
def test_a_step_is_a_candidate(call: Call, file: Path, head: str) -> None:
    path = str(keep(file, head, only=stepping(1, 0.8)))
    (point,) = changes(call, path)
    assert point.keys() >= KEYS
    assert point["series"] == ""
    assert point["index"] == 40
    assert point["label"] == "c40"
    assert point["state"] == "candidate"
    assert 0.7 < point["low"] < point["ratio"] < point["high"] < 0.9
    assert point["ratio"] == pytest.approx(0.8, abs=0.02)
    assert point["verdict"] == "regression"


def test_series_are_distinguished_by_their_columns(call: Call, file: Path) -> None:
    path = str(
        keep(
            file,
            "series,label,value",
            down=stepping(1, 0.8),
            none=stepping(2, 1.0),
            up=stepping(3, 1.25, at=20),
        )
    )
    found = changes(call, path)
    assert [(each["series"], each["index"]) for each in found] == [("down", 40), ("up", 20)]
    out, _ = call("series", path, "--direction", "lower")
    words = " ".join(out.split())
    assert "240 points in 3 series;" in words
    assert words.index("down") < words.index("▲ improvement") < words.index("up c20")
    assert "2 candidates: measure before and after again" in words


def test_series_may_take_turns_in_the_file(call: Call, file: Path) -> None:
    pairs = zip(stepping(1, 0.8), stepping(2, 1.25, at=30), strict=True)
    rows = "".join(f"{n},{a!r},x\n{n},{b!r},y\n" for n, (a, b) in enumerate(pairs))
    file.write_text("time,value,series\n" + rows, encoding="utf-8")
    found = changes(call, str(file))
    assert [(each["series"], each["label"]) for each in found] == [("x", "40"), ("y", "30")]


def test_a_level_that_does_not_move(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=stepping(2, 1.0)))
    assert changes(call, path, "--sensitivity", "alert") == []
    assert "The level did not move." in call("series", path, "--sensitivity", "alert")[0]


@pytest.mark.parametrize("points", [2, 3, 7])
def test_few_points_are_too_few_to_tell(call: Call, file: Path, points: int) -> None:
    path = str(keep(file, "label,value", only=[100.0, 50.0, 20.0, 90.0, 10.0, 3.0, 70.0][:points]))
    out, _ = call("series", path)
    assert "1 series has too few points" in out
    assert "did not move" not in out
    document = json.loads(call("series", path, "--json")[0])
    assert document["fewest_points"] == 8
    assert (document["series"][0]["points"], document["series"][0]["outcome"]) == (
        points,
        "too few points",
    )


def test_short_series_do_not_hide_the_others(call: Call, file: Path) -> None:
    path = str(keep(file, "series,label,value", short=[1.0, 2.0], flat=stepping(2, 1.0)))
    out, _ = call("series", path, "--sensitivity", "alert")
    assert "8 are needed: short." in out
    assert "The other levels did not move." in out


def test_each_series_keeps_its_unit_and_direction(call: Call, file: Path) -> None:
    rows = ["series,label,value,unit,direction"]
    for name, unit, direction in (("time", "ms", ""), ("rate", "MB", "higher")):
        rows += [f"{name},c{n},{v!r},{unit},{direction}" for n, v in enumerate(stepping(1, 0.8))]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    document = json.loads(call("series", str(file), "--json")[0])
    assert [(each["series"], each["verdict"]) for each in document["changes"]] == [
        ("time", "improvement"),
        ("rate", "regression"),
    ]
    assert [
        (each["direction"], each["direction_from"], each["unit"]) for each in document["series"]
    ] == [("lower", "unit", "ms"), ("higher", "file", "MB")]
    out, _ = call("series", str(file))
    assert "lower is better (unit ms) in time, higher is better (unit MB) in rate" in " ".join(
        out.split()
    )


def test_one_point_is_a_history_too(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=[3.5]))
    document = json.loads(call("series", path, "--json")[0])
    assert document["changes"] == []
    assert document["series"][0]["outcome"] == "too few points"


def test_a_smaller_alpha_makes_wider_intervals(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=stepping(1, 0.8)))
    (usual,) = changes(call, path)
    (sure,) = changes(call, path, "--alpha", "0.001")
    assert sure["low"] < usual["low"] < usual["high"] < sure["high"]
    assert sure["ratio"] == usual["ratio"]
    (wide,) = changes(call, path, "--margin", "40")
    assert wide["verdict"] == "equivalent"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "history.csv is empty"),
        ("label,value\n", "has no rows"),
        ("commit,value\na,1\n", "has no column label or time; it has commit, value"),
        ("label\na\n", "has no column value"),
        ("label,value\na,1\nb,0\n", "line 3, column value: 0 is not above 0"),
        ("label,value\n,1\n", "line 2, column label: is empty"),
        ("series,label,value\n,a,1\n", "line 2, column series: is empty"),
        ("label,value\na,1,2\n", "line 2, row: has 3 cells"),
    ],
)
def test_bad_files_are_refused_with_line_and_column(
    call: Call, file: Path, text: str, said: str
) -> None:
    check_refused(call, "series", file, text, said)


def test_a_sensitivity_that_is_none_is_refused(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=[1.0]))
    assert "'loud'" in call("series", path, "--sensitivity", "loud", status=2)[1]


def test_series_that_follow_a_trend_are_named(call: Call, file: Path) -> None:
    trend = [float(1000 * math.exp(x)) for x in np.cumsum(np.linspace(0.0, 0.1, 80) ** 2)]
    path = str(keep(file, "series,label,value", steps=stepping(1, 0.8), trend=trend))
    text = call("series", path)[0]
    assert "1 series follows a trend" in text
    assert "1 candidate" in text
    alone = call("series", str(keep(file, "label,value", only=trend)))[0]
    assert "with no levels to compare." in alone
    assert "did not move" not in alone
