"""Test that no reader of the output changes what a command does: only its work decides."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.store.store import Store
from tests.support.builders import keep
from tests.support.history_points import run_of

RUN = "nightly-1"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with files and a store that fail a gate."""
    place = tmp_path_factory.mktemp("outputs")
    keep(run_of(RUN, ratio=0.8), place / "results.sqlite")
    pairs = [f"{n},old,1000\n{n},new,{800 + n % 3}" for n in range(20)]
    (place / "pairs.csv").write_text("block,treatment,value\n" + "\n".join(pairs) + "\n")
    values = [
        f"c{n},{value}"
        for n, value in enumerate([100, 101, 99, 100.5] * 5 + [80, 81, 79, 80.5] * 5)
    ]
    (place / "series.csv").write_text("label,value\n" + "\n".join(values) + "\n")
    return place


def status(place: Path, words: str, redirected: str = "") -> tuple[int, str]:
    """Return the exit status of a command line and its messages."""
    command = f'{sys.executable} -m millrace.cli.main {words} {redirected}; echo "status $?" >&9'
    read, write = os.pipe()
    environment = {**os.environ, "MILLRACE_STORE": str(place / "results.sqlite"), "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-c", f"exec 9>&{write}; {{ {command}; }} {_PIPE.get(redirected, '')}"],
        cwd=place,
        env=environment,
        pass_fds=(write,),
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(write)
    with os.fdopen(read) as ended:
        return int(ended.read().split()[-1]), done.stderr


# What reads the output of a command with these redirections: it ends before the command writes.
_PIPE = {"": "| exec true", "2>&1": "| exec true"}
_GATES = (
    *(f"report --format {each}" for each in ("terminal", "json", "csv", "markdown", "html")),
    "analyze paired pairs.csv --direction higher",
    "analyze paired pairs.csv --json --direction higher",
    "analyze series series.csv --direction higher",
    "analyze series series.csv --json --direction higher",
)


_CLOSED = (">&-", "2>&-", ">&- 2>&- <&-")


@pytest.mark.parametrize(
    ("words", "redirected"),
    [
        *((words, "") for words in _GATES),
        *((words, "2>&1") for words in (_GATES[0], _GATES[5])),
        *((_GATES[0], redirected) for redirected in _CLOSED),
        *((words, _CLOSED[-1]) for words in (_GATES[1], _GATES[7])),
    ],
)
def test_a_gate_fails_whoever_reads(words: str, redirected: str, place: Path) -> None:
    found, said = status(place, f"{words} --fail-on regression", redirected)
    assert found == 10
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("redirected", ["2>&1", _CLOSED[-1]])
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("--help", 0),
        ("results list", 0),
        (f"results show {RUN} --json", 0),
        ("report unknown", 2),
        ("report --no-such-option", 2),
        ("servers list", 0),
    ],
)
def test_a_command_ends_alike_whoever_reads(
    words: str, wanted: int, redirected: str, place: Path
) -> None:
    found, said = status(place, words, redirected)
    assert found == wanted
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("words", [_GATES[0], _GATES[1]])
def test_output_that_cannot_be_written_is_an_error_and_messages_are_not(
    words: str, place: Path
) -> None:
    found, said = status(place, f"{words} --fail-on regression", ">/dev/full")
    assert found == 4
    assert "No space left on device" in said
    assert status(place, f"{words} --fail-on regression", ">/dev/null 2>/dev/full")[0] == 10


@pytest.mark.parametrize("descriptor", [1, 2])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_pipe_that_another_program_made_non_blocking_is_waited_for(
    descriptor: int, is_read: bool, place: Path
) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.write(write, b"x" * 65_536)
    words = f"report --format json --fail-on regression >&{write} 2>/dev/null"
    if descriptor == 2:
        words = "report unknown >/dev/null 2>&" + str(write)
    command = f"exec {sys.executable} -m millrace.cli.main {words}"
    environment = {**os.environ, "MILLRACE_STORE": str(place / "results.sqlite")}
    with subprocess.Popen(
        ["bash", "-c", command], cwd=place, env=environment, pass_fds=(write,)
    ) as begun:
        os.close(write)
        with pytest.raises(subprocess.TimeoutExpired):
            begun.wait(timeout=4)  # nobody reads yet
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read().lstrip(b"x") if is_read else b""
    assert begun.returncode == (10 if descriptor == 1 else 2)
    if is_read:
        assert json.loads(said)["run"]["id"] == RUN if descriptor == 1 else said


def test_no_file_is_written_to_by_what_was_meant_for_a_closed_stream(place: Path) -> None:
    """A file that is opened next would else get the descriptor of the closed stream."""
    for words in (f"results remove {RUN} --yes", "results list"):
        assert status(place, words, ">&- 2>&- <&-")[0] == 0
    with Store.open(place / "results.sqlite", read_only=True) as store:
        assert store.list_runs() == []
