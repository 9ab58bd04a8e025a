"""Test which rows `millrace analyze series` takes first, and steps under noise of several modes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.judged import Call, caller

HISTORIES = Path(__file__).parent / "histories"
GATE = ("--fail-on", "regression")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    return caller(monkeypatch, capfd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.csv"


def nightly(n: int = 40, at: int = 20) -> list[tuple[str, float]]:
    """Return days and rates in the order of time, 10 % lower from the 21st on."""
    source = np.random.default_rng(5)
    days = [str(np.datetime64("2026-01-01") + i) for i in range(n)]
    rates = 100 * np.exp(source.normal(0, 0.004, n)) * np.where(np.arange(n) < at, 1, 0.9)
    return [(day, round(float(rate), 2)) for day, rate in zip(days, rates, strict=True)]


def write(file: Path, head: str, rows: list[tuple[str, float]]) -> str:
    text = "".join(f"{label},{value},tps\n" for label, value in rows)
    file.write_text(f"{head},value,unit\n{text}", encoding="utf-8")
    return str(file)


def test_rows_newest_first_are_a_regression_in_time(call: Call) -> None:
    out, err = call("series", str(HISTORIES / "newest-first.csv"), *GATE, status=10)
    assert "sorted by time" in out
    assert "regression: at 2026-01-21" in err


@pytest.mark.parametrize("head", ["time", "label"])
@pytest.mark.parametrize("order", ["newest first", "shuffled", "in order"])
def test_dates_bring_rows_into_order(call: Call, file: Path, head: str, order: str) -> None:
    rows = nightly()
    if order == "newest first":
        rows.reverse()
    elif order == "shuffled":
        np.random.default_rng(1).shuffle(rows)
    document = json.loads(call("series", write(file, head, rows), "--json", *GATE, status=10)[0])
    (change,) = document["changes"]
    assert (change["index"], change["label"], change["verdict"]) == (20, "2026-01-21", "regression")
    assert document["series"][0]["is_sorted"] == (order != "in order")


def test_timestamps_of_unix_bring_rows_into_order(call: Call, file: Path) -> None:
    rows = [(f"{1_767_225_600 + 86_400 * i}", rate) for i, (_, rate) in enumerate(nightly())]
    path = write(file, "time", rows[::-1])
    (change,) = json.loads(call("series", path, "--json")[0])["changes"]
    assert (change["index"], change["verdict"]) == (20, "regression")


def test_times_order_rows_that_have_labels_too(call: Call, file: Path) -> None:
    rows = "".join(f"c{i},{day},{rate}\n" for i, (day, rate) in enumerate(nightly()))
    lines = rows.splitlines(keepends=True)
    file.write_text("label,time,value\n" + "".join(lines[::-1]), encoding="utf-8")
    (change,) = json.loads(call("series", str(file), "--json")[0])["changes"]
    assert (change["label"], change["ratio"] < 1) == ("c20", True)


def test_labels_that_are_not_dates_keep_the_order_of_the_file(call: Call, file: Path) -> None:
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
def test_times_that_are_not_clear_are_refused(
    call: Call, file: Path, times: list[str], said: str
) -> None:
    path = write(file, "time", [(each, 1.0) for each in times])
    assert said in call("series", path, status=2)[1]


def test_a_step_under_whole_numbers_in_turns_is_found(call: Call, file: Path) -> None:
    rows = [(f"c{i}", float((100 if i < 20 else 90) + i % 3)) for i in range(40)]
    out, err = call("series", write(file, "label", rows), *GATE, status=10)
    assert "at c20" in err
    assert "trend" not in out


def test_a_step_under_faster_weekends_is_found(call: Call) -> None:
    path = str(HISTORIES / "faster-weekends.csv")
    err = call("series", path, "--direction", "higher", *GATE, status=10)[1]
    assert "at d15" in err


def test_a_step_without_noise_has_an_interval_of_its_rounding(call: Call, file: Path) -> None:
    rows = [(f"c{i}", 100.0 if i < 20 else 90.0) for i in range(40)]
    (change,) = json.loads(call("series", write(file, "label", rows), "--json")[0])["changes"]
    assert change["low"] <= 89.5 / 100.5 * 1.001
    assert change["high"] >= 90.5 / 99.5 * 0.999
    assert change["high"] < 0.92
