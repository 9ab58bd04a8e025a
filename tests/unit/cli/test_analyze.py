"""Test `millrace analyze paired` and `analyze import`, also of instructions that were counted."""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from millrace.stats.ratio import paired_ratio
from tests.support.judged import call, check_refused, noise, write_pairs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pairs.csv"


def only(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = document["comparisons"]
    assert isinstance(found, dict)
    return found


def test_json_has_what_a_program_wants(file: Path) -> None:
    old, new = noise(1, 12), noise(2, 12, 0.9)
    document = json.loads(call("paired", write_pairs(file, old=old, new=new), "--json")[0])
    assert document["base"] == "old"
    assert (document["direction"], document["margin"], document["alpha"]) == ("higher", 0.02, 0.05)
    found = only(document)
    any_look = paired_ratio(old, new, looks="any")
    once = paired_ratio(old, new)
    assert (found["base"], found["candidate"]) == ("old", "new")
    assert found["ratio"] == pytest.approx(any_look.ratio)
    assert (found["low"], found["high"]) == pytest.approx((any_look.low, any_look.high))
    assert (found["fixed_low"], found["fixed_high"]) == pytest.approx((once.low, once.high))
    assert found["low"] < found["fixed_low"] < found["ratio"] < found["fixed_high"] < found["high"]
    assert found["n_blocks"] == 12
    assert found["verdict"] == "regression"
    assert 0.005 < found["minimum_detectable_effect"] < 0.05
    assert found["more_blocks"] == 0


@pytest.mark.parametrize(
    ("ratio", "direction", "verdict"),
    [
        (0.9, "higher", "regression"),
        (0.9, "lower", "improvement"),
        (1.1, "higher", "improvement"),
        (1.1, "lower", "regression"),
        (1.0, "higher", "equivalent"),
    ],
)
def test_the_ratio_is_in_the_raw_unit_and_the_direction_decides_the_word(
    file: Path, ratio: float, direction: str, verdict: str
) -> None:
    path = write_pairs(file, a=noise(1, 20, sd=0.004), b=noise(2, 20, ratio, sd=0.004))
    found = only(json.loads(call("paired", path, "--json", "--direction", direction)[0]))
    assert found["ratio"] == pytest.approx(ratio, abs=0.01)
    assert found["verdict"] == verdict


def test_the_base_can_be_named(file: Path) -> None:
    path = write_pairs(file, a=noise(1, 8), b=noise(2, 8, 0.5), c=noise(3, 8, 2.0))
    document = json.loads(call("paired", path, "--json", "--base", "b")[0])
    assert document["base"] == "b"
    assert [each["candidate"] for each in document["comparisons"]] == ["a", "c"]
    assert [round(each["ratio"]) for each in document["comparisons"]] == [2, 4]


def test_margin_and_alpha_are_obeyed(file: Path) -> None:
    path = write_pairs(file, a=noise(1, 20, sd=0.004), b=noise(2, 20, 0.97, sd=0.004))
    assert only(json.loads(call("paired", path, "--json")[0]))["verdict"] == "regression"
    wide = only(json.loads(call("paired", path, "--json", "--margin", "5")[0]))
    assert wide["verdict"] == "equivalent"
    sure = only(json.loads(call("paired", path, "--json", "--alpha", "0.001")[0]))
    assert sure["low"] < wide["low"] < wide["high"] < sure["high"]


def test_a_block_without_one_of_the_two_is_dropped_for_that_pair(file: Path) -> None:
    values = ["block,treatment,value"]
    values += [f"{n},base,{100 + n}" for n in range(6)]
    values += [f"{n},half,{50 + n / 2}" for n in (5, 4, 3, 1, 0, 7)]
    values += [f"{n},twice,{200 + 2 * n}" for n in range(6)]
    file.write_text("\n".join(values), encoding="utf-8")
    half, twice = json.loads(call("paired", file, "--json")[0])["comparisons"]
    assert (half["n_blocks"], half["dropped_blocks"]) == (5, 2)
    assert half["ratio"] == pytest.approx(0.5)
    assert (twice["n_blocks"], twice["dropped_blocks"]) == (6, 0)
    assert twice["ratio"] == pytest.approx(2.0)
    assert "2 blocks without one of the two were dropped" in half["sentence"]


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_blocks_are_inconclusive(file: Path, blocks: int) -> None:
    path = write_pairs(file, a=[1.0, 1.1][:blocks], b=[2.0, 2.1, 2.2][:blocks])
    found = only(json.loads(call("paired", path, "--json")[0]))
    assert found["verdict"] == "inconclusive"
    assert found["low"] is found["high"] is found["minimum_detectable_effect"] is None
    assert "at least 3 are needed" in found["reason"]


def test_treatments_that_share_no_block_are_inconclusive(file: Path) -> None:
    file.write_text("block,treatment,value\n1,a,1\n2,b,2\n", encoding="utf-8")
    found = only(json.loads(call("paired", file, "--json")[0]))
    assert (found["n_blocks"], found["ratio"], found["verdict"]) == (0, None, "inconclusive")
    assert found["reason"].startswith("no block has both")
    assert "inconclusive" in call("paired", file)[0]


def test_missing_data_is_described_in_words(file: Path) -> None:
    path = write_pairs(file, old=noise(1, 8, sd=0.05), new=noise(4, 8, 0.95, sd=0.05))
    out, _ = call("paired", path)
    words = " ".join(out.split())
    assert "base old; higher is better (assumed: --direction sets it), margin 2 %" in words
    assert "? inconclusive" in words
    assert "these blocks can show a difference of " in words
    assert "more blocks would decide" in words


def test_verdict_is_printed_with_its_reason(file: Path) -> None:
    path = write_pairs(file, old=noise(1, 8), new=noise(2, 8, 0.9))
    out, _ = call("paired", path)
    assert "▼ regression" in out
    assert "new against old: " in out
    assert "% lower, regression, the interval excludes 1" in " ".join(out.split())
    assert "still" not in out


def test_many_candidates_get_a_false_discovery_note(file: Path) -> None:
    alike = {f"c{n}": noise(n, 8) for n in range(3, 8)}
    path = write_pairs(file, a=noise(1, 8), b=noise(2, 8, 0.8), **alike)
    out, _ = call("paired", path)
    words = " ".join(out.split())
    assert "1 of 6 intervals excludes 1; 1 still does" in words
    found = json.loads(call("paired", path, "--json")[0])["comparisons"]
    assert [each["adjusted_p"] <= 0.05 for each in found] == [True, *[False] * 5]


def test_markup_in_names_is_printed_literally(file: Path) -> None:
    file.write_text(
        "block,treatment,value\n" + "".join(f"{n},[red]a,1\n{n},[/b],2\n" for n in range(5)),
        encoding="utf-8",
    )
    out, _ = call("paired", file)
    assert "base [red]a" in out
    assert "[/b] against [red]a" in out


def test_files_as_spreadsheets_write_them(file: Path) -> None:
    rows = "".join(f' {n} ,"1,5",{n},"{2 + n / 10}", a\r\n{n},x,{n},1,b\r\n' for n in range(1, 6))
    file.write_bytes(("\ufeffblock,note,n,value,treatment\r\n" + rows + ",,,,\r\n\r\n").encode())
    found = only(json.loads(call("paired", file, "--json")[0]))
    assert (found["base"], found["candidate"], found["n_blocks"]) == ("a", "b", 5)


def test_values_at_the_ends_of_what_can_be_held(file: Path) -> None:
    path = write_pairs(file, a=[1e-300, 1e300, 1.0, 1e-300], b=[1e300, 1e-300, 1.0, 1e300])
    found = only(json.loads(call("paired", path, "--json")[0]))
    assert found["verdict"] == "inconclusive"
    assert math.isfinite(found["high"])


def test_equal_values_are_equivalent(file: Path) -> None:
    path = write_pairs(file, a=[3.001] * 5, b=[3.001] * 5)
    found = only(json.loads(call("paired", path, "--json")[0]))
    assert found["ratio"] == 1.0
    assert 0.9995 < found["low"] < 1.0 < found["high"] < 1.0005
    assert found["verdict"] == "equivalent"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (12, 11, "inconclusive"),
        (12, 10, "regression"),
        (3, 3, "inconclusive"),
        (0.9, 0.8, "inconclusive"),
        (1200, 1100, "regression"),
    ],
)
def test_an_interval_is_as_wide_as_rounding_when_values_agree(
    file: Path, old: float, new: float, verdict: str
) -> None:
    path = write_pairs(file, old=[old] * 3, new=[new] * 3)
    found = only(json.loads(call("paired", path, "--json")[0]))
    half = 0.05 if old < 1 else 0.5
    assert found["low"] <= (new - half) / (old + half) * 1.02
    assert found["high"] >= (new + half) / (old - half) * 0.98
    assert found["fixed_low"] == found["low"]
    assert found["verdict"] == verdict
    assert "rounding the values to" in found["sentence"]
    assert ("give more digits" in found["sentence"]) == (verdict == "inconclusive")
    assert "would decide" not in found["sentence"]
    assert found["minimum_detectable_effect"] is None


