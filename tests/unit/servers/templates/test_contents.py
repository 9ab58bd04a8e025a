"""Digests of files are of all their bytes, whichever way they are read."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from millrace.servers.templates import contents, page_cache
from tests.unit.servers.templates.test_copying import cached_bytes


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, (1 << 20) + 4096, (3 << 20) + 5])
def test_all_bytes_of_a_file_count(own_places: Path, size: int) -> None:
    directory = own_places / f"digests-{size}"
    directory.mkdir()
    content = os.urandom(size)
    (directory / "a").write_bytes(content)
    expected = hashlib.blake2b(content, digest_size=20).hexdigest()
    assert contents.digests(directory, ["a"]) == {"a": expected}
    assert contents.damage(directory, {"a": expected}) is None
    (directory / "a").write_bytes(content + b"x")
    assert contents.damage(directory, {"a": expected}) == "a holds other bytes than were kept"


def test_holes_count_as_zeros(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(300_000)
    zeros = hashlib.blake2b(bytes(300_000), digest_size=20).hexdigest()
    assert contents.digests(tmp_path, ["a"]) == {"a": zeros}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"rows")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        contents.digests(tmp_path, ["a"])


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
    contents.digests(directory, sizes)
    assert cached_bytes(directory) == 0
