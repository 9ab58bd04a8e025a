"""Other users of the host plant files in millrace's directories and hold its locks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o755), (0o002, 0o755), (0o027, 0o750)])
def test_nobody_else_may_write_to_what_millrace_makes(
    tmp_path: Path, umask: int, mode: int
) -> None:
    state = tmp_path / "state"
    add = ("servers", "add", "theirs", "--family", "mysql", "--attach", "mysql://me@db.test/")
    subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", *add],
        env={"MILLRACE_STATE": str(state), "PYTHONPATH": ":".join(sys.path)},
        check=True,
        umask=umask,
    )
    made = [state, *state.rglob("*")]
    assert any(path.is_file() for path in made)
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {mode}
    assert [path for path in made if path.stat().st_mode & 0o022] == []
