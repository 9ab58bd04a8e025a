"""Test levels that do not compare, or that are not true of an experiment's servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import ValidationError
from millrace.experiment.read import read
from tests.unit.experiment.files import CONTEXT

DROPS = """
name = "drops"
workload = "drop-table"
blocks = 3

[factors]
server = ["mysql-5.6.24", "mysql-5.7.22"]
drop = ["tables", "database"]
dropped_pages = ["buffer_pool", "disk"]

[compare]
factor = "server"
base = "mysql-5.6.24"

[parameters]
snapshot = "on"
"""


def diagnosed(path: Path, text: str, attached: tuple[str, ...] = ()) -> str:
    file = path / "drops.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValidationError) as raised:
        read(file, scale=None, context=replace(CONTEXT, attached=attached))
    return str(raised.value)


def test_levels_that_do_different_work_are_not_compared(tmp_path: Path) -> None:
    text = DROPS.replace('"server"\nbase = "mysql-5.6.24"', '"drop"\nbase = "tables"')
    found = diagnosed(tmp_path, text)
    assert "compare.factor" in found
    assert "do different work" in found
    assert "drop may stay in [factors]" in found


def test_pages_are_on_the_disk_only_after_a_start(tmp_path: Path) -> None:
    (tmp_path / "fine.toml").write_text(DROPS, encoding="utf-8")
    assert read(tmp_path / "fine.toml", scale=None, context=CONTEXT).blocks == 3
    without = diagnosed(tmp_path, DROPS.replace('"on"', '"off"'))
    assert "factors.dropped_pages" in without
    assert "the server that loaded them goes on" in without
    assert "does not start attached servers" in diagnosed(tmp_path, DROPS, ("mysql-5.7.22",))
    other = DROPS.replace('"buffer_pool", "disk"', '"buffer_pool"').replace('"on"', '"off"')
    (tmp_path / "fine.toml").write_text(other, encoding="utf-8")
    assert read(tmp_path / "fine.toml", scale=None, context=CONTEXT).blocks == 3
