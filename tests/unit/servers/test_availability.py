from datetime import date
from pathlib import Path

import pytest

from millrace.errors import HostError, NotServed, UserError
from millrace.model.events import ignore
from millrace.servers import added, availability, catalogue, install
from millrace.servers.availability import Availability
from millrace.servers.catalogue import Entry, Suite
from millrace.servers.sources.coordinates import Deb, Source, Tarball

pytestmark = pytest.mark.usefixtures("places")

SUITE = Suite("mariadb-trixie", "mariadb", Deb("trixie", "mariadb-server-core"))
VERSION = "1:11.8.9+ds-0+deb13u1"


def serving(monkeypatch: pytest.MonkeyPatch, *versions: str) -> None:
    monkeypatch.setattr(availability, "suite_versions", lambda package, workspace: list(versions))


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("1:11.8.9+ds-0+deb13u1", "mariadb-11.8.9-0+deb13u1"),
        ("1:10.11.19-0+deb12u1", "mariadb-10.11.19-0+deb12u1"),
        ("12.3.1~rc1-2", "mariadb-12.3.1-2"),
        ("9.7.4-2", "mariadb-9.7.4-2"),
    ],
)
def test_an_exact_name_has_the_release_and_the_package_revision(version: str, name: str) -> None:
    assert catalogue.exact_name("mariadb", version) == name


def test_a_build_of_the_catalogue_keeps_its_name_in_whichever_suite_it_is() -> None:
    sid = Deb("sid", "mariadb-server-core", "1:11.8.9+ds-4")
    assert availability.name_of("mariadb", sid) == "mariadb-11.8.9"
    security = Deb("bookworm", "mariadb-server-core", "1:10.11.19-0+deb12u1")
    assert availability.name_of("mariadb", security) == "mariadb-10.11.19"
    newer = Deb("trixie", "mariadb-server-core", "1:11.8.10-0+deb13u1")
    assert availability.name_of("mariadb", newer) == "mariadb-11.8.10-0+deb13u1"


def test_a_suite_means_the_newest_that_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    serving(monkeypatch, VERSION, "1:11.8.6-0+deb13u1")
    assert availability.newest(SUITE) == Deb("trixie", "mariadb-server-core", VERSION)
    serving(monkeypatch)
    with pytest.raises(NotServed, match="no longer has a package mariadb-server-core"):
        availability.newest(SUITE)


def test_only_an_installation_takes_the_name_of_a_suite() -> None:
    for act in (
        install.find,
        install.install,
        install.remove,
        lambda name: install.require_known([name]),
        lambda name: added.add_attached(name, "mysql", "mysql://me@db.test/"),
    ):
        with pytest.raises(UserError, match=r"not a fixed version|the catalogue already has"):
            act("mariadb-trixie")
    with pytest.raises(UserError, match="not a fixed version") as caught:
        install.find("mariadb-trixie")
    assert "millrace servers install mariadb-trixie" in str(caught.value.hint)
    assert "mariadb-trixie" not in {row.name for row in install.list_servers()}


def entry(*coordinates: str, gone: tuple[date | None, ...]) -> Entry:
    sources = tuple(
        Source(Tarball(each), 1, "0" * 64, gone=day)
        for each, day in zip(coordinates, gone, strict=True)
    )
    return Entry("mysql-5.7.99", "mysql", "5.7.99", "dynsym", sources)


def test_a_server_is_gone_when_no_source_has_it() -> None:
    day, later = date(2026, 1, 2), date(2026, 3, 4)
    assert entry("a", "b", gone=(day, None)).gone is None
    assert entry("a", "b", gone=(later, day)).gone == later


def test_a_server_that_is_gone_is_listed_as_such() -> None:
    rows = {row.name: row for row in install.list_servers()}
    assert rows["mariadb-11.8.6"].state == "gone"
    assert rows["mariadb-11.8.6"].gone_since == "2026-11-23"
    assert rows["mariadb-11.8.9-0+deb13u1"].state == "available"


def test_sources_are_tried_until_one_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def require_served(source: Source, workspace: Path) -> None:
        assert workspace.is_dir()
        match str(source.coordinate):
            case "tarball:no":
                raise NotServed("it has no such thing")
            case "tarball:silent":
                raise HostError("no answer")

    monkeypatch.setattr(availability, "require_served", require_served)
    both = (None, None)
    assert availability.ask(entry("no", "yes", gone=both)) == Availability(served=True)
    gone = Availability(served=False, reason="it has no such thing; it has no such thing")
    assert availability.ask(entry("no", "no", gone=both)) == gone
    unclear = Availability(served=None, reason="no answer; it has no such thing")
    assert availability.ask(entry("no", "silent", gone=both)) == unclear


def test_suite_resolves_to_its_newest_build(monkeypatch: pytest.MonkeyPatch) -> None:
    serving(monkeypatch, VERSION)
    exact = Availability(served=True, reason="mariadb-11.8.9-0+deb13u1")
    assert availability.ask_suite(SUITE) == exact
    serving(monkeypatch)
    assert availability.ask_suite(SUITE).served is False


def test_what_is_there_already_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = "1:11.8.10-0+deb13u1"
    serving(monkeypatch, newer)
    asked: list[tuple[str, Deb]] = []

    def add_package(name: str, family: str, package: Deb, *, on_event: object) -> None:
        asked.append((name, package))

    monkeypatch.setattr(added, "add_package", add_package)
    availability.install_newest(SUITE, ignore)
    exact = Deb("trixie", "mariadb-server-core", newer)
    assert asked == [("mariadb-11.8.10-0+deb13u1", exact)]
