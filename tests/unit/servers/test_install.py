import hashlib
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import paths
from millrace.errors import HostError, MillraceError, NotServed, UserError
from millrace.model.events import Emitted, Notice, ignore
from millrace.model.servers import AttachedServer, InstalledServer
from millrace.servers import added, catalogue, install
from millrace.servers.catalogue import Entry
from millrace.servers.disk import refusals_as_errors
from millrace.servers.locks import exclusive
from millrace.servers.sources.coordinates import Deb, Source, Tarball
from millrace.servers.sources.fetch import room
from tests.support import small_origin, small_servers
from tests.support.ordinary_user import as_ordinary_user

pytestmark = pytest.mark.usefixtures("places")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return a vendor's tarball of a small server."""
    return small_servers.tarball(small_servers.tree(tmp_path / "tree"), tmp_path / "v.tar.gz")


def left_in(directory: Path) -> set[str]:
    """Return the files in a directory, except lock files."""
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    return {name for name in names if not name.endswith(".lock")}


def offered(archive: Path, *, sha256: str | None = None) -> dict[str, Entry]:
    """Return a catalogue with one server, whose artifact is a file of this host."""
    right = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = Source(Tarball(str(archive)), archive.stat().st_size, sha256 or right)
    return {"mysql-5.7.99": Entry("mysql-5.7.99", "mysql", "5.7.99", "dynsym", (source,))}


def test_an_unknown_server_gets_the_nearest_names() -> None:
    for act in (install.find, install.install, install.remove):
        with pytest.raises(UserError, match=r"unknown server 'mysql-5\.6\.25'.*mysql-5\.6\.24"):
            act("mysql-5.6.25")


def test_all_unknown_names_are_reported_together() -> None:
    added.add_attached("cloud", "mysql", "mysql://me:secret@db.test/")
    with pytest.raises(UserError) as caught:
        install.require_known(["wrong", "mysql-5.6.24", "cloud", "mysql-5.6.25"])
    lines = caught.value.message.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "unknown server 'wrong'",
        "unknown server 'mysql-5.6.25'",
    ]
    with pytest.raises(UserError, match="nothing to install"):
        install.install("cloud")


def test_a_server_that_is_not_installed_can_be() -> None:
    with pytest.raises(UserError) as caught:
        install.find("mysql-5.6.24")
    assert caught.value.hint == "run `millrace servers install mysql-5.6.24`"
    with pytest.raises(UserError, match="not installed"):
        install.remove("mysql-5.6.24")


def test_the_list_has_the_catalogue_and_what_was_added(tmp_path: Path) -> None:
    added.add_directory("mine", "mysql", small_servers.tree(tmp_path / "tree"))
    added.add_attached("cloud", "mysql", "mysql://me:secret@db.test/")
    rows = {row.name: row for row in install.list_servers()}
    assert rows["mysql-5.6.24"].state == "available"
    assert rows["mine"].state == "added"
    assert rows["mine"].version == "5.7.99"
    assert rows["cloud"].state == "attached"
    assert "secret" not in repr(list(rows.values()))


def test_an_artefact_becomes_a_server(monkeypatch: pytest.MonkeyPatch, archive: Path) -> None:
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive))
    server = install.install("mysql-5.7.99")
    assert server == install.installed("mysql-5.7.99") == install.find("mysql-5.7.99")
    assert server.argv == (str(server.program),)
    assert server.program.is_relative_to(paths.cache_dir() / "servers/mysql-5.7.99")
    assert (server.share_dir / "english/errmsg.sys").is_file()
    assert not list((paths.cache_dir() / "servers").rglob("mysql-test"))
    assert server.provenance.artefacts[0].size_bytes == archive.stat().st_size
    assert left_in(paths.cache_dir() / "servers") == {"mysql-5.7.99"}
    assert left_in(paths.cache_dir() / "downloads") == set()
    mode = server.program.stat().st_mode
    assert mode & 0o005 == 0o005, "others can run it"
    install.remove("mysql-5.7.99")
    assert install.installed("mysql-5.7.99") is None
    assert left_in(paths.cache_dir() / "servers") == set()


def test_a_server_can_be_moved_with_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive))
    install.install("mysql-5.7.99")
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "elsewhere"))
    server = install.find("mysql-5.7.99")
    assert isinstance(server, InstalledServer)
    assert server.program.is_file()


