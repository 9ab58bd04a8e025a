"""Measure the files of a data directory and of its tables: their length, and what they occupy."""

import contextlib
import functools
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from millrace.databases.base import SnapshotRules
from millrace.databases.table_formats import FileBytes
from millrace.errors import TrialFailed
from millrace.model import measurements as names
from millrace.model.roles import SERVER
from millrace.servers.instances.closing import close_tree
from millrace.servers.snapshots import manifest
from millrace.store.records import MeasurementRecord
from millrace.trial.data_directory import DATABASE

_MOST_BYTES = 1 << 62  # a server can make a few files without blocks that are longer together
_BLOCK_BYTES = 512  # of st_blocks, whatever the file system's are
_TRIES = 10
_MOST_TABLES = 32  # that are measured one by one, too


def table_bytes(data_dir: Path, rules: SnapshotRules, table: str) -> FileBytes:
    """Return the bytes of a table's files now."""
    files = _files(data_dir)
    return _total(status for path, status in files if rules.table_of(path, DATABASE) == table)


def directory_bytes(data_dir: Path) -> FileBytes:
    """Return the bytes of a data directory now, also of one whose server runs."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):  # the server removed a file meanwhile
            return _total(status for _, status in _files(data_dir))
    raise TrialFailed(f"{data_dir}: its files come and go too fast to be measured")


def sizes(
    data_dir: Path,
    rules: SnapshotRules,
    rows: int | None,
    role: str = SERVER,
    *,
    is_running: bool = False,
) -> list[MeasurementRecord]:
    """Return a directory's and its tables' bytes, closed to all others unless its server runs.

    ``rows`` is how many the tables hold, None where they are no longer those of the workload. The
    tables' bytes are left out then, and where the rows are in no files of their own.
    """
    if not is_running:
        close_tree(data_dir)
    directory, tables = FileBytes(), FileBytes()
    each_table: dict[str, FileBytes] = {}
    for path, status in _files(data_dir):
        directory = _with(directory, status)
        table = rules.table_of(path, DATABASE)
        if table is not None:
            tables = _with(tables, status)
            each_table[table] = _with(each_table.get(table, FileBytes()), status)
    found = {
        names.DATA_DIR_APPARENT_BYTES: directory.apparent,
        names.DATA_DIR_ALLOCATED_BYTES: directory.allocated,
    }
    if rows is not None and each_table:
        found |= {
            names.TABLE_APPARENT_BYTES: tables.apparent,
            names.TABLE_ALLOCATED_BYTES: tables.allocated,
            names.TABLE_ROWS: rows,
        }
        found |= _of_each(each_table)
    return [MeasurementRecord(name, value, role) for name, value in found.items()]


def _of_each(each_table: dict[str, FileBytes]) -> dict[str, int]:
    """Return the bytes of each of several tables."""
    found: dict[str, int] = {}
    named = {table: files for table, files in each_table.items() if table.isidentifier()}
    if 1 < len(named) <= _MOST_TABLES:
        for table in sorted(named):
            apparent, allocated = names.files_bytes(table)
            found |= {apparent: named[table].apparent, allocated: named[table].allocated}
    return found


def _files(data_dir: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path, status in manifest.walk(data_dir):
        if stat.S_ISREG(status.st_mode):
            yield path, status


def _total(files: Iterable[os.stat_result]) -> FileBytes:
    return functools.reduce(_with, files, FileBytes())


def _with(files: FileBytes, status: os.stat_result) -> FileBytes:
    return FileBytes(
        min(files.apparent + status.st_size, _MOST_BYTES),
        min(files.allocated + status.st_blocks * _BLOCK_BYTES, _MOST_BYTES),
    )
