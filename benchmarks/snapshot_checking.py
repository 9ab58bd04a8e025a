"""Measure the share of a trial that the check of a restored server's tables takes.

Each time a snapshot of sysbench's tables is restored, with a cold page cache, and its server
started; then the check, which reads the tables first, is timed. Servers, sizes and methods of
reading (samples, or all rows) take turns, so that drift of the machine affects all of them. The
share is of the time for which clients are driven by default, warm-up and measured part; a whole
trial takes longer. Trials read all rows of the small table, and samples of the others; the other
combinations show what that saves.
"""

import argparse
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks import json_file
from benchmarks.servers import fitted, installed
from benchmarks.snapshot_restoring import kept, killed_instance, own_snapshots
from millrace import workloads
from millrace.databases.mysql import table_samples
from millrace.model.servers import InstalledServer
from millrace.servers import snapshots
from millrace.servers.snapshots import Snapshot

SERVERS = ("mysql-8.0.33", "mariadb-10.11.19")
SMALL, LARGE = table_samples.WHOLE_ROWS, 1_000_000
SIZES = ((1, SMALL), (1, LARGE), (table_samples.MOST_TABLES, 1_000))
FITTED = fitted({"innodb_buffer_pool_size": "512M"})


@dataclass(frozen=True)
class Case:
    """Tables of this many rows each; the check reads all or samples of them."""

    server: InstalledServer
    tables: int
    rows: int
    whole: bool
    snapshot: Snapshot
    took_s: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        reading = "all rows" if self.whole else "samples"
        return f"{self.server.name}, {self.tables} x {self.rows:,} rows, {reading}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2 rounds instead of 7")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    with own_snapshots():
        cases = [case for name in SERVERS for case in _cases(installed(name))]
        for number in range(2 if arguments.quick else 7):
            for case in cases if number % 2 == 0 else reversed(cases):
                case.took_s.append(_check_s(case))
    trial_s = _driven_s()
    print(f"time of the check, and its share of the {trial_s:g} s for which clients are driven")
    for case in cases:
        low, middle, high = min(case.took_s), statistics.median(case.took_s), max(case.took_s)
        print(
            f"  {case.name:48} {1e3 * middle:7.1f} ms ({1e3 * low:.1f} to {1e3 * high:.1f}): "
            f"{middle / trial_s:.3%} ({low / trial_s:.3%} to {high / trial_s:.3%})"
        )
    check_s = {case.name: case.took_s for case in cases}
    json_file.write(arguments.json, "snapshot_checking", trial_s=trial_s, check_s=check_s)


def _driven_s() -> float:
    """Return the default number of seconds for which clients are driven."""
    values = workloads.parse_workload(workloads.load("sysbench")).defaults()
    return float(values["warmup_s"]) + float(values["time_s"])


def _cases(server: InstalledServer) -> list[Case]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_samples, "WHOLE_ROWS", LARGE)
        patch.setattr(table_samples, "WHOLE_BYTES", 1 << 40)
        made = [(size, kept(server, FITTED, *size)) for size in SIZES]
    return [Case(server, *size, whole, of) for size, of in made for whole in (True, False)]


def _check_s(case: Case) -> float:
    with killed_instance(case.server, FITTED) as instance:
        snapshots.restore(instance, case.snapshot)
        instance.start(limit_s=180)
        began = time.perf_counter()
        snapshots.verify_tables(instance, case.snapshot, whole=case.whole)
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