HEAD = "block,treatment,value\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "pairs.csv is empty"),
        (HEAD, "pairs.csv has no rows"),
        (HEAD + "1,a,1\n2,a,2\n", "has only one treatment, a"),
        ("block,value\n1,1\n", "line 1, first line: has no column treatment; it has block, value"),
        ("block,treatmnt,value\n1,a,1\n", "has no column treatment; it has block, treatmnt, value"),
        ("block;treatment;value\n1;a;1\n", "columns must be separated by commas"),
        ("block,treatment,value,value\n1,a,1,1\n", "has several columns value"),
        (HEAD + "1,a,0\n", "line 2, column value: 0 is not above 0"),
        (HEAD + "1,a,1\n1,b,-3.5\n", "line 3, column value: -3.5 is not above 0"),
        (HEAD + "1,a,fast\n", "line 2, column value: 'fast' is not a number"),
        (HEAD + "1,a,\n", "line 2, column value: is empty"),
        (HEAD + "1,a,nan\n", "line 2, column value: nan is not finite"),
        (HEAD + "1,a,inf\n", "line 2, column value: inf is not finite"),
        (HEAD + "1,a,1e999\n", "line 2, column value: 1e999 is not finite"),
        (HEAD + "1,a,1_000\n", "line 2, column value: '1_000' is not a number"),
        (HEAD + '1,a,"1,5"\n', "line 2, column value: '1,5' is not a number"),
        (HEAD + ",a,1\n", "line 2, column block: is empty"),
        (HEAD + "1,,1\n", "line 2, column treatment: is empty"),
        (HEAD + "1,a\n", "line 2, row: has 2 cells; expected 3, as in the first line"),
        (HEAD + "1,a,1,5\n", "line 2, row: has 4 cells"),
        (HEAD + "1,a,1\n1,b,1\n1,a,2\n", "line 4, row: block 1 already has a value of a in line 2"),
        (HEAD + '1,"a,1\n', "row: is not CSV"),
        (HEAD + '1,"a"b,1\n', "line 2, row: is not CSV"),
        (HEAD + f"1,{'a' * 200_000},1\n", "is not CSV: field larger than field limit"),
        (HEAD + "1,a,x\n2,a,x\n3,a,x\n1,b,0\n", "4 mistakes"),
        (
            "block,treatment,value,direction\n1,a,1,up\n",
            "line 2, column direction: 'up' is not a direction; expected higher or lower",
        ),
        (
            "block,treatment,value,unit\n1,a,1,s\n1,b,1,ms\n",
            "line 3, column unit: is 'ms' after 's'; expected one unit in all rows",
        ),
        (HEAD + "1,a,x\n" * 500, "10 mistakes"),
        (HEAD + "1,a,x\n" * 500, "reading stopped here"),
    ],
)
def test_bad_files_are_refused_with_line_and_column(file: Path, text: str, said: str) -> None:
    check_refused("paired", file, text, said)


