"""Test that the record of a build matches its files, and that changes are reported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from millrace.model.servers import InstalledServer, build_facts
from millrace.servers import added, install, manifest
from millrace.servers.provenance import file_sha256
from tests.unit.servers import small_servers


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


def test_a_server_of_an_earlier_millrace_is_judged_by_its_program(vendor: InstalledServer) -> None:
    file = Path(os.environ["MILLRACE_STATE"]) / "servers/vendor" / manifest.FILE
    document = json.loads(file.read_text())
    del document["files"]
    file.write_text(json.dumps(document))
    assert found().changed == ()
    change(vendor.program)
    assert found().changed == (str(vendor.program),)
