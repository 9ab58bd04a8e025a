from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from millrace.servers import elf, libraries, provenance
from millrace.servers.model import Artefact, Provenance
from tests.unit.servers import small_servers

ORIGIN = Provenance(source="dir:/x", artefacts=())


def observed(program: Path, *library_dirs: Path) -> Provenance:
    return provenance.observe(ORIGIN, program, library_dirs, own_loader=False)


def test_a_program_says_how_it_was_built(tmp_path: Path) -> None:
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


def test_symbols_are_told_apart(tmp_path: Path) -> None:
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


def package(directory: Path) -> libraries.Fetched:
    return libraries.Fetched(Artefact(f"deb:x:{directory.name}=1", "0", 1), directory)


def test_only_what_is_needed_and_not_bundled_is_laid(tmp_path: Path) -> None:
    base = tmp_path / "tree"
    bundled = small_servers.library(base / "lib/libbundled.so.1")
    wanted = small_servers.library(tmp_path / "pkg-a/usr/lib/libwanted.so.1")
    small_servers.library(tmp_path / "pkg-a/usr/lib/libbundled.so.1")
    small_servers.library(tmp_path / "pkg-b/usr/lib/libunused.so.1")
    program = small_servers.program(base / "bin/mysqld", "1.0.0", str(bundled), str(wanted))
    fetched = [package(tmp_path / "pkg-a"), package(tmp_path / "pkg-b")]
    laid = libraries.lay(program, base, fetched, tmp_path / "lib")
    assert [path.name for path in (tmp_path / "lib").iterdir()] == ["libwanted.so.1"]
    assert laid.loader is None
    assert laid.bundled_dirs == (base / "lib",)
    assert [artefact.coordinate for artefact in laid.artefacts] == ["deb:x:pkg-a=1"]
    assert libraries.lacking(program, base, ["libwanted.so.1", "libbundled.so.1", "x"]) == [
        "libwanted.so.1"
    ]


@pytest.mark.parametrize(("version", "own"), [("9999.1", True), ("2.0", False)])
def test_a_newer_c_library_brings_its_loader(version: str, own: bool, tmp_path: Path) -> None:
    base, pkg = tmp_path / "tree", tmp_path / "pkg/usr/lib"
    program = small_servers.program(base / "bin/mysqld", "1.0.0")
    for name in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"):
        pkg.mkdir(parents=True, exist_ok=True)
        (pkg / name).write_text(f"GNU C Library (Debian) stable release version {version}.\n")
    laid = libraries.lay(program, base, [package(tmp_path / "pkg")], tmp_path / "lib")
    names = {path.name for path in (tmp_path / "lib").iterdir()}
    assert names == ({"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"} if own else set())
    assert laid.loader == ("ld-linux-x86-64.so.2" if own else None)
