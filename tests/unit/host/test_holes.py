"""Test that punched holes are noticed, and that their absence has a reason."""

import errno
import os
from pathlib import Path

import pytest

from millrace.errors import Unavailable
from millrace.host import holes


def test_holes_free_blocks_here_and_leave_nothing(tmp_path: Path) -> None:
    holes.require_holes(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_hole_keeps_the_length(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"x" * 65536)
        file.flush()
        holes.punch_hole(file.fileno(), 16384, 32768)
        assert os.fstat(file.fileno()).st_size == 65536
    content = (tmp_path / "file").read_bytes()
    assert content == b"x" * 16384 + bytes(32768) + b"x" * 16384


def test_a_file_system_without_holes_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(holes, "punch_hole", refuse)
    with pytest.raises(Unavailable, match="cannot punch holes: Operation not supported"):
        holes.require_holes(tmp_path)
    monkeypatch.setattr(holes, "punch_hole", lambda *_arguments: None)
    with pytest.raises(Unavailable, match="does not free the blocks"):
        holes.require_holes(tmp_path)
