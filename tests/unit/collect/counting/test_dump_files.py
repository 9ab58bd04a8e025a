"""Test how the dumps are read that a server left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.collect.counting import callgrind, dump_files
from millrace.collect.counting.dump_files import read_dumps
from millrace.errors import TrialFailed

DUMP = """\
positions: line
events: Ir
fn=(1) dispatch_command'main
0 40
totals: 40
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "tmp"
    directory.mkdir()
    return directory


def test_dumps_are_read_by_their_numbers(place: Path) -> None:
    for name in ("callgrind.out.1-01", "callgrind.out.2-01", "callgrind.out.2-14"):
        (place / name).write_text(DUMP)
    (place / "callgrind.out").touch()
    (place / "vgdb-pipe").write_text("something else")
    found = read_dumps(place)
    assert {dump: set(threads) for dump, threads in found.items()} == {1: {1}, 2: {1, 14}}
    assert found[2][14].total == 40


def test_a_dump_that_is_cut_names_its_file_and_line(place: Path) -> None:
    (place / "callgrind.out.1-01").write_text(DUMP[:-20])
    with pytest.raises(TrialFailed, match=r"callgrind\.out\.1-01, .* after line 3: "):
        read_dumps(place)


def test_links_and_pipes_are_not_followed(place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(DUMP)
    file = place / "callgrind.out.1-01"
    file.symlink_to(secret)
    with pytest.raises(TrialFailed, match="cannot be read"):
        read_dumps(place)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(TrialFailed, match="it is no file"):
        read_dumps(place)


def test_files_too_large_or_too_many_are_not_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place / "callgrind.out.1-01"
    file.touch()
    os.truncate(file, callgrind.FILE_LIMIT_BYTES + 1)
    with pytest.raises(TrialFailed, match="it has 268,435,457 bytes"):
        read_dumps(place)
    file.write_text(DUMP)
    monkeypatch.setattr(dump_files, "_MOST_FILES", 0)
    with pytest.raises(TrialFailed, match="callgrind wrote 1 files"):
        read_dumps(place)
