"""Measure how much sooner a trial begins that restores a snapshot instead of loading its tables.

Both begin with an empty data directory and end when the server answers with sysbench's 8 tables of
250,000 rows: one initialises, starts and loads, the other restores a snapshot and starts. They take
turns, so that drift of the machine affects both; everything dirty is written back before each.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import json_file
from benchmarks.servers import fitted, installed
from benchmarks.table_loading import OPTIONS, load_sbtest
from millrace.model.servers import FittedOptions, InstalledServer
from millrace.servers import snapshots
from millrace.servers.instances import lifecycle
from millrace.servers.instances.instance import Instance
from millrace.servers.snapshots import Snapshot
from millrace.stats.ratio import paired_ratio

TABLES, ROWS = 8, 250_000
STOP_LIMIT_S = 600.0
FITTED = fitted(OPTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mysql-5.7.22", metavar="NAME", help="[%(default)s]")
    parser.add_argument("--quick", action="store_true", help="2 pairs instead of 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    pairs = 2 if arguments.quick else 5
    server = installed(arguments.server)
    with own_snapshots():
        snapshot = kept(server, FITTED, TABLES, ROWS)
        loading: list[float] = []
        restoring: list[float] = []
        for pair in range(pairs):
            for loads in (True, False) if pair % 2 == 0 else (False, True):
                took = _load_s(server) if loads else _restore_s(server, snapshot)
                (loading if loads else restoring).append(took)
    ratio = paired_ratio(restoring, loading)
    print(f"{arguments.server}, {TABLES} x {ROWS:,} rows, {pairs} pairs; seconds to begin")
    for name, times in (("loading", loading), ("restoring", restoring)):
        low, middle, high = min(times), statistics.median(times), max(times)
        print(f"  {name:9} {middle:6.2f} s  ({low:.2f} to {high:.2f})")
    print(
        f"  restoring begins {ratio.ratio:.1f} times sooner "
        f"({ratio.low:.1f} to {ratio.high:.1f}, 95 %); the goal is 5"
    )
    json_file.write(
        arguments.json,
        "snapshot_restoring",
        server=arguments.server,
        loading_s=loading,
        restoring_s=restoring,
        ratio=asdict(ratio),
    )


@contextmanager
def own_snapshots() -> Iterator[None]:
    """Provide a snapshot repository of this benchmark's own, deleted at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="millrace-") as place,
        pytest.MonkeyPatch.context() as p,
    ):
        p.setenv("MILLRACE_SNAPSHOTS", place)
        Path(place).chmod(0o755)
        yield


@contextmanager
def killed_instance(server: InstalledServer, options: FittedOptions) -> Iterator[Instance]:
    """Provide an instance without data; its server is killed when the block ends."""
    with lifecycle.create(server, options) as instance:
        try:
            yield instance
        finally:
            instance.kill()


def _load(instance: Instance, tables: int, rows: int) -> None:
    instance.initialise(limit_s=180)
    instance.start(limit_s=180)
    instance.query("CREATE DATABASE sbtest CHARACTER SET latin1")
    load_sbtest(instance, tables, rows)


def kept(server: InstalledServer, options: FittedOptions, tables: int, rows: int) -> Snapshot:
    """Load sysbench's tables and save them as a snapshot."""
    with lifecycle.create(server, options) as instance:
        _load(instance, tables, rows)
        recorded = snapshots.prepare(instance, limit_s=STOP_LIMIT_S)
        instance.stop(STOP_LIMIT_S)
        key = snapshots.key(server, options, {"benchmark": [tables, rows]}, user=instance.runs_as)
        return snapshots.save(instance, key, {}, made_s=0, tables=recorded)


def _load_s(server: InstalledServer) -> float:
    with killed_instance(server, FITTED) as instance:
        os.sync()
        began = time.perf_counter()
        _load(instance, TABLES, ROWS)
        return time.perf_counter() - began


def _restore_s(server: InstalledServer, snapshot: Snapshot) -> float:
    with killed_instance(server, FITTED) as instance:
        os.sync()
        began = time.perf_counter()
        snapshots.restore(instance, snapshot)
        instance.start(limit_s=180)
        instance.query("SELECT count(*) FROM sbtest.sbtest1 WHERE id = 1")
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
