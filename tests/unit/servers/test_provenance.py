import os
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from elftools.common.exceptions import ELFError

from millrace.errors import PermanentHostError
from millrace.host import elf
from millrace.model.servers import Artefact, InstalledServer, Provenance, build_facts
from millrace.servers import added, bundle_libraries, install, manifest, provenance
from millrace.servers.provenance import file_sha256
from tests.support import small_servers

ORIGIN = Provenance(source="dir:/x", artefacts=())


def observed(program: Path, *library_dirs: Path) -> Provenance:
    return provenance.observe(ORIGIN, program, library_dirs, own_loader=False)


def test_build_facts_come_from_the_program(tmp_path: Path) -> None:
    program = small_servers.program(tmp_path / "mysqld", "5.7.1", "-g", "-Wl,--build-id")
    seen = observed(program)
    assert seen.source == ORIGIN.source
    assert seen.program_sha256 == provenance.file_sha256(program)
    assert seen.compiler is not None
    assert seen.compiler.startswith("GCC: ")
    assert seen.symbols == "DWARF"
    assert seen.allocator == "glibc"
    assert seen.async_io == "none"
    note = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True)
    assert f"Build ID: {seen.build_id}" in note.stdout


def test_symbol_kinds_are_distinguished(tmp_path: Path) -> None:
    plain = small_servers.program(tmp_path / "plain", "1.0.0")
    stripped = small_servers.program(tmp_path / "stripped", "1.0.0", "-s")
    assert observed(plain).symbols == "symbol table"
    assert observed(stripped).symbols == "dynsym"


@pytest.mark.parametrize(
    ("name", "allocator", "async_io"),
    [
        ("libjemalloc.so.1", "jemalloc", "none"),
        ("libtcmalloc_minimal.so.4", "tcmalloc", "none"),
        ("libaio.so.1", "glibc", "libaio"),
        ("liburing.so.2", "glibc", "io_uring"),
    ],
)
def test_libraries_tell_allocator_and_async_io(
    name: str, allocator: str, async_io: str, tmp_path: Path
) -> None:
    lib = small_servers.library(tmp_path / name)
    seen = observed(small_servers.program(tmp_path / "mysqld", "1.0.0", str(lib)), tmp_path)
    assert (seen.allocator, seen.async_io) == (allocator, async_io)


def test_a_file_that_is_no_program_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert elf.needed(tmp_path / "script") == ()
    assert not elf.is_elf(tmp_path / "script")
    assert not elf.is_elf(tmp_path / "not-there")


def package(directory: Path) -> bundle_libraries.Fetched:
    return bundle_libraries.Fetched(Artefact(f"deb:x:{directory.name}=1", "0", 1), directory)


def test_only_what_is_needed_and_not_bundled_is_bundled(tmp_path: Path) -> None:
    base = tmp_path / "tree"
    bundled = small_servers.library(base / "lib/libbundled.so.1")
    wanted = small_servers.library(tmp_path / "pkg-a/usr/lib/libwanted.so.1")
    small_servers.library(tmp_path / "pkg-a/usr/lib/libbundled.so.1")
    small_servers.library(tmp_path / "pkg-b/usr/lib/libunused.so.1")
    program = small_servers.program(base / "bin/mysqld", "1.0.0", str(bundled), str(wanted))
    fetched = [package(tmp_path / "pkg-a"), package(tmp_path / "pkg-b")]
    libraries = bundle_libraries.bundle(program, base, fetched, tmp_path / "lib")
    assert [path.name for path in (tmp_path / "lib").iterdir()] == ["libwanted.so.1"]
    assert libraries.loader is None
    assert libraries.bundled_dirs == (base / "lib",)
    assert [artefact.coordinate for artefact in libraries.artefacts] == ["deb:x:pkg-a=1"]
    assert bundle_libraries.lacking(program, base, ["libwanted.so.1", "libbundled.so.1", "x"]) == [
        "libwanted.so.1"
    ]


@pytest.mark.parametrize(("version", "own"), [("9999.1", True), ("2.0", False)])
def test_a_newer_c_library_brings_its_loader(version: str, own: bool, tmp_path: Path) -> None:
    base, pkg = tmp_path / "tree", tmp_path / "pkg/usr/lib"
    program = small_servers.program(base / "bin/mysqld", "1.0.0")
    for name in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"):
        pkg.mkdir(parents=True, exist_ok=True)
        (pkg / name).write_text(f"GNU C Library (Debian) stable release version {version}.\n")
    libraries = bundle_libraries.bundle(
        program, base, [package(tmp_path / "pkg")], tmp_path / "lib"
    )
    names = {path.name for path in (tmp_path / "lib").iterdir()}
    assert names == ({"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"} if own else set())
    assert libraries.loader == ("ld-linux-x86-64.so.2" if own else None)


