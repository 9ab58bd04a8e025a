"""Write what benchmarks print and export, with the figures that tests give."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SYSBENCH = """\
sysbench {version} (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: {threads}

SQL statistics:
    queries performed:
        read:                            140000
        total:                           200000
    transactions:                        {transactions}  ({rate} per sec.)
    queries:                             200000 (20000.00 per sec.)
    ignored errors:                      {errors}      (900.00 per sec.)
    reconnects:                          {reconnects}      (0.00 per sec.)

General statistics:
    total time:                          {seconds:.4f}s
    total number of events:              {transactions}
"""
PGBENCH = """\
pgbench ({version})
transaction type: {kind}
scaling factor: {scale}
query mode: {mode}
number of clients: {clients}
number of threads: 2
maximum number of tries: 1
duration: {duration} s
number of transactions actually processed: {processed}
number of failed transactions: {failed} (1.000%)
latency average = 9.850 ms
initial connection time = 22.1 ms
tps = {rate} (without initial connection time)
"""
SLAP = """\
Benchmark
\tRunning for engine innodb
\tAverage number of seconds to run all queries: {seconds} seconds
\tMinimum number of seconds to run all queries: 8.753 seconds
\tMaximum number of seconds to run all queries: 8.753 seconds
\tNumber of clients running queries: {clients}
\tAverage number of queries per client: 1000
"""
HAMMERDB = """\
HammerDB CLI v{version}
Vuser 1:Beginning rampup time of 2 minutes
Vuser 1:Timing test period of {minutes} in minutes
Vuser 1:Test complete, Taking end Transaction Count.
Vuser 1:{users} Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved {nopm} NOPM from 81705 {family} TPM
"""


def of_sysbench(**changed: object) -> str:
    usual = {"version": "1.0.20", "threads": 8, "transactions": 10_000, "rate": "1000.00"}
    usual |= {"errors": 0, "reconnects": 0, "seconds": 10.0}
    return SYSBENCH.format(**{**usual, **changed})


def of_pgbench(**changed: object) -> str:
    usual = {"version": "16.2", "kind": "<builtin: TPC-B (sort of)>", "scale": 50, "clients": 8}
    usual |= {"mode": "simple", "duration": 30, "processed": 24360, "failed": 0, "rate": "811.3"}
    return PGBENCH.format(**{**usual, **changed})


def of_slap(**changed: object) -> str:
    return SLAP.format(**{"seconds": "8.753", "clients": 1, **changed})


def of_hammerdb(**changed: object) -> str:
    usual = {"version": "4.9", "minutes": 5, "users": 4, "nopm": 35_576, "family": "MySQL"}
    return HAMMERDB.format(**{**usual, **changed})


def keep(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def kept(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    return [keep(folder / name, text) for name, text in texts.items()]


def exported(path: Path, *results: dict[str, Any]) -> Path:
    """Keep an export of hyperfine."""
    return keep(path, json.dumps({"results": results}))
