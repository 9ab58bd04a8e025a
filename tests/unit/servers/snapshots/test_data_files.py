"""Test that copies are equal to the last byte, with holes, and that digests cover all bytes."""

import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.servers.snapshots import data_files
from millrace.servers.snapshots.data_files import copy_tree

pytestmark = pytest.mark.disk

Piece = tuple[bool, int]  # data or a hole, and its bytes


def write_pieces(file: Path, pieces: list[Piece]) -> None:
    source = random.Random(str(pieces))
    with file.open("wb") as out:
        for is_data, size in pieces:
            if is_data:
                out.write(source.randbytes(size))
            else:
                out.seek(size, os.SEEK_CUR)
        out.truncate()


def copied(source: Path, target: Path) -> data_files.Copied:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return copy_tree(source, target, None)


sizes = st.one_of(
    st.integers(0, 20_000), st.sampled_from([4096, 65_536, 65_537, 1 << 20, (1 << 21) + 77])
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.booleans(), sizes), max_size=5), max_size=4))
def test_any_files_are_copied(own_places: Path, files: list[list[Piece]]) -> None:
    source, target = own_places / "source", own_places / "target"
    shutil.rmtree(source, ignore_errors=True)
    (source / "deep/er").mkdir(parents=True)
    for number, pieces in enumerate(files):
        write_pieces(source / ("deep/er" if number % 2 else ".") / f"f{number}", pieces)
    result = copied(source, target)
    left = {str(p.relative_to(source)): p for p in source.rglob("*")}
    right = {str(p.relative_to(target)): p for p in target.rglob("*")}
    assert left.keys() == right.keys()
    for name, path in left.items():
        if path.is_file():
            assert path.read_bytes() == right[name].read_bytes()
    assert result.bytes == sum(p.stat().st_size for p in left.values() if p.is_file())
    shutil.rmtree(source)
    shutil.rmtree(target)


@given(st.lists(st.integers(1, 100 << 20), max_size=12).map(sorted), st.data())
def test_parts_are_the_ranges_and_no_more_than_their_share(
    marks: list[int], data: st.DataObject
) -> None:
    ranges = [(a, b) for a, b in zip(marks[::2], marks[1::2], strict=False) if a < b]
    parts = list(data_files._parts(ranges))
    assert all(sum(end - start for start, end in part) <= data_files._PART_BYTES for part in parts)
    joined: list[tuple[int, int]] = []
    for start, end in (each for part in parts for each in part):
        assert start < end
        if joined and joined[-1][1] == start and (start, end) not in ranges:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    assert sum(e - s for s, e in joined) == sum(e - s for s, e in ranges)
    assert [s for s, _ in joined][:1] == [s for s, _ in ranges][:1]
    assert [e for _, e in joined][-1:] == [e for _, e in ranges][-1:]


def test_holes_stay_holes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    few = [(True, 1 << 20), (False, 8 << 20), (True, 1 << 20)]
    many = [piece for _ in range(200) for piece in ((True, 4096), (False, 12_288))]
    write_pieces(source / "few", few)
    write_pieces(source / "many", [*many, (True, 5)])
    os.sync()
    if (source / "few").stat().st_blocks * 512 > 3 << 20:
        pytest.skip("this file system has no holes")
    copied(source, tmp_path / "target")
    for name in ("few", "many"):
        made, original = (tmp_path / "target" / name).stat(), (source / name).stat()
        assert made.st_size == original.st_size
        assert made.st_blocks <= original.st_blocks
        assert (tmp_path / "target" / name).read_bytes() == (source / name).read_bytes()


def test_modes_and_the_owner_are_kept_but_no_program_runs_as_its_new_owner(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "d").mkdir(parents=True)
    (source / "d").chmod(0o2750)
    (source / "d/f").write_bytes(b"x" * 100_000)
    (source / "d/f").chmod(0o6640)
    target.mkdir()
    owner = (12_345, 12_345) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    copy_tree(source, target, owner[0] if os.geteuid() == 0 else None)
    for name, mode in (("d", 0o750), ("d/f", 0o640)):
        status = (target / name).stat()
        assert stat.S_IMODE(status.st_mode) == mode
        assert (status.st_uid, status.st_gid) == owner


