"""Test what is measured of a data directory's files: lengths, blocks, tables and their rows."""

import os
from pathlib import Path

from millrace import databases
from millrace.trial.sizes import sizes, table_bytes

RULES = databases.get("mysql").snapshots


def write(data_dir: Path, files: dict[str, int]) -> None:
    for name, size in files.items():
        path = data_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def measured(data_dir: Path, rows: int | None) -> dict[str, float]:
    return {each.name: each.value for each in sizes(data_dir, RULES, rows)}


def test_all_tables_and_each_of_several(tmp_path: Path) -> None:
    files = {"ibdata1": 4096, "millrace/db.opt": 10, "millrace/a.ibd": 8192}
    write(tmp_path, files)
    found = measured(tmp_path, 7)
    assert found["data_dir_apparent_bytes"] == 4096 + 10 + 8192
    assert (found["table_apparent_bytes"], found["table_rows"]) == (8192, 7)
    assert "a_files_apparent_bytes" not in found
    write(tmp_path, {"millrace/b#P#p0.ibd": 4096, "millrace/b#P#p1.ibd": 4096})
    found = measured(tmp_path, 7)
    assert found["table_apparent_bytes"] == 16384
    assert (found["a_files_apparent_bytes"], found["b_files_apparent_bytes"]) == (8192, 8192)


def test_rows_of_another_file_have_no_size_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, {"ibdata1": 4096, "millrace/a.frm": 100, "millrace/b.frm": 100})
    assert set(measured(tmp_path, 7)) == {"data_dir_apparent_bytes", "data_dir_allocated_bytes"}
    write(tmp_path, {"#rocksdb/000012.sst": 8192})  # of both
    found = measured(tmp_path, 7)
    assert found["table_apparent_bytes"] == 8192
    assert "a_files_apparent_bytes" not in found


def test_tables_that_are_no_longer_those_of_the_workload_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"millrace/a.ibd": 4096, "millrace/b.ibd": 4096})
    found = measured(tmp_path, None)
    assert set(found) == {"data_dir_apparent_bytes", "data_dir_allocated_bytes"}


def test_a_hole_is_not_allocated(tmp_path: Path) -> None:
    write(tmp_path, {"millrace/t.ibd": 4096})
    os.truncate(tmp_path / "millrace/t.ibd", 1 << 20)
    found = measured(tmp_path, 1)
    assert found["table_apparent_bytes"] == 1 << 20
    assert found["table_allocated_bytes"] <= 8192
    assert table_bytes(tmp_path, RULES, "t").allocated == found["table_allocated_bytes"]
