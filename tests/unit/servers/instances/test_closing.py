"""Test that a server's directories are closed even to the owner of a descriptor."""

import os
import stat
from pathlib import Path

import pytest

from millrace.servers.instances import ownership
from millrace.servers.instances.closing import close_tree, give_tree
from tests.support.deep_directories import deep

STRANGER = 61_999
LEVELS = 1_500  # more than Python's recursion and paths of the kernel allow

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")


def state(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, stat.S_IMODE(status.st_mode)


def as_stranger(descriptor: int) -> str:
    """Return the error when another user creates a name in a directory by its descriptor."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(STRANGER, STRANGER, STRANGER)
            os.symlink("/", "planted", dir_fd=descriptor)
            os.write(writing, b"made")
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as said:
        return said.read()


@needs_root
def test_a_descriptor_of_a_directory_is_of_no_use_once_it_is_closed(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "of" / "others"
    inner.mkdir(parents=True)
    for path in (inner, inner.parent):
        os.chown(path, STRANGER, STRANGER)
        path.chmod(0o777)
    descriptor = os.open(inner, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert as_stranger(descriptor) == "made"
        close_tree(tmp_path / "data")
        (inner / "planted").unlink()
        assert as_stranger(descriptor) == "PermissionError"
    finally:
        os.close(descriptor)
    ours = (os.geteuid(), 0o700)
    assert [state(path) for path in (inner.parent.parent, inner.parent, inner)] == [ours] * 3


@needs_root
def test_links_lead_nowhere_and_files_of_other_places_are_not_given_away(tmp_path: Path) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    for path in (data / "a", outside):
        path.mkdir(parents=True)
    (outside / "secret").write_text("secret")
    (data / "a" / "own").write_text("own")
    (data / "to").symlink_to(outside)
    (data / "file").hardlink_to(outside / "secret")
    before = [state(path) for path in (outside, outside / "secret")]
    close_tree(data)
    give_tree(data, STRANGER, STRANGER)
    assert [state(path) for path in (outside, outside / "secret")] == before
    assert {state(path)[0] for path in (data, data / "a", data / "a" / "own")} == {STRANGER}


def test_no_depth_ends_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "beside").mkdir()
    with deep(data, LEVELS):
        close_tree(data)
        give_tree(data, os.geteuid(), os.getegid())
        assert state(data / "level" / "level")[1] == 0o700
        assert state(data / "beside")[1] == 0o700


def test_the_top_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError, match="directory"):
        close_tree(tmp_path / "link")
    assert state(tmp_path / "real")[1] == 0o755


@needs_root
def test_a_directory_is_removed_while_others_have_a_descriptor_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "instance"
    shared = directory / "data" / "shared"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    descriptor = os.open(shared, os.O_RDONLY | os.O_DIRECTORY)
    tried: list[str] = []

    def close_and_try(path: Path) -> None:
        close_tree(path)
        tried.append(as_stranger(descriptor))

    monkeypatch.setattr(ownership, "close_tree", close_and_try)
    try:
        ownership.remove_tree(directory)
    finally:
        os.close(descriptor)
    assert tried == ["PermissionError"]
    assert not directory.exists()