def test_a_file_that_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "f").write_bytes(b"new")
    (target / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        copy_tree(source, target, None)
    assert (target / "f").read_bytes() == b"old"


def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_bytes(os.urandom(300_000))
    can = subprocess.run(
        ["cp", "--reflink=always", source / "f", tmp_path / "clone"],
        capture_output=True,
        check=False,
    )
    assert copied(source, tmp_path / "target").how == ("copy" if can.returncode else "reflink")


def cached_bytes(directory: Path) -> int:
    files = data_files.files_below(directory)
    listing = subprocess.run(
        ["fincore", "--bytes", "--noheadings", "--output", "RES", *files],
        capture_output=True,
        text=True,
        check=True,
    )
    return sum(map(int, listing.stdout.split()))


@pytest.mark.skipif(shutil.which("fincore") is None, reason="fincore is needed to look")
def test_files_are_brought_into_or_out_of_the_page_cache(own_places: Path) -> None:
    directory = own_places / "cached"
    (directory / "d").mkdir(parents=True)
    total = 0
    for name, size in (("a", 3 << 20), ("d/b", 10_000), ("d/c", 1 << 20)):
        (directory / name).write_bytes(os.urandom(size))
        total += size
    data_files.bring(directory, "cold")
    if cached_bytes(directory):
        pytest.skip("this file system lives in memory")
    data_files.bring(directory, "warm")
    assert cached_bytes(directory) >= 0.99 * total  # the kernel may reclaim a page at any time
    data_files.bring(directory, "cold")
    assert cached_bytes(directory) == 0
    shutil.rmtree(directory)


def test_holes_are_not_read_into_the_page_cache(own_places: Path) -> None:
    directory = own_places / "holes"
    directory.mkdir(parents=True)
    for name in ("a", "b", "c", "d"):
        with (directory / name).open("wb") as file:
            file.truncate(8 << 40)
    source = (
        "import sys; from pathlib import Path; from millrace.servers.snapshots import data_files; "
        "data_files.bring(Path(sys.argv[1]), 'warm')"
    )
    # Reading the holes would take hours.
    subprocess.run([sys.executable, "-c", source, directory], check=True, timeout=60)
    shutil.rmtree(directory)


def test_an_interrupted_reading_ends_its_threads(
    own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = own_places / "interrupted"
    directory.mkdir(parents=True)
    for number in range(20):
        (directory / f"{number:02}").write_bytes(b"rows")
    began = threading.Event()

    def reading(_file: Path, stopped: threading.Event) -> None:
        began.set()
        assert stopped.wait(60), "nobody stopped it"

    def interrupted(*_: object, **__: object) -> NoReturn:
        assert began.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(data_files, "_read", reading)
    monkeypatch.setattr(data_files, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data_files.bring(directory, "warm")
    shutil.rmtree(directory)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, (1 << 20) + 4096, (3 << 20) + 5])
def test_all_bytes_of_a_file_count(own_places: Path, size: int) -> None:
    directory = own_places / f"digests-{size}"
    directory.mkdir()
    content = os.urandom(size)
    (directory / "a").write_bytes(content)
    kept = data_files.digests(directory, ["a"])
    assert data_files.damage(directory, kept) is None
    others = [content + b"x", content + b"\0", content[:-1], bytes(size)]
    others += [
        content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        for at in ({0, size // 2, size - 1} if size else ())
    ]
    for other in others:
        if other != content:
            (directory / "a").write_bytes(other)
            assert data_files.damage(directory, kept) == "the content of a has changed"


@pytest.mark.parametrize("size", [300_000, (4 << 20) + 300_000])
@pytest.mark.parametrize("at", [0, 70_000, 280_000])
def test_holes_count_as_zeros(tmp_path: Path, size: int, at: int) -> None:
    content = bytearray(size)
    content[at : at + 10] = b"ten bytes!"
    (tmp_path / "a").write_bytes(content)
    with (tmp_path / "b").open("wb") as file:
        file.truncate(size)
        file.seek(at)
        file.write(b"ten bytes!")
    found = data_files.digests(tmp_path, ["a", "b"])
    assert found["a"] == found["b"]
    with (tmp_path / "b").open("r+b") as file:
        file.seek(at)
        file.write(b"\0")
    assert data_files.digests(tmp_path, ["b"]) != {"b": found["b"]}


def test_a_hole_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    assert len(data_files.digests(tmp_path, ["a"])["a"]) == 40


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"rows")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        data_files.digests(tmp_path, ["a"])


@pytest.mark.skipif(shutil.which("fincore") is None, reason="fincore is needed to look")
def test_what_is_cold_stays_cold(own_places: Path) -> None:
    directory = own_places / "cold-digests"
    directory.mkdir()
    sizes = {"large": (1 << 20) + 77, "small": 10_000}
    for name, size in sizes.items():
        (directory / name).write_bytes(os.urandom(size))
    data_files.bring(directory, "cold")
    if cached_bytes(directory):
        pytest.skip("this file system lives in memory")
    data_files.digests(directory, sizes)
    assert cached_bytes(directory) == 0