def test_a_wrong_checksum_installs_nothing(monkeypatch: pytest.MonkeyPatch, archive: Path) -> None:
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive, sha256="0" * 64))
    with pytest.raises(HostError, match=f"expected sha256 {'0' * 64}, got"):
        install.install("mysql-5.7.99")
    assert left_in(paths.cache_dir() / "servers") == set()


def test_a_program_of_another_version_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = small_servers.tree(tmp_path / "tree", "5.7.98")
    archive = small_servers.tarball(tree, tmp_path / "v.tar.gz")
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive))
    with pytest.raises(HostError, match=r"expected version 5\.7\.99, .* reports 5\.7\.98"):
        install.install("mysql-5.7.99")
    assert left_in(paths.cache_dir() / "servers") == set()


def test_a_failure_names_every_source_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    (wrong,) = offered(archive, sha256="0" * 64).values()
    (right,) = offered(archive).values()
    copied = Tarball(shutil.copy(archive, str(tmp_path / "other.tar.gz")))
    other = replace(wrong.sources[0], coordinate=copied, sha256="1" * 64)
    broken = replace(right, sources=(other, *wrong.sources))
    monkeypatch.setattr(catalogue, "entries", lambda: {right.name: broken})
    with pytest.raises(MillraceError) as caught:
        install.install("mysql-5.7.99")
    for source in broken.sources:
        assert f"{source.coordinate}: " in caught.value.message
        assert f"expected sha256 {source.sha256}" in caught.value.message
    mended = replace(right, sources=(other, *right.sources))
    monkeypatch.setattr(catalogue, "entries", lambda: {right.name: mended})
    assert install.install("mysql-5.7.99").version == "5.7.99"


def test_what_a_killed_installation_left_is_cleared(
    monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive))
    half = paths.cache_dir() / "servers/.mysql-5.7.99.part/tree"
    half.mkdir(parents=True)
    (half / "rubbish").write_text("half")
    server = install.install("mysql-5.7.99")
    assert left_in(paths.cache_dir() / "servers") == {"mysql-5.7.99"}
    assert not list(server.base_dir.parent.rglob("rubbish"))


def test_second_process_waits_and_reports_it(tmp_path: Path) -> None:
    said = threading.Event()
    order: list[str] = []

    def listen(event: Emitted) -> None:
        assert isinstance(event, Notice)
        assert "waiting" in event.text
        said.set()

    def second() -> None:
        with exclusive(tmp_path / "lock", "this", listen):
            order.append("second")

    with exclusive(tmp_path / "lock", "this", ignore):
        thread = threading.Thread(target=second)
        thread.start()
        assert said.wait(timeout=30)
        order.append("first")
    thread.join(timeout=30)
    assert order == ["first", "second"]


def test_a_damaged_manifest_is_named() -> None:
    directory = paths.cache_dir() / "servers/mysql-5.6.24"
    directory.mkdir(parents=True)
    (directory / "server.json").write_text('{"manifest_version": 1}')
    with pytest.raises(HostError, match=r"server\.json cannot be read"):
        install.find("mysql-5.6.24")


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(UserError, match=r"MILLRACE_CACHE=.*/file/cache cannot be used: .*/file is"):
        install.install("mysql-5.6.24")


def test_a_full_disk_is_named() -> None:
    with (
        pytest.raises(HostError, match=r"this failed: No space left on device"),
        refusals_as_errors("this"),
        Path("/dev/full").open("wb", buffering=0) as full,
    ):
        full.write(b"x")


def test_a_tarball_is_added_and_forgotten(archive: Path) -> None:
    server = added.add_tarball("mine", "mysql", str(archive))
    assert install.find("mine") == server
    assert server.provenance.source == f"tarball:{archive}"
    assert archive.is_file(), "the user's own file stays"
    with pytest.raises(UserError, match="a server mine already exists"):
        added.add_tarball("mine", "mysql", str(archive))
    install.remove("mine")
    assert left_in(paths.state_dir() / "servers") == set()


def not_an_archive(archive: Path) -> None:
    archive.write_bytes(b"nothing that is known" * 100)


def cut_short(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-2000])


@pytest.mark.parametrize("breaks", [not_an_archive, cut_short])
def test_a_damaged_archive_that_was_named_is_a_mistake(
    breaks: Callable[[Path], None], archive: Path
) -> None:
    breaks(archive)
    with pytest.raises(UserError, match=r"v\.tar\.gz is damaged"):
        added.add_tarball("mine", "mysql", str(archive))
    assert left_in(paths.state_dir() / "servers") == set()


