import re
from importlib import resources

from millrace.servers import catalogue
from millrace.servers.sources.coordinates import Deb, Directory


def test_every_server_of_the_two_families_is_there() -> None:
    entries = catalogue.entries()
    assert len(entries) == 24
    assert {entry.family for entry in entries.values()} == {"mysql", "mariadb"}
    for name, entry in entries.items():
        assert name == entry.name
        assert name.startswith(f"{entry.family}-{entry.version}")
        assert entry.symbols in ("DWARF", "symbol table", "dynsym")


def test_every_source_is_pinned() -> None:
    sources = [source for entry in catalogue.entries().values() for source in entry.sources]
    assert all(re.fullmatch(r"[0-9a-f]{64}", source.sha256) for source in sources)
    assert all(source.size_bytes > 1_000_000 for source in sources)
    assert not any(isinstance(source.coordinate, Directory) for source in sources)
    assert len({(source.sha256, source.plugins) for source in sources}) == len(sources)
    plugins = [plugin for source in sources for plugin in source.plugins]
    assert all(re.fullmatch(r"[0-9a-f]{64}", plugin.sha256) for plugin in plugins)
    assert all(plugin.coordinate.version is not None for plugin in plugins)


def test_packages_of_debian_are_pinned_to_their_version() -> None:
    for entry in catalogue.entries().values():
        for coordinate in (source.coordinate for source in entry.sources):
            if isinstance(coordinate, Deb):
                assert coordinate.version is not None
                assert catalogue.package_release(coordinate.version) == entry.version


def test_the_name_of_a_suite_is_no_server_and_has_no_version() -> None:
    assert not catalogue.suites().keys() & catalogue.entries().keys()
    assert all(suite.package.version is None for suite in catalogue.suites().values())


def test_no_host_is_named() -> None:
    text = resources.files("millrace.servers").joinpath("catalogue.toml").read_text("utf-8")
    assert "//" not in text


def test_libraries_that_hosts_lack_have_packages() -> None:
    assert catalogue.libraries()["libaio.so.1"].package == "libaio1"
