"""`millrace judge history`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

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


@pytest.mark.parametrize("head", ["label,value", "time,value"])
def test_a_step_is_a_candidate(call: Call, file: Path, head: str) -> None:
    path = str(keep(file, head, only=stepping(1, 0.8)))
    (point,) = json.loads(call("history", path, "--json")[0])
    assert point.keys() >= KEYS
    assert point["series"] == ""
    assert point["index"] == 40
    assert point["label"] == "c40"
    assert point["state"] == "candidate"
    assert 0.7 < point["low"] < point["ratio"] < point["high"] < 0.9
    assert point["ratio"] == pytest.approx(0.8, abs=0.02)
    assert point["verdict"] == "regression"


def test_series_are_told_apart(call: Call, file: Path) -> None:
    path = str(
        keep(
            file,
            "series,label,value",
            down=stepping(1, 0.8),
            none=stepping(2, 1.0),
            up=stepping(3, 1.25, at=20),
        )
    )
    found = json.loads(call("history", path, "--json")[0])
    assert [(each["series"], each["index"]) for each in found] == [("down", 40), ("up", 20)]
    out, _ = call("history", path, "--direction", "lower")
    words = " ".join(out.split())
    assert "240 points in 3 series; lower is better, margin 2 %" in words
    assert words.index("down") < words.index("▲ improvement") < words.index("up c20")
    assert "2 candidates: measure before and after again" in words


def test_series_may_take_turns_in_the_file(call: Call, file: Path) -> None:
    pairs = zip(stepping(1, 0.8), stepping(2, 1.25, at=30), strict=True)
    rows = "".join(f"{n},{a!r},x\n{n},{b!r},y\n" for n, (a, b) in enumerate(pairs))
    file.write_text("time,value,series\n" + rows, encoding="utf-8")
    found = json.loads(call("history", str(file), "--json")[0])
    assert [(each["series"], each["label"]) for each in found] == [("x", "40"), ("y", "30")]


def test_a_level_that_does_not_move(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=stepping(2, 1.0)))
    assert json.loads(call("history", path, "--json", "--sensitivity", "page")[0]) == []
    assert "The level did not move." in call("history", path, "--sensitivity", "page")[0]


def test_one_point_is_a_history_too(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=[3.5]))
    assert json.loads(call("history", path, "--json")[0]) == []


def test_a_smaller_alpha_makes_wider_intervals(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=stepping(1, 0.8)))
    (usual,) = json.loads(call("history", path, "--json")[0])
    (sure,) = json.loads(call("history", path, "--json", "--alpha", "0.001")[0])
    assert sure["low"] < usual["low"] < usual["high"] < sure["high"]
    assert sure["ratio"] == usual["ratio"]
    (wide,) = json.loads(call("history", path, "--json", "--margin", "40")[0])
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
def test_bad_files_are_told_by_line_and_column(
    call: Call, file: Path, text: str, said: str
) -> None:
    check_refused(call, "history", file, text, said)


def test_a_sensitivity_that_is_none_is_refused(call: Call, file: Path) -> None:
    path = str(keep(file, "label,value", only=[1.0]))
    assert "'loud'" in call("history", path, "--sensitivity", "loud", status=2)[1]


def test_series_that_follow_a_trend_are_named(call: Call, file: Path) -> None:
    trend = [float(1000 * math.exp(x)) for x in np.cumsum(np.linspace(0.0, 0.1, 80) ** 2)]
    path = str(keep(file, "series,label,value", steps=stepping(1, 0.8), trend=trend))
    text = call("history", path)[0]
    assert "1 series follows a trend, with no levels to compare: trend." in text
    assert "1 candidate" in text
    alone = call("history", str(keep(file, "label,value", only=trend)))[0]
    assert "with no levels to compare." in alone
    assert "did not move" not in alone
