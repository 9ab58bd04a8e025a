"""Measure the cost of up to 10,000 connections of one process.

One row by primary key, at full speed, by 10 to 10,000 connections of one millrace-load. Printed:
its peak memory, its CPU time per query, and the queries per second. The numbers take turns, in
another order each time.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import json_file
from benchmarks.servers import installed, running
from benchmarks.table_loading import load_sbtest
from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance

NUMBERS = (10, 100, 1_000, 10_000)
ROWS = 100_000
# A pool of threads: the server would need a thread for each connection otherwise.
OPTIONS = {
    "max_connections": "10100",
    "thread_handling": "pool-of-threads",
    "open_files_limit": "20000",
    "innodb_buffer_pool_size": "512M",
    "back_log": "10000",
}


@dataclass(frozen=True)
class Turn:
    """One run: bytes of memory, seconds of CPU per query, queries per second."""

    memory: float
    cpu_s: float
    queries_per_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--server", default="mariadb-10.11.19", metavar="NAME", help="[%(default)s]"
    )
    parser.add_argument("--quick", action="store_true", help="one turn instead of 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    n_turns = 1 if arguments.quick else 5
    turns: dict[int, list[Turn]] = {number: [] for number in NUMBERS}
    with running(installed(arguments.server), OPTIONS) as instance:
        instance.query("CREATE DATABASE sbtest")
        load_sbtest(instance, 1, ROWS)
        order = random.Random(1)
        for _ in range(n_turns):
            for number in order.sample(NUMBERS, len(NUMBERS)):
                turns[number].append(_turn(instance, number))
    print(f"{arguments.server}, {n_turns} turns; medians, lowest and highest")
    print(f"{'connections':>11} {'memory, MB':>24} {'CPU a query, µs':>24} {'queries/s':>28}")
    for number, found in turns.items():
        memory = _text([turn.memory / 1e6 for turn in found], 0)
        cpu = _text([turn.cpu_s * 1e6 for turn in found], 1)
        queries = _text([turn.queries_per_s for turn in found], 0)
        print(f"{number:>11,} {memory:>24} {cpu:>24} {queries:>28}")
    json_file.write(
        arguments.json,
        "connections",
        server=arguments.server,
        turns={number: [asdict(turn) for turn in found] for number, found in turns.items()},
    )


def _turn(instance: Instance, number: int) -> Turn:
    command = [
        str(find_load_generator()), "bench", "--workload=point-query", f"--threads={number}",
        f"--table-size={ROWS}", "--time=3", "--warmup-time=1", "--report-interval=1", "--json=-",
        f"--socket={instance.socket}", f"--user={instance.user}",
        f"--password={instance.password}", "--database=sbtest",
    ]  # fmt: skip
    events: list[dict[str, Any]] = []
    memory = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            events.append(json.loads(line))
            memory = max(memory, _peak(process.pid))
    driven = next(event for event in events if event["type"] == "phase")
    count = driven["transactions"][0]["count"]
    client = driven["client"]
    return Turn(
        memory=memory,
        cpu_s=(client["user_s"] + client["system_s"]) / count,
        queries_per_s=count / driven["duration_s"],
    )


def _peak(pid: int) -> int:
    """Return the peak memory of a process in bytes; 0 after it has ended.

    The kernel's figure for an ended child is not used: it includes the parent's memory at the fork.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def _text(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


if __name__ == "__main__":
    main()
