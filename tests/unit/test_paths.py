"""Test directories set by variables: they are checked, and errors are reported."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace import paths
from millrace.campaign import preparation
from millrace.errors import UserError
from millrace.servers.disk import refusals_as_errors
from tests.support.called import millrace
from tests.support.ordinary_user import as_ordinary_user

PLACES = {
    "MILLRACE_CACHE": paths.cache_dir,
    "MILLRACE_STATE": paths.state_dir,
    "MILLRACE_WORK": paths.work_dir,
    "MILLRACE_SNAPSHOTS": paths.snapshots_dir,
    "MILLRACE_STORE": paths.default_store,
}
COMMANDS = {
    "MILLRACE_CACHE": ("servers", "list"),
    "MILLRACE_STATE": ("results", "list"),
    "MILLRACE_WORK": ("doctor",),
    "MILLRACE_SNAPSHOTS": ("snapshots", "list"),
    "MILLRACE_STORE": ("results", "list"),
}
PROGRAM = """
import sys
from contextlib import suppress
from millrace.cli.main import main
for command in {commands}:
    sys.argv = ["millrace", *command]
    with suppress(SystemExit):
        main()
"""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Return a directory that every user can reach (pytest's own are 0700)."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def refused(variable: str) -> UserError:
    with pytest.raises(UserError) as caught:
        PLACES[variable]()
    assert caught.value.hint is not None
    assert f"set {variable} to" in caught.value.hint
    return caught.value


@pytest.mark.parametrize("variable", PLACES)
def test_a_place_that_can_never_be_is_refused(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    broken = tmp_path / "broken"
    broken.symlink_to(tmp_path / "nowhere")
    for place, reason in (
        (file / "below", f"{file} is not a directory"),
        (Path("/proc/none/there"), "/proc is on a file system that cannot store files"),
        (broken / "below", f"{broken}: No such file or directory"),
    ):
        monkeypatch.setenv(variable, str(place))
        assert refused(variable).message == f"{variable}={place} cannot be used: {reason}"
    monkeypatch.setenv(variable, "~nobody-of-this-name/there")
    refused(variable)


@pytest.mark.parametrize("variable", PLACES)
def test_a_place_without_rights_is_refused(
    variable: str, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (locked := reachable / "locked").mkdir()
    locked.chmod(0o555)
    monkeypatch.setenv(variable, str(locked / "new" / "place"))
    with as_ordinary_user():
        error = refused(variable)
    assert f"no permission to create a directory in {locked}" in error.message


@pytest.mark.parametrize("variable", PLACES)
def test_a_place_that_can_be_made_is_taken(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (tmp_path, tmp_path / "not" / "yet"):
        monkeypatch.setenv(variable, str(place))
        assert PLACES[variable]() == place


def test_a_work_directory_that_may_only_be_read_names_its_variable(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work := reachable / "work").mkdir()
    work.chmod(0o555)
    monkeypatch.setenv("MILLRACE_WORK", str(work))
    with as_ordinary_user(), pytest.raises(UserError, match=f"MILLRACE_WORK={work}") as caught:
        preparation.work_directory(paths.work_dir())
    assert "set MILLRACE_WORK" in (caught.value.hint or "")
    with (
        as_ordinary_user(),
        pytest.raises(UserError, match=f"MILLRACE_WORK={work}"),
        refusals_as_errors("this"),
    ):
        (work / "file").touch()


@pytest.mark.parametrize("variable", COMMANDS)
def test_a_command_ends_with_status_2_and_its_help_is_shown(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "/proc/none/there"
    monkeypatch.setenv(variable, place)
    done = millrace(*COMMANDS[variable], status=2)
    said = " ".join(done.stderr.split())
    assert f"{variable}={place} cannot be used" in said
    assert f"hint: set {variable} to" in said
    assert millrace(*COMMANDS[variable], "--help").returncode == 0


def test_help_is_shown_by_a_process_all_of_whose_places_are_refused() -> None:
    """Test that no module needs a place when it is imported."""
    environment = {**os.environ, **dict.fromkeys(PLACES, "/proc/none/there")}
    commands = sorted({(*command, "--help") for command in COMMANDS.values()})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(commands=commands)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: millrace ") == len(commands) == 4
