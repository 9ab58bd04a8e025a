"""Test files of pairs: written, read, and refused."""

import errno
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.importers import hyperfine, paired, sysbench, text_output
from millrace.importers.paired import Value
from millrace.importers.units import Measure
from tests.support.benchmark_outputs import keep, kept, of_sysbench
from tests.support.judged import call


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    written = [Value("1", 'sleep 1, "b"', 0.1 + 0.2), Value("1", 'ä, "b"', 1e-9)]
    file = keep(
        tmp_path / "pairs.csv", paired.as_csv(written, Measure("ms", "lower"), base='ä, "b"')
    )
    pairs = paired.read(file)
    assert pairs.values == {each.treatment: {"1": each.value} for each in written}
    assert next(iter(pairs.values)) == 'ä, "b"'
    assert pairs.measure == Measure("ms", "lower")


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
        (paired.read, io.BytesIO(b"block,treatment,value\n1,a,2\n"), "has only one treatment, a,"),
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


def test_counts_are_written_and_read_again(tmp_path: Path) -> None:
    texts = {
        "old-1.log": of_sysbench(rate="650.10", errors=7),
        "new-1.log": of_sysbench(rate="651.12"),
    }
    found = text_output.read(sysbench.read, kept(tmp_path, texts))
    file = tmp_path / "pairs.csv"
    file.write_text(paired.as_csv(found.values, found.measure, base="old"), encoding="utf-8")
    lines = file.read_text("utf-8").splitlines()
    assert lines[:2] == [
        "block,treatment,value,unit,direction,operations,errors",
        "1,old,650.10,transactions/s,higher,10000,7",
    ]
    pairs = paired.read(file)
    assert pairs.work["old"]["1"] == (10_000, 7, None, None)
    assert pairs.unit_of_last_digit == pytest.approx(0.01)


@pytest.mark.parametrize("count", ["-1", "1.5", "many", "9" * 30])
def test_counts_that_are_none_are_refused(tmp_path: Path, count: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(f"block,treatment,value,errors\n1,a,2,{count}\n1,b,2,0\n", encoding="utf-8")
    _, err = call("paired", str(file), status=2)
    assert "line 2, column errors" in err