def test_a_checksum_that_was_given_is_right_or_a_mistake(archive: Path) -> None:
    right = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(UserError, match="wrong checksum") as caught:
        added.add_tarball("mine", "mysql", str(archive), sha256="0" * 64)
    assert "publisher" in (caught.value.hint or "")
    assert archive.is_file(), "the user's own file stays"
    assert added.add_tarball("mine", "mysql", str(archive), sha256=right.upper()).name == "mine"


def test_a_checksum_that_is_none_is_refused_before_any_download() -> None:
    with small_origin.serving({"/v.tar.gz": b"content"}) as origin:
        address = f"{origin.address}/v.tar.gz"
        for sha256 in ("", "abc", "g" * 64, "0" * 63):
            with pytest.raises(UserError, match="is not a SHA-256"):
                added.add_tarball("mine", "mysql", address, sha256=sha256)
        assert origin.asked == []
        with pytest.raises(UserError, match="wrong checksum"):
            added.add_tarball("mine", "mysql", address, sha256="0" * 64)


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_messages_name_the_archive_and_not_where_it_was_unpacked(
    family: str, tmp_path: Path
) -> None:
    missing = small_servers.library(tmp_path / "elsewhere/libnowhere.so.7")
    trees = {
        "no program": small_servers.tree(tmp_path / "a"),
        "no messages": small_servers.tree(tmp_path / "b"),
        "no library": small_servers.tree(tmp_path / "c", "5.7.99", str(missing)),
    }
    shutil.rmtree(missing.parent)
    break_program(trees["no program"])
    break_messages(trees["no messages"])
    for tree in trees.values():
        archive = small_servers.tarball(tree, tmp_path / "v.tar.gz")
        with pytest.raises(MillraceError) as caught:
            added.add_tarball("mine", family, str(archive))
        assert str(archive) in caught.value.message
        assert str(paths.state_dir()) not in caught.value.message


def test_what_a_shared_cache_does_not_take_goes_to_the_state() -> None:
    assert room("clients") == paths.cache_dir() / "clients", "it can be made there"
    reachable = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        reachable.chmod(0o755)
        (state := reachable / "state").mkdir(mode=0o755)
        with pytest.MonkeyPatch.context() as patch, as_ordinary_user():
            patch.setenv("MILLRACE_CACHE", str(reachable))
            patch.setenv("MILLRACE_STATE", str(state))
            assert room("clients") == paths.state_dir() / "clients"
    finally:
        shutil.rmtree(reachable)


def test_a_build_tree_is_used_in_place(tmp_path: Path) -> None:
    build = tmp_path / "build"
    small_servers.program(build / "sql/mariadbd", "10.9.9-MariaDB")
    (build / "sql/share/english").mkdir(parents=True)
    (build / "sql/share/english/errmsg.sys").write_bytes(b"")
    (build / "scripts").mkdir()
    (build / "scripts/mysql_system_tables.sql").write_text("-- tables")
    server = added.add_directory("head", "mariadb", build)
    assert server.program == build / "sql/mariadbd"
    assert server.version == "10.9.9"
    assert (server.share_dir / "english/errmsg.sys").is_file()
    assert (server.share_dir / "mysql_system_tables.sql").read_text() == "-- tables"
    install.remove("head")
    assert server.program.is_file()


def test_a_build_tree_that_was_built_again_is_described_anew(tmp_path: Path) -> None:
    tree = small_servers.tree(tmp_path / "tree")
    before = added.add_directory("head", "mysql", tree)
    assert install.find("head") == before
    small_servers.program(tree / "bin/mysqld", "5.7.100")
    after = install.find("head")
    assert isinstance(after, InstalledServer)
    assert after.version == "5.7.100"
    assert after.provenance.program_sha256 != before.provenance.program_sha256
    shutil.rmtree(tree)
    with pytest.raises(UserError, match="no server program"):
        install.find("head")


def break_program(tree: Path) -> None:
    (tree / "bin/mysqld").unlink()


def break_messages(tree: Path) -> None:
    (tree / "share/english/errmsg.sys").unlink()


def break_tables(tree: Path) -> None:
    (tree / "share/mysql_system_tables.sql").unlink()
    small_servers.program(tree / "bin/mysqld", "5.6.1")


