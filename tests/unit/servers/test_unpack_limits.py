"""Test that no archive unpacks without limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import HostError
from millrace.servers.unpack import Unusable, unpack
from tests.unit.servers.test_unpack import far_too_much, make_tar


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_members_that_are_not_wanted_count_too(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.servers.unpack._ALWAYS_ALLOWED_BYTES", 0)
    archive = tmp_path / "a"
    archive.write_bytes(far_too_much("doc/readme", tarfile.REGTYPE, pack))
    with pytest.raises(Unusable, match=r"it unpacks to more than [\d,]+ bytes"):
        unpack(archive, tmp_path / "into", keep=lambda path: path.parts[0] == "bin")


def test_what_follows_the_end_of_an_archive_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.servers.unpack._ALWAYS_ALLOWED_BYTES", 0)
    plain = make_tar(tmp_path / "plain", [("a", tarfile.REGTYPE, "x")], "w").read_bytes()
    squeezed = subprocess.run(
        ["zstd", "-q"], input=plain + bytes(50 << 20), capture_output=True, check=True
    )
    (tmp_path / "a").write_bytes(squeezed.stdout)
    with pytest.raises(Unusable, match=r"it unpacks to more than [\d,]+ bytes"):
        unpack(tmp_path / "a", tmp_path / "into")


def test_decompressor_respects_the_requested_size(tmp_path: Path) -> None:
    member = tarfile.TarInfo("doc/readme")
    member.size = 128 << 20
    archive = tmp_path / "a"
    archive.write_bytes(bz2.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(member.size)))
    tracemalloc.start()
    try:
        with pytest.raises(Unusable, match="it unpacks to more than"):
            unpack(archive, tmp_path / "into", keep=lambda _: False)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 32 << 20


def test_headers_of_many_members_are_not_kept(tmp_path: Path) -> None:
    members = []
    for i in range(40):
        member = tarfile.TarInfo(f"doc/{i}")
        member.pax_headers = {"comment": "a" * 900_000}
        members.append(member)
    with tarfile.open(tmp_path / "a", "w:gz", format=tarfile.PAX_FORMAT) as opened:
        for member in members:
            opened.addfile(member)
    tracemalloc.start()
    try:
        unpack(tmp_path / "a", tmp_path / "into")
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 16 << 20


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_is_compressed_in_an_unusual_way_is_refused(tmp_path: Path, kind: int) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w", kind) as opened:
        opened.writestr("bin/mysqld", "x")
    with pytest.raises(Unusable, match="'bin/mysqld' is compressed as no zip of a server is"):
        unpack(tmp_path / "a", tmp_path / "into")


def _extended(type_: bytes, fields: bytes) -> bytes:
    header = tarfile.TarInfo("header")
    header.type = type_
    header.size = len(fields)
    padding = b"\0" * (-len(fields) % tarfile.BLOCKSIZE)
    return header.tobuf(tarfile.USTAR_FORMAT) + fields + padding


def test_a_number_that_is_too_long_for_one_is_damage(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(_extended(tarfile.XHDTYPE, b"9" * 5000 + b" path=x\n") + b"\0" * 2048)
    with pytest.raises(Unusable):
        unpack(archive, tmp_path / "into")


def test_many_fields_for_all_members_are_refused(tmp_path: Path) -> None:
    fields = b"".join(b"%d k%05d=v\n" % (len(b"12 k00000=v\n"), n) for n in range(500))
    archive = tmp_path / "a.tar"
    member = tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT)
    archive.write_bytes(_extended(tarfile.XGLTYPE, fields) + member + b"\0" * 2048)
    with pytest.raises(Unusable, match="fields for all members"):
        unpack(archive, tmp_path / "into")


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar.gz", [("share/x", tarfile.SYMTYPE, "")])
    with pytest.raises(Unusable):
        unpack(archive, tmp_path / "into")


def test_a_zip_of_very_many_members_is_refused_before_its_directory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for number in range(3):
            opened.writestr(f"f{number}", b"")
    monkeypatch.setattr("millrace.servers.unpack._MOST_MEMBERS", 2)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(Unusable, match="more than 2 members"):
        unpack(archive, tmp_path / "into")


def test_an_archive_that_would_fill_the_disk_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make_tar(tmp_path / "a.tar.gz", [("a", tarfile.REGTYPE, "x")])
    usage = shutil.disk_usage(tmp_path)._replace(free=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(HostError, match=r"unpacking a\.tar\.gz wants 1 bytes more"):
        unpack(archive, tmp_path / "into")
