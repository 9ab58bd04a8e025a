"""Test that digests cover all bytes of a file, by every method of reading."""

import os
import shutil
from pathlib import Path

import pytest

from millrace.servers.snapshots import digests, page_cache
from tests.unit.servers.snapshots.test_copying import cached_bytes

pytestmark = pytest.mark.disk


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, (1 << 20) + 4096, (3 << 20) + 5])
def test_all_bytes_of_a_file_count(own_places: Path, size: int) -> None:
    directory = own_places / f"digests-{size}"
    directory.mkdir()
    content = os.urandom(size)
    (directory / "a").write_bytes(content)
    kept = digests.digests(directory, ["a"])
    assert digests.damage(directory, kept) is None
    others = [content + b"x", content + b"\0", content[:-1], bytes(size)]
    others += [
        content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        for at in ({0, size // 2, size - 1} if size else ())
    ]
    for other in others:
        if other != content:
            (directory / "a").write_bytes(other)
            assert digests.damage(directory, kept) == "a holds other bytes than were kept"


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
    found = digests.digests(tmp_path, ["a", "b"])
    assert found["a"] == found["b"]
    with (tmp_path / "b").open("r+b") as file:
        file.seek(at)
        file.write(b"\0")
    assert digests.digests(tmp_path, ["b"]) != {"b": found["b"]}


def test_a_hole_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    assert len(digests.digests(tmp_path, ["a"])["a"]) == 40


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"rows")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        digests.digests(tmp_path, ["a"])


@pytest.mark.skipif(shutil.which("fincore") is None, reason="fincore is needed to look")
def test_what_is_cold_stays_cold(own_places: Path) -> None:
    directory = own_places / "cold-digests"
    directory.mkdir()
    sizes = {"large": (1 << 20) + 77, "small": 10_000}
    for name, size in sizes.items():
        (directory / name).write_bytes(os.urandom(size))
    page_cache.bring(directory, "cold")
    if cached_bytes(directory):
        pytest.skip("this file system lives in memory")
    digests.digests(directory, sizes)
    assert cached_bytes(directory) == 0
