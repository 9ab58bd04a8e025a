"""Test `millrace analyze series`: the order of rows, changes, and files that are refused."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.judged import call, check_refused

HISTORIES = Path(__file__).parent / "histories"
GATE = ("--fail-on", "regression")
KEYS = {"series", "index", "label", "ratio", "low", "high", "state"}


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


def changes(path: Path, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call("series", path, "--json", *options)[0])["changes"]
    return found


@pytest.mark.parametrize("head", ["label,value", "time,value"])
def test_a_step_is_a_candidate(file: Path, head: str) -> None:
    path = keep(file, head, only=stepping(1, 0.8))
    (point,) = changes(path)
    assert point.keys() >= KEYS
    assert point["series"] == ""
    assert point["index"] == 40
    assert point["label"] == "c40"
    assert point["state"] == "candidate"
    assert 0.7 < point["low"] < point["ratio"] < point["high"] < 0.9
    assert point["ratio"] == pytest.approx(0.8, abs=0.02)
    assert point["verdict"] == "regression"


def test_series_are_distinguished_by_their_columns(file: Path) -> None:
    path = keep(
        file,
        "series,label,value",
        down=stepping(1, 0.8),
        none=stepping(2, 1.0),
        up=stepping(3, 1.25, at=20),
    )
    found = changes(path)
    assert [(each["series"], each["index"]) for each in found] == [("down", 40), ("up", 20)]
    out, _ = call("series", path, "--direction", "lower")
    words = " ".join(out.split())
    assert "240 points in 3 series;" in words
    assert words.index("down") < words.index("▲ improvement") < words.index("up c20")
    assert "2 candidates: measure before and after again" in words


def test_series_may_take_turns_in_the_file(file: Path) -> None:
    pairs = zip(stepping(1, 0.8), stepping(2, 1.25, at=30), strict=True)
    rows = "".join(f"{n},{a!r},x\n{n},{b!r},y\n" for n, (a, b) in enumerate(pairs))
    file.write_text("time,value,series\n" + rows, encoding="utf-8")
    found = changes(file)
    assert [(each["series"], each["label"]) for each in found] == [("x", "40"), ("y", "30")]


def test_a_level_that_does_not_move(file: Path) -> None:
    path = keep(file, "label,value", only=stepping(2, 1.0))
    assert changes(path, "--sensitivity", "alert") == []
    assert "The level did not move." in call("series", path, "--sensitivity", "alert")[0]


@pytest.mark.parametrize("points", [2, 3, 7])
def test_few_points_are_too_few_to_tell(file: Path, points: int) -> None:
    path = keep(file, "label,value", only=[100.0, 50.0, 20.0, 90.0, 10.0, 3.0, 70.0][:points])
    out, _ = call("series", path)
    assert "1 series has too few points" in out
    assert "did not move" not in out
    document = json.loads(call("series", path, "--json")[0])
    assert document["fewest_points"] == 8
    assert (document["series"][0]["points"], document["series"][0]["outcome"]) == (
        points,
        "too few points",
    )


def test_short_series_do_not_hide_the_others(file: Path) -> None:
    path = keep(file, "series,label,value", short=[1.0, 2.0], flat=stepping(2, 1.0))
    out, _ = call("series", path, "--sensitivity", "alert")
    assert "8 are needed: short." in out
    assert "The other levels did not move." in out


def test_each_series_keeps_its_unit_and_direction(file: Path) -> None:
    rows = ["series,label,value,unit,direction"]
    for name, unit, direction in (("time", "ms", ""), ("rate", "MB", "higher")):
        rows += [f"{name},c{n},{v!r},{unit},{direction}" for n, v in enumerate(stepping(1, 0.8))]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    document = json.loads(call("series", file, "--json")[0])
    assert [(each["series"], each["verdict"]) for each in document["changes"]] == [
        ("time", "improvement"),
        ("rate", "regression"),
    ]
    assert [
        (each["direction"], each["direction_from"], each["unit"]) for each in document["series"]
    ] == [("lower", "unit", "ms"), ("higher", "file", "MB")]
    out, _ = call("series", file)
    assert "lower is better (unit ms) in time, higher is better (unit MB) in rate" in " ".join(
        out.split()
    )


def test_one_point_is_a_history_too(file: Path) -> None:
    path = keep(file, "label,value", only=[3.5])
    document = json.loads(call("series", path, "--json")[0])
    assert document["changes"] == []
    assert document["series"][0]["outcome"] == "too few points"


def test_a_smaller_alpha_makes_wider_intervals(file: Path) -> None:
    path = keep(file, "label,value", only=stepping(1, 0.8))
    (usual,) = changes(path)
    (sure,) = changes(path, "--alpha", "0.001")
    assert sure["low"] < usual["low"] < usual["high"] < sure["high"]
    assert sure["ratio"] == usual["ratio"]
    (wide,) = changes(path, "--margin", "40")
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
def test_bad_files_are_refused_with_line_and_column(file: Path, text: str, said: str) -> None:
    check_refused("series", file, text, said)


def test_a_sensitivity_that_is_none_is_refused(file: Path) -> None:
    path = keep(file, "label,value", only=[1.0])
    assert "'loud'" in call("series", path, "--sensitivity", "loud", status=2)[1]


def test_series_that_follow_a_trend_are_named(file: Path) -> None:
    trend = [float(1000 * math.exp(x)) for x in np.cumsum(np.linspace(0.0, 0.1, 80) ** 2)]
    path = keep(file, "series,label,value", steps=stepping(1, 0.8), trend=trend)
    text = call("series", path)[0]
    assert "1 series follows a trend" in text
    assert "1 candidate" in text
    alone = call("series", (keep(file, "label,value", only=trend)))[0]
    assert "with no levels to compare." in alone
    assert "did not move" not in alone


def nightly(n: int = 40, at: int = 20) -> list[tuple[str, float]]:
    """Return days and rates in the order of time, 10 % lower from the 21st on."""
    source = np.random.default_rng(5)
    days = [str(np.datetime64("2026-01-01") + i) for i in range(n)]
    rates = 100 * np.exp(source.normal(0, 0.004, n)) * np.where(np.arange(n) < at, 1, 0.9)
    return [(day, round(float(rate), 2)) for day, rate in zip(days, rates, strict=True)]


def write(file: Path, head: str, rows: list[tuple[str, float]]) -> Path:
    text = "".join(f"{label},{value},tps\n" for label, value in rows)
    file.write_text(f"{head},value,unit\n{text}", encoding="utf-8")
    return file


def test_rows_newest_first_are_a_regression_in_time() -> None:
    out, err = call("series", HISTORIES / "newest-first.csv", *GATE, status=10)
    assert "sorted by time" in out
    assert "regression: at 2026-01-21" in err


@pytest.mark.parametrize("head", ["time", "label"])
@pytest.mark.parametrize("order", ["newest first", "shuffled", "in order"])
def test_dates_bring_rows_into_order(file: Path, head: str, order: str) -> None:
    rows = nightly()
    if order == "newest first":
        rows.reverse()
    elif order == "shuffled":
        np.random.default_rng(1).shuffle(rows)
    document = json.loads(call("series", write(file, head, rows), "--json", *GATE, status=10)[0])
    (change,) = document["changes"]
    assert (change["index"], change["label"], change["verdict"]) == (20, "2026-01-21", "regression")
    assert document["series"][0]["is_sorted"] == (order != "in order")


def test_timestamps_of_unix_bring_rows_into_order(file: Path) -> None:
    rows = [(f"{1_767_225_600 + 86_400 * i}", rate) for i, (_, rate) in enumerate(nightly())]
    path = write(file, "time", rows[::-1])
    (change,) = json.loads(call("series", path, "--json")[0])["changes"]
    assert (change["index"], change["verdict"]) == (20, "regression")


def test_times_order_rows_that_have_labels_too(file: Path) -> None:
    rows = "".join(f"c{i},{day},{rate}\n" for i, (day, rate) in enumerate(nightly()))
    lines = rows.splitlines(keepends=True)
    file.write_text("label,time,value\n" + "".join(lines[::-1]), encoding="utf-8")
    (change,) = json.loads(call("series", file, "--json")[0])["changes"]
    assert (change["label"], change["ratio"] < 1) == ("c20", True)


def test_labels_that_are_not_dates_keep_the_order_of_the_file(file: Path) -> None:
    rows = [(f"c{i}", rate) for i, (_, rate) in enumerate(nightly())]
    document = json.loads(call("series", write(file, "label", rows[::-1]), "--json")[0])
    assert document["changes"][0]["verdict"] == "improvement"
    assert not document["series"][0]["is_sorted"]


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (["2026-01-02", "soon", "2026-01-01"], "line 3, column time: 'soon' is not a time"),
        (["01/02/2026", "02/01/2026"], "is ambiguous (day or month first)"),
    ],
)
def test_times_that_are_not_clear_are_refused(file: Path, times: list[str], said: str) -> None:
    path = write(file, "time", [(each, 1.0) for each in times])
    assert said in call("series", path, status=2)[1]


def test_a_step_under_whole_numbers_in_turns_is_found(file: Path) -> None:
    rows = [(f"c{i}", float((100 if i < 20 else 90) + i % 3)) for i in range(40)]
    out, err = call("series", write(file, "label", rows), *GATE, status=10)
    assert "at c20" in err
    assert "trend" not in out


def test_a_step_under_faster_weekends_is_found() -> None:
    path = HISTORIES / "faster-weekends.csv"
    err = call("series", path, "--direction", "higher", *GATE, status=10)[1]
    assert "at d15" in err


def test_a_step_without_noise_has_an_interval_of_its_rounding(file: Path) -> None:
    rows = [(f"c{i}", 100.0 if i < 20 else 90.0) for i in range(40)]
    (change,) = json.loads(call("series", write(file, "label", rows), "--json")[0])["changes"]
    assert change["low"] <= 89.5 / 100.5 * 1.001
    assert change["high"] >= 90.5 / 99.5 * 0.999
    assert change["high"] < 0.92


def test_counted_instructions_move_by_little_and_exactly(file: Path) -> None:
    counts = [40_803] * 6 + [41_003] * 6
    lines = ["label,value,unit", *(f"c{n},{of},instructions" for n, of in enumerate(counts))]
    file.write_text("\n".join(lines), encoding="utf-8")
    said = call("series", file)[0]
    assert "lower is better (unit instructions), margin 0.2 %" in said
    assert "from c6 on: 0.49 % more instructions than before (all counts alike)." in said
    assert "Instructions are not speed" in said
    (change,) = changes(file)
    assert (change["index"], change["verdict"]) == (6, "regression")
    (change,) = changes(file, "--margin", "2")
    assert change["verdict"] == "equivalent"


def test_series_of_other_units_keep_their_margin(file: Path) -> None:
    lines = ["series,label,value,unit"]
    for number in range(12):
        count = 40_803 if number < 6 else 41_003
        lines += [f"count,c{number},{count},instructions/op", f"time,c{number},{count},ns/op"]
    file.write_text("\n".join(lines), encoding="utf-8")
    said = " ".join(call("series", file)[0].split())
    assert "margin 0.2 % in count, 2 % in time" in said
    assert "count, from c6 on: 0.49 % more instructions than before" in said
    assert "time, from" not in said
    document = json.loads(call("series", file, "--json")[0])
    assert document["margin"] is None
    assert [each["margin"] for each in document["series"]] == [0.002, 0.02]
    verdicts = {each["series"]: each["verdict"] for each in document["changes"]}
    assert verdicts == {"count": "regression", "time": "equivalent"}
