import bz2
import contextlib
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.errors import HostError
from millrace.servers.unpack import Unusable, extract_member, unpack

Member = tuple[str, bytes, str]  # name, kind, content or target of the link


def make_tar(path: Path, members: Sequence[Member], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, kind, text in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o755
            content = b""
            if kind == tarfile.REGTYPE:
                content = text.encode()
                info.size = len(content)
            else:
                info.linkname = text
            archive.addfile(info, io.BytesIO(content))
    return path


def everything_in(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


OUTSIDE: dict[str, list[Member]] = {
    "dots": [("../evil", tarfile.REGTYPE, "x")],
    "dots inside": [("a/../../evil", tarfile.REGTYPE, "x")],
    "absolute": [("/tmp/millrace-evil", tarfile.REGTYPE, "x")],
    "link out": [("a", tarfile.SYMTYPE, "../evil")],
    "absolute link": [("a", tarfile.SYMTYPE, "/etc/passwd")],
    "file through a link": [("a", tarfile.SYMTYPE, ".."), ("a/evil", tarfile.REGTYPE, "x")],
    "link through a link": [("a", tarfile.SYMTYPE, ".."), ("a/evil", tarfile.SYMTYPE, "b")],
    "links that lead out together": [
        ("m", tarfile.SYMTYPE, "a/b/l/.."),
        ("a/b/keep", tarfile.REGTYPE, "x"),
        ("a/b/l", tarfile.SYMTYPE, "../.."),
    ],
    "hard link out": [("a", tarfile.LNKTYPE, "../evil")],
    "device": [("a", tarfile.CHRTYPE, "")],
    "pipe": [("a", tarfile.FIFOTYPE, "")],
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_what_reaches_outside_is_refused(kind: str, tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "evil.tar.gz", OUTSIDE[kind])
    with pytest.raises(HostError, match=r"evil\.tar\.gz is not safe to unpack"):
        unpack(archive, tmp_path / "in/target")
    assert everything_in(tmp_path) <= {"evil.tar.gz", "in"} | {
        name for name in everything_in(tmp_path) if name.startswith("in/target")
    }
    assert not Path("/tmp/millrace-evil").exists()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (OUTSIDE["device"], "'a' is not a file, directory or link"),
        (
            [("a", tarfile.SYMTYPE, "a"), ("a/a/a", tarfile.SYMTYPE, "a")],
            r"odd\.tar\.gz is damaged",
        ),
        ([("share/x", tarfile.SYMTYPE, "")], "the link 'x' has an empty target"),
    ],
    ids=["a device", "links that lead to each other", "a link to nothing"],
)
def test_odd_members_are_refused_with_a_reason(
    members: list[Member], why: str, tmp_path: Path
) -> None:
    with pytest.raises(Unusable, match=why):
        unpack(make_tar(tmp_path / "odd.tar.gz", members), tmp_path / "target")


def test_a_zip_that_reaches_outside_is_refused(tmp_path: Path) -> None:
    for name in ("../evil", "/evil"):
        with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
            archive.writestr(name, "x")
        with pytest.raises(HostError, match="not safe"):
            unpack(tmp_path / "evil.zip", tmp_path / "in/target")
        assert not (tmp_path / "in/evil").exists()


part = st.sampled_from(["a", "b", "c", "..", "."])
path_text = st.lists(part, min_size=1, max_size=4).map("/".join)
members = st.lists(
    st.tuples(
        path_text, st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]), path_text
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(members)
@example([("a", tarfile.SYMTYPE, "a"), ("a/a/a", tarfile.SYMTYPE, "a")])
@example([("a", tarfile.SYMTYPE, "a"), ("a/b", tarfile.REGTYPE, "x")])
@example([("a" * 300, tarfile.REGTYPE, "x")])
@example([("/".join(["a" * 200] * 30), tarfile.REGTYPE, "x")])
def test_no_archive_writes_or_points_outside(content: list[Member]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch) / "room"
        room.mkdir()
        archive = make_tar(Path(scratch) / "some.tar", content, "w")
        target = room / "target"
        try:
            unpack(archive, target)
        except HostError:
            shutil.rmtree(target, ignore_errors=True)
            assert list(room.iterdir()) == []
            return
        assert [path.name for path in room.iterdir()] == ["target"]
        for path in target.rglob("*"):
            assert path.resolve().is_relative_to(target.resolve())


def test_what_is_wanted_arrives_below_its_root(tmp_path: Path) -> None:
    archive = make_tar(
        tmp_path / "a.tar.xz",
        [
            ("./top/bin/mysqld", tarfile.REGTYPE, "program"),
            ("top/lib/libx.so.1.0", tarfile.REGTYPE, "library"),
            ("top/lib/libx.so.1", tarfile.SYMTYPE, "libx.so.1.0"),
            ("top/lib/same", tarfile.LNKTYPE, "top/lib/libx.so.1.0"),
            ("top/lib/dangling", tarfile.SYMTYPE, "not-kept"),
            ("top/not-wanted", tarfile.REGTYPE, "x"),
            ("other/file", tarfile.REGTYPE, "x"),
        ],
        "w:xz",
    )
    target = tmp_path / "target"
    unpack(archive, target, root="top", keep=lambda path: path.name != "not-wanted")
    assert everything_in(target) == {"bin", "bin/mysqld", "lib"} | {
        f"lib/{name}" for name in ("libx.so.1.0", "libx.so.1", "same")
    }
    assert (target / "lib/libx.so.1").read_text() == "library"
    assert (target / "bin/mysqld").stat().st_mode & 0o777 == 0o755


def test_a_zip_keeps_who_may_execute(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.jar", "w") as archive:
        for name, mode in (("bin/mysqld", 0o100700), ("share/x.sql", 0o100600)):
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, "x")
    unpack(tmp_path / "a.jar", tmp_path / "target")
    assert (tmp_path / "target/bin/mysqld").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "target/share/x.sql").stat().st_mode & 0o777 == 0o644


