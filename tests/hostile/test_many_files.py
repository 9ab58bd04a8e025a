"""Test a server that fills its data directory with more or deeper files than anybody counts."""

from pathlib import Path

import pytest

from millrace import databases
from millrace.errors import TrialFailed
from millrace.servers.instances import ownership
from millrace.servers.snapshots import manifest
from millrace.trial.sizes import sizes
from tests.support.deep_directories import deep

LEVELS = 1_000


def test_files_and_directories_are_counted_up_to_a_bound(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.ibd").write_bytes(b"rows")
        (tmp_path / f"db{number}").mkdir()
    assert len(list(manifest.walk(tmp_path, most=20))) == 10
    with pytest.raises(TrialFailed, match=r"holds more than 19 files and directories"):
        list(manifest.walk(tmp_path, most=19))


def test_the_sizes_of_endless_levels_are_a_clear_failure(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with deep(data, LEVELS), pytest.raises(TrialFailed) as failed:
        sizes(data, databases.get("mysql").snapshots, 1)
    assert failed.value.message == (
        f"the data directory {data} holds more than 100 levels of directories"
    )


def test_the_sizes_of_endless_names_are_a_clear_failure(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with (
        deep(data, 20, "d" * 250),
        pytest.raises(TrialFailed, match="names longer than the kernel's limit") as failed,
    ):
        sizes(data, databases.get("mysql").snapshots, 1)
    assert len(failed.value.message) < 300


def test_many_files_and_levels_are_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "/".join(["d"] * 200)).mkdir(parents=True)
    for number in range(300):
        (data / f"{number}").touch()
        (data / f"d{number}").mkdir()
    ownership.remove_tree(data)
    assert not data.exists()
