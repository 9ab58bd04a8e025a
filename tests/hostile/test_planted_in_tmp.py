"""Test that nothing is used that other users can plant in directories like /tmp."""

import contextlib
import os
from pathlib import Path

import pytest

from millrace import atomic_file, output_files, paths
from millrace.campaign.preparation import work_directory
from millrace.errors import HostError, UserError
from millrace.servers.snapshots import kept_data
from millrace.servers.snapshots.kept_data import KeptData
from millrace.servers.sources import clients, maven
from millrace.store.store import Store
from millrace.trial import fault_injection
from tests.support.stored_records import begun

OTHER_USER = 60_950

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for another user")


@only_root
@pytest.mark.parametrize("below", ["", "project/of/root"])
def test_package_clients_find_no_settings_of_another_user(
    below: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``.mvn/jvm.config`` in any parent makes mvn load a library, with the user's rights."""
    here = shared / below
    here.mkdir(parents=True, exist_ok=True)
    (shared / ".mvn").mkdir()
    os.chown(shared / ".mvn", OTHER_USER, OTHER_USER)
    monkeypatch.chdir(here)
    assert clients.run(["pwd"], purpose="to test") == "/\n"
    assert not maven.has_other_settings(clients.directory_of_settings(), shared)
    shared.chmod(0o755)
    os.chown(shared, OTHER_USER, 0)
    assert clients.run(["pwd"], purpose="to test") == "/\n"
    os.chown(shared, 0, 0)
    closed = all(each.stat().st_mode & 0o022 == 0 for each in here.parents)
    assert clients.run(["pwd"], purpose="to test") == (f"{here}\n" if closed else "/\n")


def test_clients_run_in_the_root_where_their_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert clients.run(["pwd"], purpose="to test") == "/\n"


@only_root
@pytest.mark.parametrize("variable", ["CACHE", "STATE", "SNAPSHOTS"])
def test_everybody_may_plant_files_in_a_sticky_directory(
    variable: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MILLRACE_{variable}", str(shared))
    with pytest.raises(HostError, match=f"{shared}: every user of this host") as caught:
        getattr(paths, f"{variable.lower()}_dir")()
    assert "chmod" not in (caught.value.hint or "")  # of /tmp, it would harm everybody
    monkeypatch.setenv(f"MILLRACE_{variable}", str(shared / "mine"))
    assert getattr(paths, f"{variable.lower()}_dir")() == shared / "mine"


@only_root
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_an_ordinary_user_uses_no_directory_of_another_one(
    mode: int, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers run as that user, so their programs could be anything."""
    cache = shared / "cache"
    cache.mkdir()
    cache.chmod(mode)
    os.chown(cache, OTHER_USER, OTHER_USER)
    monkeypatch.setenv("MILLRACE_CACHE", str(cache))
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER + 1)
    with pytest.raises(HostError, match=f"its owner, uid {OTHER_USER}") as caught:
        paths.cache_dir()
    # What that user planted would stay there.
    assert f"remove {cache}, or choose another directory" in (caught.value.hint or "")
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    with contextlib.nullcontext() if mode == 0o755 else pytest.raises(HostError, match="every"):
        assert paths.cache_dir() == cache


@only_root
def test_kept_data_is_in_no_directory_of_another_user(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is known, so anybody could make it first, and let names in it lead elsewhere."""
    monkeypatch.setenv("MILLRACE_WORK", str(shared))
    KeptData.of("run/trial").begin(None)
    KeptData.of("run/trial").remove()
    (shared / "kept").mkdir()
    os.chown(shared / "kept", OTHER_USER, OTHER_USER)
    for look in (lambda: KeptData.of("run/trial"), kept_data.all_kept):
        with pytest.raises(HostError, match=f"its owner, uid {OTHER_USER}"):
            look()
    assert list((shared / "kept").iterdir()) == []


def test_a_work_directory_that_others_can_change_is_refused_before_it_is_used(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    work.chmod(0o777)
    with pytest.raises(HostError, match="could replace millrace's files"):
        work_directory(work)
    work.chmod(0o1777)
    assert work_directory(work) == work


def test_no_store_is_where_every_user_may_add_a_journal(shared: Path) -> None:
    for create in (True, False):
        with pytest.raises(UserError, match="every user of this host could replace") as caught:
            Store.open(shared / "results.sqlite", create=create)
        assert "chmod" not in (caught.value.hint or "")
    assert list(shared.iterdir()) == []
    (shared / "mine").mkdir()
    Store.open(shared / "mine/results.sqlite", create=True).close()
    link = shared.parent / "link.sqlite"
    link.symlink_to(shared / "results.sqlite")
    with pytest.raises(UserError, match=f"{shared}: every user"):
        Store.open(link, create=True)


@only_root
def test_no_file_is_written_through_a_link_of_another_user(shared: Path) -> None:
    """The kernel refuses to follow it (fs.protected_symlinks), but not a path without it."""
    link, elsewhere = shared / "report.html", shared.parent / "elsewhere"
    link.symlink_to(elsewhere)
    os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    with pytest.raises(UserError, match=f"{link} is a symbolic link of uid"):
        output_files.write_text(link, "<html>", output_files.PAGE)
    assert not elsewhere.exists()
    os.chown(link, 0, 0, follow_symlinks=False)
    output_files.write_text(link, "<html>", output_files.PAGE)
    assert elsewhere.read_text() == "<html>"


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Return a store with a run."""
    path = tmp_path / "own/results.sqlite"
    path.parent.mkdir()
    with Store.open(path) as store:
        run = begun("study-1")
        store.begin_run(run.run, run.treatments, run.trials)
    return path


@only_root
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_no_export_follows_a_link_of_another_user(
    shared: Path, tmp_path: Path, exported: Path, mode: int, force: bool
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    link = shared / "out"
    link.symlink_to(precious)
    os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    shared.chmod(mode)
    files = [link / "runs.zip"]
    if force:
        (precious / "passwd").write_text("root:x:0:0")
        file = shared / "runs.zip"
        file.symlink_to(precious / "passwd")
        os.chown(file, OTHER_USER, OTHER_USER, follow_symlinks=False)
        files += [link / "passwd", file]
    for file in files:
        with (
            Store.open(exported) as store,
            pytest.raises(UserError, match="is a symbolic link of uid"),
        ):
            store.export_runs(["study-1"], file, replace=force)
    assert not (precious / "runs.zip").exists()
    assert not force or (precious / "passwd").read_text() == "root:x:0:0"


@only_root
@pytest.mark.parametrize("create", [False, True])
def test_no_store_is_opened_or_made_over_a_link_of_another_user(
    shared: Path, tmp_path: Path, exported: Path, create: bool
) -> None:
    directory, file = shared / "directory", shared / "results.sqlite"
    directory.symlink_to(exported.parent)
    file.symlink_to(exported)
    shared.chmod(0o755)
    for link in (directory, file):
        os.chown(link, OTHER_USER, OTHER_USER, follow_symlinks=False)
    (exported.parent / "old.zip").touch()
    for place in (directory / ("new.sqlite" if create else "results.sqlite"), file):
        with pytest.raises(UserError, match="is a symbolic link of uid"):
            Store.open(place, create=create)
    assert not (exported.parent / "new.sqlite").exists()
    for link in (directory, file):
        os.chown(link, 0, 0, follow_symlinks=False)
    Store.open(directory / "results.sqlite").close()


@only_root
@pytest.mark.parametrize("how", ["owner", "group", "parent"])
def test_no_store_is_where_another_user_can_replace_it(tmp_path: Path, how: str) -> None:
    outer = tmp_path / "outer"
    (outer / "inner").mkdir(parents=True)
    for directory in (outer, outer / "inner"):
        directory.chmod(0o755)
    if how == "owner":
        os.chown(outer / "inner", OTHER_USER, OTHER_USER)
    else:
        place = outer if how == "parent" else outer / "inner"
        os.chown(place, 0, OTHER_USER)
        place.chmod(0o775)
    with pytest.raises(UserError, match="not safe for a results store"):
        Store.open(outer / "inner/results.sqlite")
    assert list((outer / "inner").iterdir()) == []


@only_root
def test_a_link_that_appears_while_a_page_is_made_is_replaced(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, victim = shared / "report.html", shared.parent / "victim"
    victim.write_text("secret")

    def plant(text: str) -> str:
        place.symlink_to(victim)
        os.chown(place, OTHER_USER, OTHER_USER, follow_symlinks=False)
        return text

    monkeypatch.setattr(output_files, "shown", plant)
    output_files.write_text(place, "<html>", output_files.PAGE)
    assert victim.read_text() == "secret"
    assert place.read_text() == "<html>"
    assert not place.is_symlink()


@only_root
@pytest.mark.parametrize("planted", ["link", "file"])
def test_what_takes_the_place_of_a_pipe_is_not_written_to(
    planted: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, victim = shared / "pipe", shared.parent / "victim"
    victim.write_text("secret")
    os.mkfifo(place)
    is_stream = output_files._is_stream

    def swapped(path: Path) -> bool:
        found = is_stream(path)
        place.unlink(missing_ok=True)
        place.symlink_to(victim) if planted == "link" else place.hardlink_to(victim)
        return found

    monkeypatch.setattr(output_files, "refuse_place", lambda path, *_: path)
    monkeypatch.setattr(output_files, "_is_stream", swapped)
    with pytest.raises(UserError, match="cannot write the report"):
        output_files.write_text(place, "<html>", output_files.PAGE)
    assert victim.read_text() == "secret"


def test_a_link_in_the_place_of_a_draft_leads_nobody_elsewhere(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("secret")
    victim.chmod(0o600)
    with atomic_file.atomic_write(tmp_path / "report.html", durable=True) as draft:
        (named,) = tmp_path.glob(".report.html.*")
        named.unlink()
        named.symlink_to(victim)
        draft.write_text("<html>", encoding="utf-8")
    assert victim.read_text() == "secret"
    assert victim.stat().st_mode & 0o777 == 0o600


@only_root
def test_a_library_that_another_user_left_in_the_cache_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does where root has taken over the directory."""
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    planted = tmp_path / "cache/slow-fsync/slow_fsync.so"
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"planted")
    os.chown(planted, OTHER_USER, OTHER_USER)
    assert fault_injection.slow_fsync_library() == planted
    assert planted.read_bytes() != b"planted"
    assert planted.stat().st_uid == 0
