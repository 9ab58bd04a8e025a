"""Test how counts are read that a server left, and how much is driven."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.collect.counting import callgrind
from millrace.errors import TrialFailed
from millrace.trial import counting
from millrace.trial.counting import (
    EXTENTS,
    Extent,
    extent_for,
    extent_of,
    read_dumps,
    warming_for,
)

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
    monkeypatch.setattr(counting, "_MOST_FILES", 0)
    with pytest.raises(TrialFailed, match="callgrind wrote 1 files"):
        read_dumps(place)


@pytest.mark.parametrize(
    ("transaction_s", "extent"),
    [
        (0.0, Extent(80, 480)), (0.0166, Extent(80, 480)), (0.02, Extent(30, 180)),
        (0.13, Extent(10, 60)), (0.3, Extent(4, 24)), (1.0, Extent(1, 6)), (100.0, Extent(1, 6)),
    ],
)  # fmt: skip
def test_slow_transactions_are_fewer(transaction_s: float, extent: Extent) -> None:
    assert extent_for(transaction_s) == extent


@pytest.mark.parametrize(
    ("data_bytes", "extent", "warming"),
    [
        (20_000_000, EXTENTS[0], 17_090), (28_000_000, EXTENTS[0], 23_926),
        (29_000_000, EXTENTS[0], 0), (2_000_000, EXTENTS[1], 1_709), (2_000_000, EXTENTS[-1], 0),
    ],
)  # fmt: skip
def test_an_adaptive_index_is_finished_or_hardly_begun(
    data_bytes: int, extent: Extent, warming: int
) -> None:
    assert warming_for(data_bytes, extent) == warming


def test_an_extent_is_known_by_its_longer_sessions() -> None:
    assert [extent_of(each.many) for each in EXTENTS] == list(EXTENTS)
