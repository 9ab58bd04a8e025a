"""Test `millrace report` on a real store."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millrace.cli.report import command
from millrace.errors import HostError, UserError
from millrace.report.run.formats import FORMATS
from tests.support.builders import keep, study


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    keep(study(), path)
    return path


def report(store: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["--store", str(store), *map(str, arguments)])


def reported(store: Path, *arguments: str | Path) -> str:
    """Return the output of a report that succeeds."""
    result = report(store, *arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout


def refused(store: Path, *arguments: str | Path) -> UserError:
    """Return the error in which a report ends."""
    error = report(store, *arguments).exception
    assert isinstance(error, UserError)
    return error


def test_the_latest_run_is_shown(store: Path) -> None:
    assert "regression" in reported(store)


def test_html_goes_beside_the_store_and_its_path_is_printed(store: Path) -> None:
    path = Path(reported(store, "--format", "html").strip())
    assert path == store.parent / "reports" / "load-data-demo-20260105-1000.html"
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_json_is_data_on_stdout(store: Path) -> None:
    document = json.loads(reported(store, "load-data", "--format", "json"))
    assert document["run"]["id"] == "load-data-demo-20260105-1000"


def test_margin_and_base_judge_anew(store: Path) -> None:
    arguments = ("--format", "json", "--margin", "30", "--base", "mysql-5.7.22")
    document = json.loads(reported(store, *arguments))
    assert (document["margin"], document["base"]) == (0.3, "mysql-5.7.22")
    verdicts = {c["verdict"] for c in document["comparisons"] if c["candidate"] == "mysql-5.6.24"}
    assert verdicts == {"equivalent"}


def test_output_names_the_file(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    assert reported(store, "--format", "csv", "--output", path) == ""
    assert path.read_bytes().startswith(b"run,origin,metric,")
    assert b"\r\r\n" not in path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("no-such-run",), UserError, "no-such-run"),
        (("--base", "mysql-9.9"), UserError, "not a level"),
        (("--format", "csv", "--output", "/proc/r.csv"), UserError, "/proc/r.csv"),
        (("--format", "csv", "--output", "/dev/full"), HostError, "/dev/full"),
    ],
)
def test_report_refuses_wrong_arguments(
    store: Path, arguments: tuple[str, ...], error: type[Exception], said: str
) -> None:
    result = report(store, *arguments)
    assert isinstance(result.exception, error)
    assert said in str(result.exception)


def test_a_missing_directory_is_not_made(store: Path, tmp_path: Path) -> None:
    for parent in (tmp_path / "new", store):
        error = refused(store, "--format", "html", "--output", parent / "report.html")
        assert f"no directory {parent}" in error.message
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_such_report_is_left_as_it_is(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n', "utf-8")
    for output_format in FORMATS:
        error = refused(store, "--format", output_format, "--output", file)
        assert str(file) in error.message
        assert "another file with --output" in (error.hint or "")
        assert file.read_text("utf-8") == 'name = "mine"\n'


@pytest.mark.parametrize("output_format", FORMATS)
def test_a_report_replaces_an_earlier_one_of_its_format(
    store: Path, tmp_path: Path, output_format: str
) -> None:
    file = tmp_path / "report"
    file.touch()
    arguments = ("--format", output_format, "--output", file)
    reported(store, *arguments)
    first = file.read_bytes()
    reported(store, *arguments, "--margin", "30")
    assert file.read_bytes() != first
    refused(store, "--format", "csv" if output_format != "csv" else "json", "--output", file)


def test_what_a_symbolic_link_leads_to_is_written(store: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    reported(store, "--format", "csv", "--output", elsewhere / "old.csv")
    for name in ("old.csv", "new.csv"):
        link = tmp_path / name
        link.symlink_to(Path("elsewhere") / name)
        reported(store, "--format", "csv", "--output", link)
        assert link.is_symlink()
        assert (elsewhere / name).read_bytes().startswith(b"run,origin,metric,")
    assert sorted(entry.name for entry in elsewhere.iterdir()) == ["new.csv", "old.csv"]


def test_a_pipe_is_written_to(store: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text, "utf-8")
        reported(store, "--format", "json", "--output", pipe)
        assert json.loads(read.result())["schema"] == "millrace.report/3"
    assert pipe.is_fifo()


def test_a_device_stays_a_device(store: Path, tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    reported(store, "--format", "html", "--output", link)
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_standard_output_in_a_file_is_added_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "from pathlib import Path;"
    code += "from millrace.output_files import PAGE, write_text as w;"
    code += "w(Path('/dev/stdout'), 'report', PAGE)"
    log.write_text("before\n", "utf-8")
    with log.open("a", encoding="utf-8") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert log.read_text("utf-8") == "before\nreport"


@pytest.mark.parametrize("margin", ["0", "100", "-2", "two"])
def test_a_margin_that_cannot_be_is_a_usage_error(store: Path, margin: str) -> None:
    assert report(store, "--margin", margin).exit_code == 2
