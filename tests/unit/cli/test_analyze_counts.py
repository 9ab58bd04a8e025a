"""Test `millrace analyze` on instructions that another tool counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.cli.judged import Call, caller, write_pairs
from tests.unit.cli.test_analyze import only
from tests.unit.cli.test_analyze_series import changes


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    return caller(monkeypatch, capfd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "counts.csv"


def write_counts(file: Path, unit: str, **treatments: Sequence[float]) -> Path:
    """Write counts of each treatment with their unit."""
    text = write_pairs(file, **treatments).read_text(encoding="utf-8").splitlines()
    rows = (f"{line},{unit if number else 'unit'}" for number, line in enumerate(text))
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


OLD = (40_803, 40_810, 40_799, 40_806)


def test_counted_instructions_are_compared_in_their_own_words(call: Call, file: Path) -> None:
    new = (43_455, 43_460, 43_449, 43_462)
    path = str(write_counts(file, "instructions", old=OLD, new=new))
    said = call("paired", path)[0]
    assert "lower is better (unit instructions), margin 0.2 %" in said
    assert (
        "new executes 6.50 % more instructions than old (6.48 % to 6.52 %; 43,456 and 40,804): "
        "regression, the interval excludes 1 and the estimate is beyond 0.2 %."
    ) in " ".join(said.split())
    assert "Instructions are not speed" in said
    assert not {"slower", "faster", "higher", "blocks"} & set(said.replace(";", " ").split())
    assert call("paired", path, "--fail-on", "regression", status=10)[0] == said
    fewer = only(json.loads(call("paired", path, "--base", "new", "--json")[0]))
    assert fewer["verdict"] == "improvement"
    assert fewer["sentence"].startswith("old executes 6.10 % fewer instructions than new (6.08 %")


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        (OLD, (40_811, 40_800, 40_804, 40_808), "equivalent",
         "executes as many instructions as old, to within 0.02 %"),
        (OLD, (40_830, 40_833, 40_829, 40_832), "equivalent", "executes 0.06 % more instructions"),
        (OLD, (41_210, 41_212), "regression", "executes 1.00 % more instructions"),
        ((40_803,) * 2, (40_803,) * 2, "equivalent", "executes exactly as many instructions"),
        ((40_803,) * 2, (43_455,) * 2, "regression", "than old (all counts alike; 43,455 and"),
        ((40_803,), (43_455,), "inconclusive", "in a single count (43,455 and 40,803), which"),
        (OLD, (43_455,), "inconclusive", "at least 2 counts of each are needed"),
        (OLD, (30_000, 60_000), "inconclusive", "as many instructions as old, to within"),
    ],
)  # fmt: skip
def test_few_counts_decide_where_they_agree(
    call: Call, file: Path, old: Sequence[float], new: Sequence[float], verdict: str, said: str
) -> None:
    path = str(write_counts(file, "instructions", old=old, new=new))
    found = only(json.loads(call("paired", path, "--json")[0]))
    assert found["verdict"] == verdict
    assert said in found["sentence"]
    assert (found["n_blocks"], found["dropped_blocks"]) == (min(len(old), len(new)), 0)


def test_counts_need_no_common_blocks_and_obey_margin_and_alpha(call: Call, file: Path) -> None:
    rows = [f"a{number},old,{value}" for number, value in enumerate(OLD)]
    rows += [f"b{number},new,{value + 200}" for number, value in enumerate(OLD)]
    lines = ("block,treatment,value,unit", *(f"{row},instructions/op" for row in rows))
    file.write_text("\n".join(lines), encoding="utf-8")
    found = only(json.loads(call("paired", str(file), "--json")[0]))
    assert (found["verdict"], found["n_blocks"]) == ("regression", 4)
    assert "(0.47 % to 0.51 %; 41,004 and 40,804 instructions/op)" in found["sentence"]
    wide = only(json.loads(call("paired", str(file), "--json", "--margin", "1")[0]))
    assert wide["verdict"] == "equivalent"
    sure = only(json.loads(call("paired", str(file), "--json", "--alpha", "0.001")[0]))
    assert sure["low"] < found["low"] < found["high"] < sure["high"]


def test_counted_instructions_move_by_little_and_exactly(call: Call, file: Path) -> None:
    counts = [40_803] * 6 + [41_003] * 6
    lines = ["label,value,unit", *(f"c{n},{of},instructions" for n, of in enumerate(counts))]
    file.write_text("\n".join(lines), encoding="utf-8")
    said = call("series", str(file))[0]
    assert "lower is better (unit instructions), margin 0.2 %" in said
    assert "from c6 on: 0.49 % more instructions than before (all counts alike)." in said
    assert "Instructions are not speed" in said
    (change,) = changes(call, str(file))
    assert (change["index"], change["verdict"]) == (6, "regression")
    (change,) = changes(call, str(file), "--margin", "2")
    assert change["verdict"] == "equivalent"


def test_series_of_other_units_keep_their_margin(call: Call, file: Path) -> None:
    lines = ["series,label,value,unit"]
    for number in range(12):
        count = 40_803 if number < 6 else 41_003
        lines += [f"count,c{number},{count},instructions/op", f"time,c{number},{count},ns/op"]
    file.write_text("\n".join(lines), encoding="utf-8")
    said = " ".join(call("series", str(file))[0].split())
    assert "margin 0.2 % in count, 2 % in time" in said
    assert "count, from c6 on: 0.49 % more instructions than before" in said
    assert "time, from" not in said
    document = json.loads(call("series", str(file), "--json")[0])
    assert document["margin"] is None
    assert [each["margin"] for each in document["series"]] == [0.002, 0.02]
    verdicts = {each["series"]: each["verdict"] for each in document["changes"]}
    assert verdicts == {"count": "regression", "time": "equivalent"}
