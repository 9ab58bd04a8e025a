from __future__ import annotations

import re
from importlib import resources

from millrace.servers import catalogue
from millrace.servers.sources.coordinates import Directory


def test_every_server_of_the_two_families_is_there() -> None:
    entries = catalogue.entries()
    assert len(entries) == 20
    assert {entry.family for entry in entries.values()} == {"mysql", "mariadb"}
    for name, entry in entries.items():
        assert name == entry.name == f"{entry.family}-{entry.version}"
        assert entry.symbols in ("DWARF", "symbol table", "dynsym")


def test_every_source_is_pinned() -> None:
    sources = [source for entry in catalogue.entries().values() for source in entry.sources]
    assert all(re.fullmatch(r"[0-9a-f]{64}", source.sha256) for source in sources)
    assert all(source.size_bytes > 1_000_000 for source in sources)
    assert not any(isinstance(source.coordinate, Directory) for source in sources)
    assert len({source.sha256 for source in sources}) == len(sources)


def test_no_host_is_named() -> None:
    text = resources.files("millrace.servers").joinpath("catalogue.toml").read_text("utf-8")
    assert "//" not in text


def test_libraries_that_hosts_lack_have_packages() -> None:
    assert catalogue.libraries()["libaio.so.1"].package == "libaio1"
