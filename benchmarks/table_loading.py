"""Measure the speed of making and loading sysbench's tables against `sysbench oltp_common prepare`.

Both make the same tables on the same running server, secondary index included, and take turns (A B,
B A, A B ...), so that drift of the machine affects both. A time is from the start of the process to
its end. CPU time is the tool's own, and the server's between the same instants. Before each turn
the database is recreated and everything dirty is written back. Afterwards both must have left the
same definition of the table and the same number of rows.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import json_file, load_tools
from benchmarks.servers import installed, running
from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance
from millrace.stats.ratio import paired_ratio

# Both tools use the same server; a pool and a log that hold the tables keep the disk out of the
# measurement.
OPTIONS = {"innodb_buffer_pool_size": "1G", "innodb_log_file_size": "512M"}

SBTEST = {
    "name": "sbtest{n}",
    "count": "{tables}",
    "rows": "{table_size}",
    "create": (
        "CREATE TABLE {table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL,"
        " c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))"
        " ENGINE=InnoDB"
    ),
    "after_load": ["CREATE INDEX k_{n} ON {table} (k)"],
    "columns": [
        {"name": "id", "kind": "sequence", "first": 1},
        {"name": "k", "kind": "integer", "low": 1, "high": "{table_size}"},
        {"name": "c", "kind": "digits", "groups": 10, "length": 11},
        {"name": "pad", "kind": "digits", "groups": 5, "length": 11},
    ],
}


@dataclass(frozen=True)
class Case:
    """Tables to load; ``threads`` applies to sysbench, millrace-load chooses its own number."""

    name: str
    tables: int
    rows: int
    threads: int
    goal: float


@dataclass(frozen=True)
class Turn:
    """One load by one tool, in seconds."""

    elapsed_s: float
    client_cpu_s: float
    server_cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, 3 pairs")
    parser.add_argument("--server", default="mysql-5.7.22", metavar="NAME", help="[%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    load_tools.install("sysbench")
    share, pairs = (10, 3) if arguments.quick else (1, 7)
    cases = (
        Case("one table", tables=1, rows=1_000_000 // share, threads=1, goal=1.6),
        Case("8 tables", tables=8, rows=250_000 // share, threads=8, goal=1.35),
    )
    results = []
    processors = len(os.sched_getaffinity(0))
    with running(installed(arguments.server), OPTIONS) as instance:
        print(f"{arguments.server}, {processors} processors, {pairs} pairs", flush=True)
        for case in cases:
            results.append(measure(instance, case, pairs))
            report(results[-1])
    json_file.write(
        arguments.json,
        "table_loading",
        sysbench=sysbench_version(),
        server=arguments.server,
        options=OPTIONS,
        cases=results,
    )


def measure(instance: Instance, case: Case, pairs: int) -> dict[str, Any]:
    """Run the pairs of a case."""
    tools: dict[str, Callable[[Instance, Case], None]] = {
        "millrace": run_millrace,
        "sysbench": run_sysbench,
    }
    turns: dict[str, list[Turn]] = {name: [] for name in tools}
    definitions: dict[str, set[str]] = {name: set() for name in tools}
    for pair in range(pairs):
        for name in list(tools) if pair % 2 == 0 else list(reversed(tools)):
            turns[name].append(timed(instance, case, tools[name]))
            definitions[name].add(definition(instance, case))
    if definitions["millrace"] != definitions["sysbench"]:
        sys.exit(f"the tools made different tables: {definitions}")
    return {
        **asdict(case),
        "turns": {name: [asdict(turn) for turn in list_] for name, list_ in turns.items()},
        "ratios": {
            figure: asdict(
                paired_ratio(
                    [getattr(turn, figure) for turn in turns["millrace"]],
                    [getattr(turn, figure) for turn in turns["sysbench"]],
                )
            )
            for figure in ("elapsed_s", "client_cpu_s", "server_cpu_s")
        },
    }


def timed(instance: Instance, case: Case, tool: Callable[[Instance, Case], None]) -> Turn:
    """Measure one load by one tool, into a fresh database."""
    instance.query("DROP DATABASE IF EXISTS sbtest")
    instance.query("CREATE DATABASE sbtest CHARACTER SET latin1")
    os.sync()
    server_cpu_s, client_cpu_s = cpu_s(instance), children_cpu_s()
    started = time.perf_counter()
    tool(instance, case)
    elapsed_s = time.perf_counter() - started
    return Turn(elapsed_s, children_cpu_s() - client_cpu_s, cpu_s(instance) - server_cpu_s)


def run_sysbench(instance: Instance, case: Case) -> None:
    run(
        [
            "sysbench",
            "oltp_common",
            "--db-driver=mysql",
            f"--mysql-socket={instance.socket}",
            f"--mysql-user={instance.user}",
            f"--mysql-password={instance.password}",
            f"--tables={case.tables}",
            f"--table-size={case.rows}",
            f"--threads={case.threads}",
            "--rand-type=uniform",
            "prepare",
        ]
    )


def run_millrace(instance: Instance, case: Case) -> None:
    load_sbtest(instance, case.tables, case.rows)


def load_sbtest(instance: Instance, tables: int, rows: int) -> None:
    """Load sysbench's tables into the database sbtest with millrace-load."""
    specification = {
        "version": 2,
        "connection": {
            "socket": str(instance.socket),
            "user": instance.user,
            "password": instance.password,
            "database": "sbtest",
        },
        "session": [],
        "workload": {"tables": {"sbtest": SBTEST}},
        "defaults": {},
        "values": {"tables": tables, "table_size": rows},
        "seed": 1,
        "phases": [{"name": "load", "kind": "load_tables", "limit_s": 3600}],
    }
    run([str(find_load_generator()), "run", "-"], json.dumps(specification))


def run(command: Sequence[str], given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stdout}{done.stderr}")


def definition(instance: Instance, case: Case) -> str:
    """Return the server's definition of the last table, and its number of rows."""
    table = f"sbtest.sbtest{case.tables}"
    [(_, text)] = instance.query(f"SHOW CREATE TABLE {table}")
    [(rows,)] = instance.query(f"SELECT count(*) FROM {table}")
    return re.sub(r" AUTO_INCREMENT=\d+", "", text or "") + f" of {rows} rows"


def cpu_s(instance: Instance) -> float:
    """Return the CPU time of the server's process so far."""
    fields = Path(f"/proc/{instance.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def sysbench_version() -> str:
    return subprocess.run(
        ["sysbench", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def report(case: dict[str, Any]) -> None:
    print(f"{case['name']}: {case['tables']} x {case['rows']:,} rows, with an index on k")
    for name, turns in case["turns"].items():
        times = [turn["elapsed_s"] for turn in turns]
        client, server = (
            statistics.median(turn[figure] for turn in turns)
            for figure in ("client_cpu_s", "server_cpu_s")
        )
        print(
            f"  {name:9} {statistics.median(times):7.2f} s  ({min(times):.2f} to {max(times):.2f})"
            f"   CPU: client {client:.2f} s, server {server:.2f} s"
        )
    for figure, what in (
        ("elapsed_s", "times as fast"),
        ("client_cpu_s", "times less CPU of the client"),
        ("server_cpu_s", "times less CPU of the server"),
    ):
        ratio = case["ratios"][figure]
        goal = f"; the goal is {case['goal']}" if figure == "elapsed_s" else ""
        print(
            f"  {ratio['ratio']:.2f} {what} ({ratio['low']:.2f} to {ratio['high']:.2f},"
            f" 95 %){goal}",
            flush=True,
        )


if __name__ == "__main__":
    main()