def test_an_archive_in_an_archive_can_be_taken_out(tmp_path: Path) -> None:
    inner = make_tar(tmp_path / "inner.tar.gz", [("bin/mysqld", tarfile.REGTYPE, "program")])
    with zipfile.ZipFile(tmp_path / "outer.jar", "w") as archive:
        archive.write(inner, "deep/inner.tar.gz")
    taken = extract_member(tmp_path / "outer.jar", "deep/inner.tar.gz", tmp_path / "scratch")
    assert taken.read_bytes() == inner.read_bytes()
    with pytest.raises(HostError, match=r"outer\.jar has no member deep/other"):
        extract_member(tmp_path / "outer.jar", "deep/other", tmp_path / "scratch")


def test_zstd_is_known(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", [("file", tarfile.REGTYPE, "content" * 10_000)], "w")
    subprocess.run(["zstd", "-q", tmp_path / "a.tar", "-o", tmp_path / "a.tar.zst"], check=True)
    unpack(tmp_path / "a.tar.zst", tmp_path / "target")
    assert (tmp_path / "target/file").read_text() == "content" * 10_000


def test_a_debian_package_is_known(tmp_path: Path) -> None:
    (tmp_path / "package/DEBIAN").mkdir(parents=True)
    (tmp_path / "package/usr/sbin").mkdir(parents=True)
    (tmp_path / "package/usr/sbin/mysqld").write_text("program")
    (tmp_path / "package/DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nDescription: x\n"
        "Maintainer: x <x@example.test>\n"
    )
    subprocess.run(
        ["dpkg-deb", "--build", tmp_path / "package", tmp_path / "x.deb"],
        check=True,
        capture_output=True,
    )
    unpack(tmp_path / "x.deb", tmp_path / "target", root="usr")
    assert (tmp_path / "target/sbin/mysqld").read_text() == "program"


def a_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            archive.writestr(f"some/file-{method}", "content" * 30, compress_type=method)
        link = zipfile.ZipInfo("some/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "file-8")
    return path


def a_tar(path: Path, mode: str) -> Path:
    content: list[Member] = [
        ("some/file", tarfile.REGTYPE, "content" * 30),
        ("some/" + "deep/" * 40 + "file", tarfile.REGTYPE, "x"),
        ("some/link", tarfile.SYMTYPE, "file"),
        ("some/same", tarfile.LNKTYPE, "some/file"),
    ]
    return make_tar(path, content, mode)


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:bz2", "w:xz"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_is_reported_without_traceback(kind: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "archive"
        content = bytearray(
            (a_zip(archive) if kind == "zip" else a_tar(archive, kind)).read_bytes()
        )
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        archive.write_bytes(content)
        with contextlib.suppress(HostError):
            unpack(archive, Path(scratch) / "target")


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
def test_a_truncated_archive_is_damaged(mode: str, tmp_path: Path) -> None:
    text = "".join(map(str, range(100_000)))
    whole = make_tar(tmp_path / "whole", [("file", tarfile.REGTYPE, text)], mode).read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HostError, match="cut is damaged"):
        unpack(tmp_path / "cut", tmp_path / "target")


@pytest.mark.parametrize("program", ["zstd", "dpkg-deb"])
def test_damage_found_by_another_program_is_reported(program: str, tmp_path: Path) -> None:
    magic = {"zstd": b"\x28\xb5\x2f\xfd", "dpkg-deb": b"!<arch>\n"}[program]
    (tmp_path / "bad").write_bytes(magic + b"nothing good" * 100)
    with pytest.raises(HostError, match="bad is damaged"):
        unpack(tmp_path / "bad", tmp_path / "target")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.servers.unpack._ALWAYS_ALLOWED_BYTES", 0)
    archive, content = tmp_path / "a", "0" * 20_000_000
    if kind == "tar":
        make_tar(archive, [("bin/mysqld", tarfile.REGTYPE, content)])
    else:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
            opened.writestr("bin/mysqld", content)
    with pytest.raises(Unusable, match=r"not safe to unpack: it unpacks to more than [\d,]+ bytes"):
        unpack(archive, tmp_path / "into")
    assert (tmp_path / "into/bin/mysqld").stat().st_size <= 100 * archive.stat().st_size


def test_an_archive_of_very_many_members_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.servers.unpack._MOST_MEMBERS", 10)
    members = [(f"m{i}", tarfile.REGTYPE, "x") for i in range(11)]
    with pytest.raises(Unusable, match="more than 10 members"):
        unpack(make_tar(tmp_path / "a", members), tmp_path / "into")


def test_a_link_in_a_zip_is_a_short_text(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as opened:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        opened.writestr(link, "x" * 5000)
    with pytest.raises(Unusable, match="the link 'link' is too long"):
        unpack(tmp_path / "a", tmp_path / "into")


def test_non_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>not found</html>" * 100)
    with pytest.raises(HostError, match=r"page\.html is damaged or of an unknown type"):
        unpack(tmp_path / "page.html", tmp_path / "target")


def test_a_program_that_is_needed_to_unpack_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HostError, match="zstd is not installed"):
        unpack(tmp_path / "a.tar.zst", tmp_path / "target")


def test_keep_receives_the_path_below_the_root(tmp_path: Path) -> None:
    asked: list[PurePosixPath] = []

    def keep(path: PurePosixPath) -> bool:
        asked.append(path)
        return False

    archive = make_tar(tmp_path / "a.tar.gz", [("r/a/b", tarfile.REGTYPE, "x")])
    unpack(archive, tmp_path / "t", root="r", keep=keep)
    assert asked == [PurePosixPath("a/b")]
    assert everything_in(tmp_path / "t") == set()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_without_end_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, 3 << 30
    archive = tmp_path / "a.tar"
    archive.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    with pytest.raises(Unusable, match="a header of 3,221,225,472 bytes"):
        unpack(archive, tmp_path / "out")


def test_a_long_name_is_unpacked(tmp_path: Path) -> None:
    name = "/".join(["directory-of-a-long-name"] * 12)
    archive = make_tar(tmp_path / "a.tar.gz", [(name, tarfile.REGTYPE, "x")])
    unpack(archive, tmp_path / "out")
    assert (tmp_path / "out" / name).read_text() == "x"


def far_too_much(name: str, kind: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """Return an archive whose one member, or its header, is 200 MiB of zeros.

    The header's zeros are a compressed stream; the member's are repeated streams of 8 MiB.
    """
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, 200 << 20
    return pack(member.tobuf(tarfile.GNU_FORMAT)) + 25 * pack(bytes(8 << 20)) + pack(bytes(10240))


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
    with pytest.raises(Unusable, match="'bin/mysqld' uses an unsupported compression method"):
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
    with pytest.raises(Unusable, match="global header fields"):
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
    with pytest.raises(HostError, match=r"unpacking a\.tar\.gz needs 1 more bytes"):
        unpack(archive, tmp_path / "into")
