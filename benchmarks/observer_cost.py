"""What do observers cost? Throughput of the same clients on the same running server, in turns
without observers, with those of every trial, and with the CPU profile besides."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.servers import installed, running
from millrace import workloads
from millrace.load import client as load
from millrace.load.spec import Connection
from millrace.observe.registry import OBSERVERS, PROFILE
from millrace.runner import phases
from millrace.runner.observing import board, observed
from millrace.runner.work import Work
from millrace.servers.instances import Instance
from millrace.stats.ratio import RatioEstimate, paired_ratio

DATABASE = "sbtest"
LIMIT_S = 600.0
OPTIONS = {"innodb_buffer_pool_size": "256M", "innodb_flush_log_at_trx_commit": "0"}
TESTS = ("oltp_point_select", "oltp_update_non_index")

BY_DEFAULT = tuple(name for name in OBSERVERS if name != PROFILE)
WAYS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "observers of every trial": BY_DEFAULT,
    "with the CPU profile": (*BY_DEFAULT, PROFILE),
}
GOALS = {"observers of every trial": 0.99, "with the CPU profile": 0.97}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mysql-8.0.33", metavar="NAME", help="[%(default)s]")
    parser.add_argument(
        "--each", action="store_true", help="each observer alone, too, instead of all at once"
    )
    parser.add_argument("--quick", action="store_true", help="6 turns of 2 s instead of 20 of 4 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    turns, seconds = (6, 2.0) if arguments.quick else (20, 4.0)
    ways = {**WAYS, **({name: (name,) for name in BY_DEFAULT} if arguments.each else {})}
    results = []
    server = installed(arguments.server)
    for clients in (1, 16):
        for test in TESTS:
            chosen = {"test": test, "clients": clients, "time_s": seconds, "warmup_s": 0.5}
            work = Work(workloads.load("sysbench"), {**chosen, "table_size": 50_000, "tables": 1})
            with running(server, OPTIONS) as instance:
                rates = _rates(instance, work, ways, turns)
            for way in ways:
                if way != "none":
                    ratio = paired_ratio(rates["none"], rates[way])
                    results.append({"test": test, "clients": clients, "way": way, **asdict(ratio)})
                    _print(test, clients, way, ratio)
    if arguments.json is not None:
        result = {
            "benchmark": "observer_cost",
            "versions": load.versions(),
            "processors": len(os.sched_getaffinity(0)),
            "server": arguments.server,
            "turns": turns,
            "seconds": seconds,
            "ratios": results,
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def _print(test: str, clients: int, way: str, ratio: RatioEstimate) -> None:
    goal = f"; the goal is {GOALS[way]:.2f}" if way in GOALS else ""
    print(
        f"{test:22} {clients:3} clients  {way:26} {ratio.ratio:.3f} of the throughput "
        f"({ratio.low:.3f} to {ratio.high:.3f}, 95 %, {ratio.n_pairs} turns){goal}",
        flush=True,
    )


def _rates(
    instance: Instance, work: Work, ways: Mapping[str, tuple[str, ...]], turns: int
) -> dict[str, list[float]]:
    """Transactions a second by way, a value a turn; the order changes from turn to turn."""
    instance.query(f"CREATE DATABASE {DATABASE}")
    connection = Connection(
        socket=instance.socket,
        user=instance.user,
        password=instance.password,
        database=DATABASE,
    )
    load.run(phases.spec(work.making, work, connection), limit_s=LIMIT_S)
    load.run(phases.spec(work.warming, work, connection), limit_s=LIMIT_S)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    names = list(ways)
    for turn in range(turns):
        first = turn % len(names)
        for way in names[first:] + names[:first]:
            rates[way].append(_rate(instance, work, connection, ways[way]))
    return rates


def _rate(instance: Instance, work: Work, connection: Connection, names: tuple[str, ...]) -> float:
    def hear(event: Mapping[str, Any]) -> None:
        collector.see(event)

    with ExitStack() as opened:
        shown = opened.enter_context(board(names, work))
        path = None if shown is None else shown.path
        spec = phases.spec(work.measuring, work, connection, board=path)
        collector = opened.enter_context(
            observed(names, work, instance, DATABASE, spec, shown=shown)
        )
        driven = load.run(spec, on_event=hear, limit_s=LIMIT_S).driven()
        collector.document()
    assert driven is not None
    return sum(record.count for record in driven.transactions) / driven.duration_s


if __name__ == "__main__":
    main()