def test_places_that_are_no_files(tmp_path: Path, file: Path) -> None:
    assert "no such file" in call("paired", str(tmp_path / "none.csv"), status=2)[1]
    assert "is a directory" in call("paired", str(tmp_path), status=2)[1]
    file.write_bytes(b"block,treatment,value\n1,\xff,2\n")
    assert "is not UTF-8 text (byte 24)" in call("paired", file, status=2)[1]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--base", "neu"),
        ("--margin", "0"),
        ("--margin", "nan"),
        ("--margin", "100"),
        ("--alpha", "0"),
        ("--alpha", "nan"),
        ("--alpha", "1"),
        ("--direction", "up"),
    ],
)
def test_options_that_cannot_be_are_refused(file: Path, option: str, value: str) -> None:
    path = write_pairs(file, old=[1.0] * 3, new=[2.0] * 3)
    _, err = call("paired", path, option, value, status=2)
    assert value in err


def test_a_base_with_a_slip_is_recognised(file: Path) -> None:
    path = write_pairs(file, old=[1.0] * 3, new=[2.0] * 3)
    assert "did you mean 'old'?" in call("paired", path, "--base", "odl", status=2)[1]
    assert "it has: old, new" in call("paired", path, "--base", "zzz", status=2)[1]


def test_what_is_imported_can_be_judged(tmp_path: Path, file: Path) -> None:
    files = []
    for block in range(1, 6):
        for name, rate in (("old", 1000 + block), ("new", 500 + 2 * block)):
            log = tmp_path / f"{name}-{block}.log"
            log.write_text(f"    transactions:  9 ({rate} per sec.)\n", encoding="utf-8")
            files.append(log)
    out, _ = call("import", "sysbench", *files)
    assert out.splitlines()[:2] == [
        "block,treatment,value,unit,direction",
        "1,old,1001,transactions/s,higher",
    ]
    out, err = call("import", "sysbench", *files, "-o", file)
    assert out == ""
    assert str(file) in err
    assert only(json.loads(call("paired", file, "--json")[0]))["n_blocks"] == 5


