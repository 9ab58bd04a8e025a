"""Test the import of other benchmarks' output as pairs."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import UserError
from millrace.importers import hyperfine, paired, pgbench, sysbench, text_output
from millrace.importers.paired import Counts, Value
from millrace.importers.units import Measure

SYSBENCH = """\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

SQL statistics:
    queries performed:
        read:                            140000
        total:                           200000
    transactions:                        10000  ({rate} per sec.)
    queries:                             200000 (19993.10 per sec.)
    ignored errors:                      0      (0.00 per sec.)

General statistics:
    total time:                          10.0031s
"""
PGBENCH = """\
transaction type: <builtin: TPC-B (sort of)>
number of transactions actually processed: 10000/10000
latency average = 11.013 ms
initial connection time = 45.758 ms
tps = {rate} (without initial connection time)
"""
OLD_PGBENCH = """\
number of transactions actually processed: 10000/10000
tps = 85.184871 (including connections establishing)
tps = 85.296346 (excluding connections establishing)
"""


def keep(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def exported(path: Path, *results: dict[str, Any]) -> Path:
    return keep(path, json.dumps({"results": results}))


def test_a_call_of_hyperfine_is_a_block(tmp_path: Path) -> None:
    files = [
        exported(
            tmp_path / f"{number}.json",
            {"command": "old", "mean": 1.5 + number, "times": [1.0, 2.0]},
            {"command": "new", "mean": 2.5 + number, "times": [2.0, 3.0]},
        )
        for number in range(2)
    ]
    assert hyperfine.read(files).values == (
        Value("1", "old", 1.5), Value("1", "new", 2.5),
        Value("2", "old", 2.5), Value("2", "new", 3.5),
    )  # fmt: skip


def test_version_2_of_hyperfine_exports_measurements(tmp_path: Path) -> None:
    times = [{"time_wall_clock": {"value": s, "unit": "second"}} for s in (1.0, 2.0, 6.0)]
    result = {"command": "sleep 1", "name": "nap", "measurements": times}
    assert hyperfine.read([exported(tmp_path / "a.json", result)]).values == (
        Value("1", "nap", 3.0),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no results of hyperfine"),
        ('{"results": []}', "has no results of hyperfine"),
        ('{"results": [{"mean": 1.0}]}', r"results\[0\] has no command"),
        ('{"results": [{"command": "a"}]}', r"results\[0\] \(a\) has no times"),
        ('{"results": [{"command": "a", "mean": NaN}]}', "NaN is not a valid JSON number"),
        ('{"results": [{"command": "a", "measurements": [{}]}]}', "has no times"),
        ('{"results": [{"command": "a", "mean": 0}]}', "a time of 0 s has no ratio"),
        ('{"results": [{"command": "a", "mean": 1}, {"command": "a", "mean": 1}]}', "twice"),
    ],
)
def test_what_is_not_of_hyperfine_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        hyperfine.read([keep(tmp_path / "a.json", text)])
    assert "a.json" in caught.value.message
    assert caught.value.hint


def test_rates_of_sysbench_by_the_names_of_files(tmp_path: Path) -> None:
    files = [
        keep(tmp_path / f"{name}-{block}.log", SYSBENCH.format(rate=f"{rate:.2f}"))
        for block, name, rate in ((1, "old", 999.65), (1, "new", 905.0), (2, "old", 1001.5))
    ]
    assert text_output.read(sysbench.read, files).values == (
        Value("1", "old", 999.65, "999.65", Counts(10_000, 0)),
        Value("1", "new", 905.0, "905.00", Counts(10_000, 0)),
        Value("2", "old", 1001.5, "1001.50", Counts(10_000, 0)),
    )


@pytest.mark.parametrize("name", ["my-5.7-01.txt", "my-5.7_1.log", "my-5.7.1"])
def test_the_last_number_of_a_name_is_the_block(tmp_path: Path, name: str) -> None:
    file = keep(tmp_path / name, PGBENCH.format(rate="896.967014"))
    (value,) = text_output.read(pgbench.read, [file]).values
    assert value == Value("1", "my-5.7", 896.967014, "896.967014", Counts(10_000))


def test_rates_of_pgbench_before_14_are_those_without_connecting(tmp_path: Path) -> None:
    file = keep(tmp_path / "old-3.log", OLD_PGBENCH)
    (value,) = text_output.read(pgbench.read, [file]).values
    assert value == Value("3", "old", 85.296346, "85.296346", Counts(10_000))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("old.log", SYSBENCH.format(rate="1.5"), "does not tell which treatment"),
        ("old-1.log", PGBENCH.format(rate="1.5"), "has no rate of sysbench"),
        ("old-1.log", SYSBENCH.format(rate="1.5") * 2, "the output of 2 runs"),
        ("old-1.log", SYSBENCH.format(rate="0.00"), "0.00 transactions/s have no ratio"),
        ("old-1.log", SYSBENCH.format(rate="nan"), "nan transactions/s have no ratio"),
        ("old-1.log", SYSBENCH.format(rate="1-2"), "1-2 transactions/s have no ratio"),
    ],
)
def test_what_is_not_of_sysbench_is_refused(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        text_output.read(sysbench.read, [keep(tmp_path / name, text)])
    assert name in caught.value.message
    assert caught.value.hint


def test_two_files_of_one_trial_are_refused(tmp_path: Path) -> None:
    text = SYSBENCH.format(rate="1.5")
    files = [keep(tmp_path / name, text) for name in ("old-1.log", "old-01.log")]
    with pytest.raises(UserError, match="both of old in block 1"):
        text_output.read(sysbench.read, files)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    written = [Value("1", 'sleep 1, "b"', 0.1 + 0.2), Value("1", 'ä, "b"', 1e-9)]
    file = keep(
        tmp_path / "pairs.csv", paired.as_csv(written, Measure("ms", "lower"), base='ä, "b"')
    )
    pairs = paired.read(file)
    assert pairs.values == {each.treatment: {"1": each.value} for each in written}
    assert next(iter(pairs.values)) == 'ä, "b"'
    assert pairs.measure == Measure("ms", "lower")


def test_blank_lines_without_end_are_read_once(tmp_path: Path) -> None:
    log = tmp_path / "old-1.log"
    log.write_text("\n" * 2_000_000, "utf-8")
    with pytest.raises(UserError, match="has no rate of sysbench"):
        text_output.read(sysbench.read, [log])


def test_very_many_commands_of_hyperfine_are_read(tmp_path: Path) -> None:
    results = [{"command": f"c{number}", "mean": 1.0} for number in range(150_000)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"results": results}), "utf-8")
    assert len(hyperfine.read([path]).values) == 150_000


def test_true_is_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"results": [{"command": "c", "mean": True}]}), "utf-8")
    with pytest.raises(UserError, match="no times"):
        hyperfine.read([path])


def test_a_file_larger_than_a_benchmark_writes_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="larger than"):
        paired.read(path)


class _Unreadable(io.BytesIO):
    def read(self, _size: int | None = None, /) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("read", "given", "said"),
    [
        (paired.read, io.BytesIO(b"block,treatment,value\n1,a,2\n"), "has a single treatment, a,"),
        (paired.read, _Unreadable(), "cannot be read: Input/output error"),
        (lambda path: hyperfine.read([path]), io.BytesIO(b"{"), "is not JSON"),
        (lambda path: hyperfine.read([path]), io.BytesIO(b"{}"), "has no results of hyperfine"),
    ],
)
def test_errors_name_standard_input(
    read: Callable[[Path], object], given: io.BytesIO, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(given))
    with pytest.raises(UserError) as caught:
        read(Path("-"))
    assert caught.value.message.startswith(f"standard input {said}")
