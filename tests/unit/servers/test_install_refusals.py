"""Test what is refused of addresses, archives and names of added servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace import paths
from millrace.errors import HostError, MillraceError, NotServed, UserError
from millrace.model.servers import AttachedServer
from millrace.servers import added, catalogue, install
from millrace.servers.sources.coordinates import Deb
from millrace.servers.sources.fetch import room
from tests.unit.servers import small_origin, small_servers
from tests.unit.servers.test_install import left_in, offered, places  # noqa: F401 (a fixture)


def test_no_token_of_an_address_is_kept_or_shown(tmp_path: Path) -> None:
    archive = small_servers.tarball(small_servers.tree(tmp_path / "tree"), tmp_path / "v.tar.gz")
    query = "?sig=s3cret"
    with small_origin.serving({f"/v.tar.gz{query}": archive.read_bytes()}) as origin:
        server = added.add_tarball("mine", "mysql", f"{origin.address}/v.tar.gz{query}")
        assert server.provenance.source == f"tarball:{origin.address}/v.tar.gz"
        record = (paths.state_dir() / "servers/mine").rglob("*.json")
        assert not [file for file in record if b"s3cret" in file.read_bytes()]
        for wrong in (f"/none.tar.gz{query}", f"/v.tar.gz{query}&sig=s3cret"):
            with pytest.raises(MillraceError, match="could not be downloaded") as caught:
                added.add_tarball("other", "mysql", f"{origin.address}{wrong}")
            assert "s3cret" not in str(caught.value)
    install.remove("mine")


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://host.test/v.tar.gz", "plain HTTP"),
        ("https://user:s3cret@host.test/v.tar.gz", "no user name or password"),
    ],
)
def test_an_address_that_is_not_safe_is_refused_before_any_download(
    location: str, said: str
) -> None:
    with pytest.raises(UserError, match=said) as caught:
        added.add_tarball("mine", "mysql", location)
    assert "s3cret" not in str(caught.value)
    assert caught.value.hint
    assert left_in(paths.state_dir() / "servers") == set()


@pytest.mark.parametrize("location", ["no/such/file.tar.gz", "ftp://host.test/file.tar.gz"])
def test_an_archive_that_cannot_be_had_is_a_mistake(location: str) -> None:
    with pytest.raises(UserError):
        added.add_tarball("mine", "mysql", location)
    assert left_in(paths.state_dir() / "servers") == set()


@pytest.mark.parametrize("name", ["", "../x", "UPPER", "a b", ".hidden", "mysql-5.6.24", "x" * 99])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        added.add_attached(name, "mysql", "mysql://me:secret@db.test/")
    assert left_in(paths.state_dir() / "servers") == set()


def test_a_password_is_kept_from_others_and_from_messages(tmp_path: Path) -> None:
    added.add_attached("cloud", "mariadb", "mysql://me:secret@db.test:3307/")
    record = paths.state_dir() / "servers/cloud/attached.json"
    assert record.stat().st_mode & 0o777 == 0o600
    server = install.find("cloud")
    assert isinstance(server, AttachedServer)
    assert server.family == "mariadb"
    for dsn in ("postgres://me:secret@db.test/", "mysql://me:secret@db.test:port/", "mysql:///"):
        with pytest.raises(MillraceError) as caught:
            added.add_attached("other", "mysql", dsn)
        assert "secret" not in f"{caught.value.message} {caught.value.hint}"
    record.write_text("not json with secret")
    with pytest.raises(HostError) as damaged:
        install.find("cloud")
    assert "secret" not in damaged.value.message
    install.remove("cloud")
    assert not record.exists()


def test_what_arrived_of_a_download_that_failed_stays_for_the_next_attempt(
    tmp_path: Path,
) -> None:
    archive = small_servers.tarball(small_servers.tree(tmp_path / "tree"), tmp_path / "v.tar.gz")
    half = archive.stat().st_size // 2
    with small_origin.serving({"/v.tar.gz": archive.read_bytes()}) as origin:
        part = room("downloads") / "added-mine" / "v.tar.gz.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(archive.read_bytes()[:half])
        with pytest.raises(MillraceError):
            added.add_tarball("mine", "mysql", f"{origin.address}/other.tar.gz")
        assert part.stat().st_size == half
        added.add_tarball("mine", "mysql", f"{origin.address}/v.tar.gz")
        assert origin.asked[-1] == ("/v.tar.gz", f"bytes={half}-")


def test_nothing_stays_where_nothing_has_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = small_servers.tarball(small_servers.tree(tmp_path / "tree"), tmp_path / "v.tar.gz")
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive, sha256="0" * 64))
    with pytest.raises(HostError, match="wrong checksum"):
        install.install("mysql-5.7.99")
    with small_origin.serving({}) as origin, pytest.raises(MillraceError):
        added.add_tarball("mine", "mysql", f"{origin.address}/other.tar.gz")
    assert left_in(room("downloads")) == set()


def test_what_apt_keeps_for_itself_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_package: Deb, workspace: Path, _progress: object) -> None:
        (workspace / "packages/partial").mkdir(parents=True)
        (workspace / "packages/apt.conf").write_text("Dir /;")
        (workspace / "packages/lock").touch()
        raise NotServed("the suite does not have it")

    monkeypatch.setattr(added, "fetch_package", refuse)
    with pytest.raises(NotServed):
        added.add_package("mine", "mariadb", Deb("trixie", "mariadb-server", "1:11.8.6-1"))
    assert left_in(room("downloads")) == set()