def test_a_slower_program_that_hyperfine_timed_is_a_regression(tmp_path: Path, file: Path) -> None:
    files = []
    for block in range(8):
        path = tmp_path / f"{block}.json"
        times = {"old": 1.0 + block / 1000, "new": 1.074 + block / 900}
        path.write_text(
            json.dumps({"results": [{"command": n, "mean": s} for n, s in times.items()]}),
            encoding="utf-8",
        )
        files.append(path)
    _, err = call("import", "hyperfine", *files, "-o", file)
    assert "base: old (the first one; --base selects another)" in err
    assert "values: lower is better (unit s)" in err
    document = json.loads(call("paired", file, "--json")[0])
    assert (document["direction"], document["direction_from"], document["unit"]) == (
        "lower",
        "file",
        "s",
    )
    assert only(document)["verdict"] == "regression"
    assert "base old; lower is better (unit s), margin 2 %" in call("paired", file)[0]
    forced = json.loads(call("paired", file, "--json", "--direction", "higher")[0])
    assert (forced["direction_from"], only(forced)["verdict"]) == ("option", "improvement")


UNITS = {
    ("lower", "unit"): (
        "ms", "µs", "ns/op", "Seconds", "instructions", "Instructions:u",
        "instructions per statement", "usec", "msec", "nsec", "ms (p95)", "p99 latency [ms]",
        "latency_ms", "cycles", "cycles/op", "errors", "errors/s", "error rate", "cache-misses",
        "page faults", "bytes", "KiB", "B/op", "ms per completed query", "read/write latency",
        "I/O wait",
    ),
    ("higher", "unit"): (
        "MB/s", "tps", "instructions/s", "cycles/s", "MiB/sec", "requests/min",
        "transactions per second", "tpmC", "NOPM",
    ),
    ("higher", "assumed"): (
        "instructions/cycle", "MB/s per core", "ops per watt", "ops_per_watt",
        "instructions per cycle", "transactions per MB", "transactions per timeout", "rows a byte",
        "free bytes", "available memory (MiB)", "idle time", "saved ms", "time between failures",
        "score", "rows", "%", "pages", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "direction", "basis"),
    [(unit, *implied) for implied, units in UNITS.items() for unit in units],
)
def test_the_unit_of_a_file_implies_which_values_are_better(
    file: Path, unit: str, direction: str, basis: str
) -> None:
    rows = "".join(f"{n},a,1,{unit}\n{n},b,2,{unit}\n" for n in range(4))
    file.write_text("block,treatment,value,unit\n" + rows, encoding="utf-8")
    document = json.loads(call("paired", file, "--json")[0])
    assert (document["direction"], document["direction_from"]) == (direction, basis)
    assert ("(assumed: " in call("paired", file)[0]) == (basis == "assumed")


