"""Manage the stored runs: list, load, export, import and remove them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from millrace.analysis.compare.metrics import Latency, by_name
from millrace.campaign.run_records import is_alive
from millrace.errors import DamagedResult, DiskFull
from millrace.servers.snapshots import kept_data
from millrace.store.importing import Imported
from millrace.store.records import RunSummary, StoredAttempt, StoredRun
from millrace.store.store import Store


def list_runs(path: Path) -> list[RunSummary]:
    """Return the runs of the store at ``path``, the newest first."""
    with Store.open(path, read_only=True) as store:
        return store.list_runs()


@contextmanager
def opened_run(path: Path, run: str) -> Iterator[tuple[Store, StoredRun]]:
    """Open the store and load a run; yield both, so that the run's files can be read."""
    with Store.open(path, read_only=True) as store:
        yield store, store.load_run(store.find_run(run).id)


def latencies(attempt: StoredAttempt) -> tuple[Latency, ...]:
    """Return the latencies of an attempt by operation; empty if a stored histogram is damaged."""
    try:
        return by_name((attempt,))
    except DamagedResult:
        return ()


def export_runs(path: Path, runs: Sequence[str], output: Path, *, replace: bool) -> list[str]:
    """Export runs to one file, for import on another machine; return their ids."""
    with Store.open(path, read_only=True) as store:
        ids = _ids(store, runs)
        store.export_runs(ids, output, replace=replace)
    return ids


def import_files(path: Path, files: Sequence[Path]) -> Iterator[tuple[Path, Imported]]:
    """Add the runs of exported files to the store; yield each file when its runs are added.

    All runs of a file are added, or none.
    """
    with Store.open(path) as store:
        for file in files:
            yield file, store.import_file(file)


class Removed(NamedTuple):
    """The removed runs, their reports, and the runs whose points stay in histories."""

    runs: list[str]
    reports: list[Path]
    recorded: list[str]


def remove_runs(
    path: Path, runs: Sequence[str], *, confirm: Callable[[Sequence[str]], None]
) -> Removed:
    """Remove runs with all their results and reports.

    ``confirm`` gets the ids, and raises an error to prevent the removal. On a full disk, remove the
    runs' files first, because the database needs some space to remove rows.
    """
    with Store.open(path, read_only=True) as store:
        ids = _ids(store, runs)
        confirm(ids)
        reports = [report for report in map(store.report_path, ids) if os.path.lexists(report)]
        with_points = {each.run_id for each in store.histories.recordings()}
        recorded = [run_id for run_id in ids if run_id in with_points]
    try:
        _remove(path, ids)
    except DiskFull:
        with Store.open(path, read_only=True) as store:
            store.free_space(ids, is_alive=is_alive)
        try:
            _remove(path, ids)
        except DiskFull as full:
            raise DiskFull(
                full.message,
                hint="remove other files from that disk and repeat the command: the store needs "
                "some space to remove rows, and these runs have no more files to remove",
            ) from full
    kept_data.remove_of_runs(ids)
    return Removed(ids, reports, recorded)


def _remove(path: Path, ids: Sequence[str]) -> None:
    with Store.open(path, create=False) as store:
        store.remove_runs(ids, is_alive=is_alive)


def _ids(store: Store, wanted: Sequence[str]) -> list[str]:
    """Return the ids of the named runs, each once."""
    return list(dict.fromkeys(store.find_run(name).id for name in wanted))
