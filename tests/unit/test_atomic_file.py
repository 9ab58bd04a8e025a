"""Test that a file is whole or absent, whatever errors the disk returns."""

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace import atomic_file


@contextmanager
def files_limited_to(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond this size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def kill_a_writer(file: Path) -> None:
    """Let a process that writes a file die with half of it."""
    child = os.fork()
    if child == 0:
        with atomic_file.atomic_write(file) as draft:
            draft.write_text("half")
            os._exit(9)
    os.waitpid(child, 0)


def directories(place: Path, *names: str) -> list[Path]:
    for name in names:
        (place / name).mkdir()
    return [place / name for name in names]


def test_a_file_appears_in_a_new_directory_and_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "new" / "µ"
    for text in ("first µ", "second"):
        atomic_file.write_text(file, text)
        assert file.read_text(encoding="utf-8") == text
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_its_permissions_are_those_of_any_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        atomic_file.write_text(tmp_path / "file", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_nobody_sees_half_of_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with atomic_file.atomic_write(file, durable=True) as draft:
        draft.write_text("half")
        assert not file.exists()
        draft.write_text("whole")
    assert file.read_text() == "whole"


@pytest.mark.parametrize("durable", [False, True])
def test_a_failure_leaves_what_was_there_and_no_draft(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "file"
    atomic_file.write_text(file, "before")

    def write_half() -> None:
        with atomic_file.atomic_write(file, durable=durable) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    with files_limited_to(1000), pytest.raises(OSError, match="File too large"):
        atomic_file.write_text(file, "x" * 5000)
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_leaves_no_draft(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64K", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small filesystem needs root")
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            atomic_file.write_text(place / "file", "x" * 200_000)
        assert caught.value.errno == errno.ENOSPC
        assert list(place.iterdir()) == []
        atomic_file.write_text(place / "file", "x" * 10_000)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    kept = [
        tmp_path / ".file.draft",
        tmp_path / ".file.abcdefgh.draft",
        tmp_path / "x.millrace-draft",
    ]
    for other in kept:
        other.touch()
    (tmp_path / ".link.abcdefgh.millrace-draft").symlink_to(kept[0])
    kill_a_writer(tmp_path / "killed")
    before = set(tmp_path.iterdir())
    assert len(before) == 5
    with atomic_file.atomic_write(tmp_path / "one") as draft:  # another process is writing this one
        atomic_file.write_text(tmp_path / "two", "x")
        assert draft.exists()
        draft.write_text("y")
    left = {path.name for path in tmp_path.iterdir()} - {path.name for path in kept}
    assert left == {"one", "two", ".link.abcdefgh.millrace-draft"}
    assert (tmp_path / "one").read_text() == "y"


def test_what_killed_writers_left_can_be_removed(tmp_path: Path) -> None:
    file = tmp_path / "a[1].json"
    atomic_file.write_text(file, "x")
    kill_a_writer(file)
    others = [tmp_path / ".a1.json.x.millrace-draft", tmp_path / ".a[1].json.bak"]
    for other in others:
        other.touch()
    assert len(list(tmp_path.iterdir())) == 4
    atomic_file.remove_drafts(file)
    assert set(tmp_path.iterdir()) == {file, *others}


def test_link_that_took_the_place_of_a_checked_directory_is_not_followed(tmp_path: Path) -> None:
    place, theirs = directories(tmp_path, "place", "theirs")
    (theirs / "file").write_text("important")
    path = place / "file"
    place.rename(tmp_path / "away")
    place.symlink_to(theirs)
    with pytest.raises(OSError, match="a link took the place"):
        atomic_file.write_text(path, "new", resolved=True)
    assert (theirs / "file").read_text() == "important"
    assert sorted(each.name for each in theirs.iterdir()) == ["file"]


def test_directory_that_moves_while_a_file_is_written_keeps_the_file(tmp_path: Path) -> None:
    place, theirs = directories(tmp_path, "place", "theirs")
    with atomic_file.atomic_write(place / "file", resolved=True) as draft:
        draft.write_text("new")
        place.rename(tmp_path / "away")
        place.symlink_to(theirs)
    assert (tmp_path / "away" / "file").read_text() == "new"
    assert list(theirs.iterdir()) == []