@pytest.mark.parametrize("unit", ["ops per watt", "instructions per cycle", "free bytes"])
def test_a_gate_is_refused_when_the_unit_is_a_ratio_or_good_to_have(file: Path, unit: str) -> None:
    rows = "".join(f"{n},a,{1 + n / 9},{unit}\n{n},b,{2 + n / 9},{unit}\n" for n in range(4))
    file.write_text("block,treatment,value,unit\n" + rows, encoding="utf-8")
    _, err = call("paired", file, "--fail-on", "regression", status=2)
    assert f"the file does not state it (unit '{unit}')" in err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1203.5", "1103.5"),
        ("1203.5", "1203.5"),
        ("1203.456789012345", "1103.456789012345"),
        ("950.5", "903.5"),
    ],
)
def test_blocks_that_repeat_one_run_are_inconclusive(file: Path, old: str, new: str) -> None:
    rows = "".join(f"{n},old,{old}\n{n},new,{new}\n" for n in range(3))
    file.write_text("block,treatment,value\n" + rows, encoding="utf-8")
    found = only(json.loads(call("paired", file, "--json")[0]))
    assert found["verdict"] == "inconclusive"
    assert found["reason"] == ("the blocks have equal values, so they are one run and not 3 trials")
    assert found["low"] is found["high"] is found["fixed_low"] is found["adjusted_p"] is None
    assert "inconclusive" in call("paired", file)[0]
    call("paired", file, "--direction", "higher", "--fail-on", "regression")


@pytest.mark.parametrize(
    ("old", "new"), [("2048", "1024"), ("1.5", "1.2")], ids=["counts", "few digits"]
)
def test_equal_values_that_trials_may_share_have_a_verdict(file: Path, old: str, new: str) -> None:
    rows = "".join(f"{n},old,{old}\n{n},new,{new}\n" for n in range(3))
    file.write_text("block,treatment,value\n" + rows, encoding="utf-8")
    assert only(json.loads(call("paired", file, "--json")[0]))["verdict"] == "regression"


def test_import_names_its_base_and_accepts_another(tmp_path: Path, file: Path) -> None:
    files = []
    for block in range(1, 5):
        for name, rate in (("new", 900), ("old", 1000)):
            log = tmp_path / f"{name}-{block}.log"
            log.write_text(f"    transactions:  9 ({rate + block} per sec.)\n", encoding="utf-8")
            files.append(log)
    files.sort()  # in the order in which a shell sorts *.log
    assert (
        "base: new (the first one; --base selects another)" in call("import", "sysbench", *files)[1]
    )
    _, err = call("import", "sysbench", *files, "--base", "old", "-o", file)
    assert "base: old values: higher is better" in err
    document = json.loads(call("paired", file, "--json")[0])
    assert (document["base"], only(document)["verdict"]) == ("old", "regression")
    _, err = call("import", "sysbench", *files, "--base", "odl", status=2)
    assert "did you mean 'old'?" in err