def with_comment(path: Path, content: bytes, *, compressed: bool) -> Path:
    """Write an ELF file with only a section for compilers' comments."""
    names = b"\0.comment\0.shstrtab\0"
    body = content
    if compressed:
        body = struct.pack("<IIQQ", 1, 0, len(content), 1) + zlib.compress(content)
    end = 64 + len(body) + len(names)
    header = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, 0, 0, end, 0, 64, 0, 0, 64, 3, 2
    )

    def section(name: int, kind: int, flags: int, begin: int, size: int) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, begin, size, 0, 0, 1, 0)

    sections = (
        section(0, 0, 0, 0, 0),
        section(1, 1, 0x800 if compressed else 0, 64, len(body)),
        section(10, 3, 0, 64 + len(body), len(names)),
    )
    path.write_bytes(header + body + names + b"".join(sections))
    return path


def test_what_compilers_wrote_is_short_and_not_compressed(tmp_path: Path) -> None:
    path = tmp_path / "mysqld"
    assert elf.read(with_comment(path, b"GCC 12\0GCC 12\0", compressed=False)).comment == (
        "GCC 12",
    )
    many = b"".join(b"%07d\0" % i for i in range(200_000))
    assert len(elf.read(with_comment(path, many, compressed=False)).comment) == 50
    with pytest.raises(ELFError, match="compressed bytes"):
        elf.read(with_comment(path, b"GCC 12\0", compressed=True))


@pytest.mark.parametrize(
    "files",
    [{"lib/a\udcff.so": "0" * 64}, {f"lib/{i}.so": "0" * 64 for i in range(20_000)}],
    ids=["no text", "very many"],
)
def test_files_that_could_not_be_recorded_are_refused(
    files: dict[str, str], tmp_path: Path
) -> None:
    layout = manifest.Layout("x", "x/bin/mysqld", "x/share")
    nothing = observed(small_servers.program(tmp_path / "mysqld", "5.7.1"))
    written = manifest.Manifest("mine", "mysql", "5.7.44", layout, nothing, files)
    with pytest.raises(PermanentHostError, match="file names that cannot be stored"):
        manifest.write(written, tmp_path)
    assert manifest.read(tmp_path) is None


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstalledServer:
    """Return a server of an archive, with a library of its own that the program needs."""
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    library = small_servers.library(tmp_path / "vendor/lib/libown.so.1")
    tree = small_servers.tree(tmp_path / "vendor", "5.7.99", str(library))
    archive = small_servers.tarball(tree, tmp_path / "vendor.tar.gz")
    return added.add_tarball("vendor", "mysql", str(archive))


def found() -> InstalledServer:
    server = install.find("vendor")
    assert isinstance(server, InstalledServer)
    return server


def change(file: Path) -> None:
    """Append to a file; its size changes, and its time of modification does not."""
    before = file.stat()
    with file.open("ab") as opened:
        opened.write(b"more")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_what_nobody_changed_is_what_was_installed(vendor: InstalledServer) -> None:
    assert found() == vendor == added.added("vendor")
    assert vendor.changed == ()
    assert {Path(name).name for name in vendor.files} == {
        "mysqld", "libown.so.1", "mysql_system_tables.sql",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["mysqld", "libown.so.1", "mysql_system_tables.sql"])
def test_a_file_that_was_changed_is_named_and_recorded_as_it_is(
    vendor: InstalledServer, name: str
) -> None:
    file = next(Path(path) for path in vendor.files if Path(path).name == name)
    change(file)
    server = found()
    assert server.changed == (str(file),)
    assert server.build_sha256 != vendor.build_sha256
    recorded = build_facts(server)
    assert recorded.program_sha256 == file_sha256(server.program)
    assert recorded.changed_files == (str(file),)
    assert (recorded.program_sha256 == build_facts(vendor).program_sha256) == (name != "mysqld")


def test_a_library_that_is_gone_or_came_is_a_change(vendor: InstalledServer) -> None:
    library = next(Path(path) for path in vendor.files if path.endswith("libown.so.1"))
    library.rename(library.with_name("away"))
    assert found().changed == (str(library),)
    library.with_name("away").rename(library)
    assert found().changed == ()
    new = vendor.library_dirs[0] / "libnew.so"
    new.touch()
    assert found().changed == (str(new),)


def test_a_program_of_another_size_of_equal_time_is_read_again(vendor: InstalledServer) -> None:
    content = vendor.program.read_bytes()
    before = vendor.program.stat()
    vendor.program.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(vendor.program, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found().changed == (str(vendor.program),)


def test_a_program_that_is_none_any_more_has_no_properties(vendor: InstalledServer) -> None:
    vendor.program.write_bytes(b"nothing")
    provenance = found().provenance
    assert provenance.compiler is None
    assert provenance.program_sha256 == file_sha256(vendor.program)
