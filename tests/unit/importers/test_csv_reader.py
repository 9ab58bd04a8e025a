"""Test inputs which are not text files, or too large: a clear error, in bounded time."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import UserError
from millrace.importers import csv_reader
from millrace.importers.csv_reader import last_digit_unit, read_text
from tests.support.benchmark_outputs import keep
from tests.support.called import millrace

COMMANDS = ("paired", "series", "import hyperfine", "import sysbench", "import hammerdb")


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return tuple(request.param.split())


def refused(command: tuple[str, ...], path: Path) -> str:
    done = millrace("analyze", *command, path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert "hint:" in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
        (os.mkfifo, "is a pipe, not a file"),  # without a writer
        (os.mkdir, "is a directory"),
    ],
)
def test_what_is_not_a_file_is_refused(
    command: tuple[str, ...], tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "old-1.csv"
    make(path)
    assert said in refused(command, path)


@pytest.mark.parametrize("format_", ["hyperfine", "sysbench", "pgbench", "mysqlslap", "hammerdb"])
def test_a_device_is_refused_as_such_whatever_its_name(format_: str) -> None:
    assert "/dev/zero is a device, not a file" in refused(("import", format_), Path("/dev/zero"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ""),
        (b"\xff\xfe\x00b", "is not UTF-8 text"),
        (b"block,treatment,value\n1,a\x00,2\n", "is NUL"),
        (b"\x00" * 100_000, "is NUL"),
        (b"label,value\n\xe9,2\n", "is not UTF-8 text"),
    ],
)
def test_contents_that_are_not_text_are_refused(
    command: tuple[str, ...], tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "old-1.csv"
    path.write_bytes(content)
    assert said in refused(command, path)


def test_a_pipe_of_the_shell_is_read() -> None:
    code = "from millrace.cli.main import main; main()"
    pipe = r'<(printf "block,treatment,value\n1,old,2.5\n1,new,2.5\n")'
    script = f"exec {sys.executable} -c '{code}' analyze paired {pipe}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "new against old" in done.stdout


def test_more_rows_than_any_benchmark_writes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_reader, "MOST_ROWS", 5)
    sheet = csv_reader.Sheet(keep(tmp_path / "a.csv", "label,value\n" + "a,1\n" * 6), hint="")
    with pytest.raises(UserError, match="has more than 5 rows"):
        list(sheet.rows())


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: File name too long"):
        read_text(tmp_path / ("a" * 300))


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (["12", "11"], 1.0),
        (["1200", "1100"], 1.0),
        (["12.0", "11.0"], 1.0),
        (["12.5", "11"], 0.1),
        (["12.50", "11.00"], 0.01),
        (["1e-3"], 0.001),
        (["1e3"], 1.0),
        (["0.30000000000000004"], 0.0),
        ([], 1.0),
    ],
)
def test_the_unit_of_the_last_digit(texts: list[str], unit: float) -> None:
    assert last_digit_unit(texts) == pytest.approx(unit)