@pytest.mark.parametrize("program", ["hyperfine", "pgbench", "sysbench", "mysqlslap", "hammerdb"])
def test_unusable_file_is_refused_with_a_reason(tmp_path: Path, program: str) -> None:
    path = tmp_path / "old-1.txt"
    path.write_text("hello", encoding="utf-8")
    assert "old-1.txt" in call("import", program, path, status=2)[1]
    assert "no such file" in call("import", program, str(tmp_path / "a-1"), status=2)[1]
    assert "Missing argument" in call("import", program, status=2)[1]


def test_it_does_not_write_where_nothing_can_be(tmp_path: Path) -> None:
    log = tmp_path / "old-1.log"
    log.write_text("    transactions:  9 (1.5 per sec.)\n", encoding="utf-8")
    place = str(tmp_path / "none" / "pairs.csv")
    assert "no directory" in call("import", "sysbench", str(log), "-o", place, status=2)[1]
    mine = tmp_path / "mine.csv"
    mine.write_text("block,treatment,value\n1,old,2.5\n", encoding="utf-8")
    _, err = call("import", "sysbench", str(log), "-o", str(mine), status=2)
    assert "choose another file with -o" in " ".join(err.split())
    assert mine.read_text(encoding="utf-8") == "block,treatment,value\n1,old,2.5\n"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("paired", "block,treatment,value\n" + "".join(f"{i},a,10\n{i},b,5\n" for i in range(9))),
        ("series", "label,value\n" + "".join(f"c{i},{10 + i % 2}\n" for i in range(9))),
    ],
)
def test_a_dash_is_standard_input(command: str, text: str) -> None:
    judge = [sys.executable, "-m", "millrace.cli.main", "analyze", command, "-"]
    done = subprocess.run(judge, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    nothing = subprocess.run(judge, input="", capture_output=True, text=True, check=False)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "standard input is empty" in nothing.stderr


def write_counts(file: Path, unit: str, **treatments: Sequence[float]) -> Path:
    """Write counts of each treatment with their unit."""
    text = write_pairs(file, **treatments).read_text(encoding="utf-8").splitlines()
    rows = (f"{line},{unit if number else 'unit'}" for number, line in enumerate(text))
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


OLD = (40_803, 40_810, 40_799, 40_806)


def test_counted_instructions_are_compared_in_their_own_words(file: Path) -> None:
    new = (43_455, 43_460, 43_449, 43_462)
    path = write_counts(file, "instructions", old=OLD, new=new)
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
    file: Path, old: Sequence[float], new: Sequence[float], verdict: str, said: str
) -> None:
    path = write_counts(file, "instructions", old=old, new=new)
    found = only(json.loads(call("paired", path, "--json")[0]))
    assert found["verdict"] == verdict
    assert said in found["sentence"]
    assert (found["n_blocks"], found["dropped_blocks"]) == (min(len(old), len(new)), 0)


def test_counts_need_no_common_blocks_and_obey_margin_and_alpha(file: Path) -> None:
    rows = [f"a{number},old,{value}" for number, value in enumerate(OLD)]
    rows += [f"b{number},new,{value + 200}" for number, value in enumerate(OLD)]
    lines = ("block,treatment,value,unit", *(f"{row},instructions/op" for row in rows))
    file.write_text("\n".join(lines), encoding="utf-8")
    found = only(json.loads(call("paired", file, "--json")[0]))
    assert (found["verdict"], found["n_blocks"]) == ("regression", 4)
    assert "(0.47 % to 0.51 %; 41,004 and 40,804 instructions/op)" in found["sentence"]
    wide = only(json.loads(call("paired", file, "--json", "--margin", "1")[0]))
    assert wide["verdict"] == "equivalent"
    sure = only(json.loads(call("paired", file, "--json", "--alpha", "0.001")[0]))
    assert sure["low"] < found["low"] < found["high"] < sure["high"]