def make_script(tree: Path) -> None:
    (tree / "bin/mysqld").write_text("#!/bin/sh\n")


@pytest.mark.parametrize(
    ("breaks", "family", "says"),
    [
        (break_program, "mysql", "no server program in .* looked for mariadbd and mysqld in bin"),
        (make_script, "mysql", "no server program"),
        (break_messages, "mysql", r"no english/errmsg\.sys in"),
        (break_tables, "mysql", r"no mysql_system_tables\.sql"),
        (lambda tree: None, "mariadb", "of the family mariadb, .* reports mysql"),
        (lambda tree: None, "oracle", "unknown family 'oracle'"),
    ],
)
def test_unsuitable_tree_is_refused_with_a_reason(
    breaks: Callable[[Path], None], family: str, says: str, tmp_path: Path
) -> None:
    tree = small_servers.tree(tmp_path / "tree")
    breaks(tree)
    with pytest.raises(UserError, match=says):
        added.add_directory("mine", family, tree)
    archive = small_servers.tarball(tree, tmp_path / "v.tar.gz")
    with pytest.raises(UserError, match=says):
        added.add_tarball("mine", family, str(archive))
    assert left_in(paths.state_dir() / "servers") == set()


def test_missing_library_is_named(tmp_path: Path) -> None:
    missing = small_servers.library(tmp_path / "elsewhere/libnowhere.so.7")
    tree = small_servers.tree(tmp_path / "tree", "5.7.99", str(missing))
    shutil.rmtree(missing.parent)
    with pytest.raises(HostError, match=r"libnowhere\.so\.7"):
        added.add_directory("mine", "mysql", tree)


def test_a_library_beside_the_program_is_found(tmp_path: Path) -> None:
    beside = small_servers.library(tmp_path / "tree/lib/libbeside.so.7")
    tree = small_servers.tree(tmp_path / "tree", "5.7.99", str(beside))
    server = added.add_directory("mine", "mysql", tree)
    assert str(beside.parent) in server.env["LD_LIBRARY_PATH"].split(":")


def test_no_token_of_an_address_is_kept_or_shown(archive: Path) -> None:
    query = "?sig=s3cret"
    with small_origin.serving({f"/v.tar.gz{query}": archive.read_bytes()}) as origin:
        server = added.add_tarball("mine", "mysql", f"{origin.address}/v.tar.gz{query}")
        assert server.provenance.source == f"tarball:{origin.address}/v.tar.gz"
        record = (paths.state_dir() / "servers/mine").rglob("*.json")
        assert not [file for file in record if b"s3cret" in file.read_bytes()]
        for wrong in (f"/none.tar.gz{query}", f"/v.tar.gz{query}&sig=s3cret"):
            with pytest.raises(MillraceError, match=r"^downloading .* failed") as caught:
                added.add_tarball("other", "mysql", f"{origin.address}{wrong}")
            assert "s3cret" not in str(caught.value)
    install.remove("mine")


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://host.test/v.tar.gz", "plain HTTP"),
        ("https://user:s3cret@host.test/v.tar.gz", "user name or password"),
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


def test_a_password_is_kept_from_others_and_from_messages() -> None:
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


def test_what_arrived_of_a_download_that_failed_stays_for_the_next_attempt(archive: Path) -> None:
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
    monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    monkeypatch.setattr(catalogue, "entries", lambda: offered(archive, sha256="0" * 64))
    with pytest.raises(HostError, match="wrong checksum"):
        install.install("mysql-5.7.99")
    with small_origin.serving({}) as origin, pytest.raises(MillraceError):
        added.add_tarball("mine", "mysql", f"{origin.address}/other.tar.gz")
    assert left_in(room("downloads")) == set()


def test_what_apt_keeps_for_itself_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_package: Deb, workspace: Path, _progress: object) -> None:
        (workspace / "packages/partial").mkdir(parents=True)
        (workspace / "packages/apt.conf").write_text("Dir /;")
        (workspace / "packages/lock").touch()
        raise NotServed("the suite does not have it")

    monkeypatch.setattr(added, "fetch_package", refuse)
    with pytest.raises(NotServed):
        added.add_package("mine", "mariadb", Deb("trixie", "mariadb-server", "1:11.8.6-1"))
    assert left_in(room("downloads")) == set()
