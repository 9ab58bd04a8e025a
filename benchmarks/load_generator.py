"""Compare millrace-load with sysbench, mysqlslap and the least that any client could cost.

    benchmarks/load_generator [--server NAME] [--turns N] [--seconds S] [--quick] [--json FILE]

The tools take turns against one running server: in every turn each tool runs each cell once, in
another order each time, so that drift of the machine affects all of them. A ratio is the geometric
mean over the turns of one tool's figure over another's in the same turn, with Student's t interval.
The floor is an epoll loop of one thread that sends prepared packets and parses nothing. With one
connection idle states of the CPUs are disabled, for every tool.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.load_tools import (
    DATABASE,
    PREPARED,
    STATEMENTS,
    TEXT,
    Bench,
    Cell,
    Figures,
    build_floor,
    install,
)
from benchmarks.servers import installed, running
from millrace.loadgen.cpu_idle import disable_idle_states
from millrace.loadgen.datasets import versions
from millrace.servers.instances.instance import Instance
from millrace.servers.instances.signals import signals_as_errors
from millrace.stats.ratio import RatioEstimate, paired_ratio

OPTIONS = {
    "max_connections": "1000",
    "innodb_buffer_pool_size": "512M",
    "innodb_flush_log_at_trx_commit": "0",  # the client is measured, not the disk
    "skip_log_bin": None,
    "performance_schema": "OFF",
}
MEASURES = {
    "queries_per_s": "QPS",
    "client_cpu_s": "client CPU",
    "server_cpu_s": "server CPU",
    "p50_s": "p50",
    "p99_s": "p99",
}
SYSBENCH, SLAP, FLOOR, MILLRACE = "sysbench", "mysqlslap", "floor", "millrace-load"
Runs = dict[Cell, dict[str, list[Figures]]]


@dataclass(frozen=True)
class Scale:
    """The number and size of the measurements."""

    connections: tuple[int, ...]
    turns: int
    seconds: int  # sysbench has no partial transactions


FULL = Scale((1, 8, 32, 256), turns=5, seconds=2)
QUICK = Scale((1, 32), turns=3, seconds=1)


def main() -> None:
    arguments = _arguments()
    scale = QUICK if arguments.quick else FULL
    turns, seconds = arguments.turns or scale.turns, arguments.seconds or scale.seconds
    install(SYSBENCH, SLAP)
    floor = build_floor()
    with signals_as_errors(), _server(arguments.server) as instance:
        bench = Bench(instance, floor, seconds)
        bench.prepare()
        runs = _take_turns(bench, _cells(scale.connections), turns, seconds)
        version = instance.version()
    result = _result(version, runs)
    _report(result)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mariadb-10.11.19", help="of the catalogue")
    parser.add_argument("--turns", type=int, help="runs of each tool and cell")
    parser.add_argument("--seconds", type=int, help="that a run takes")
    parser.add_argument("--quick", action="store_true", help="a first look, in 3 minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


@contextmanager
def _server(name: str) -> Iterator[Instance]:
    with running(installed(name), OPTIONS) as instance:
        instance.query(f"CREATE DATABASE {DATABASE}")
        yield instance


def _cells(connections: Sequence[int]) -> list[Cell]:
    return [
        Cell(statement, protocol, count)
        for statement, asked in STATEMENTS.items()
        for protocol in ((PREPARED, TEXT) if asked.parameters else (TEXT,))
        for count in connections
    ]


def _take_turns(bench: Bench, cells: Sequence[Cell], turns: int, seconds: int) -> Runs:
    runs: Runs = {cell: {} for cell in cells}
    order = random.Random(1)
    for turn in range(turns):
        for number, cell in enumerate(cells):
            _progress(f"turn {turn + 1} of {turns}, {number + 1} of {len(cells)}: {cell}")
            for name in _order(cell, order, sysbench_first=turn == 0):
                # A single client waits for sleeping CPUs most of the time, whatever its code.
                with disable_idle_states() if cell.connections == 1 else nullcontext():
                    run = _run(bench, name, cell, runs[cell], seconds)
                runs[cell].setdefault(name, []).append(run)
    _progress("")
    return runs


def _order(cell: Cell, order: random.Random, *, sysbench_first: bool) -> list[str]:
    names = [FLOOR, MILLRACE, *((SLAP,) if cell.protocol == TEXT else ())]
    if sysbench_first:  # mysqlslap has no time limit: this rate determines its number of queries
        order.shuffle(names)
        return [SYSBENCH, *names]
    names.append(SYSBENCH)
    order.shuffle(names)
    return names


def _run(
    bench: Bench, name: str, cell: Cell, earlier: dict[str, list[Figures]], seconds: int
) -> Figures:
    if name == SLAP:
        # About the same time as the others, at an equal speed; a share for each client.
        wanted = earlier[SYSBENCH][0].queries_per_s * seconds
        return bench.mysqlslap(cell, max(1, round(wanted / cell.connections)) * cell.connections)
    tools = {SYSBENCH: bench.sysbench, FLOOR: bench.floor, MILLRACE: bench.millrace}
    return tools[name](cell)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _result(version: str, runs: Runs) -> dict[str, Any]:
    sysbench = subprocess.run(
        ["sysbench", "--version"], stdout=subprocess.PIPE, text=True, check=True
    )
    return {
        "benchmark": "load_generator",
        "versions": {**versions(), "sysbench": sysbench.stdout.strip()},
        "server": version,
        "processors": len(os.sched_getaffinity(0)),
        "cells": [
            {
                **asdict(cell),
                "tools": {name: [asdict(run) for run in tool] for name, tool in tools.items()},
                "ratios": _ratios(tools),
            }
            for cell, tools in runs.items()
        ],
    }


def _ratios(tools: dict[str, list[Figures]]) -> dict[str, dict[str, Any]]:
    """Return the ratios of millrace-load to each other tool, for each measure that both have."""
    ratios: dict[str, dict[str, Any]] = {}
    for base in (SYSBENCH, FLOOR, SLAP):
        for measure in MEASURES:
            values = [
                [getattr(run, measure) for run in tools.get(tool, [])] for tool in (base, MILLRACE)
            ]
            if values[0] and None not in values[0]:
                ratio = paired_ratio(values[0], values[1])
                ratios.setdefault(base, {})[measure] = asdict(ratio)
    return ratios


def _report(result: dict[str, Any]) -> None:
    turns = len(result["cells"][0]["tools"][MILLRACE])
    print(
        f"server {result['server']}, {result['versions']['sysbench']}, millrace-load "
        f"{result['versions']['load_generator']}, {result['processors']} processors, {turns} turns"
    )
    print("Medians; CPU and latencies in µs a query. Ratios: millrace-load by the tool, with the")
    print("95 % interval; below 1 is better but for QPS. sysbench's percentiles are its buckets',")
    print("its CPU time has its ending in it; mysqlslap's time has connecting in it.")
    for cell in result["cells"]:
        print(f"\n{cell['statement']}, {cell['protocol']}, {cell['connections']} connections")
        print("  " + f"{'':14}" + "".join(f"{name:>25}" for name in MEASURES.values()))
        for tool, runs in cell["tools"].items():
            print(f"  {tool:14}" + "".join(f"{_median(runs, key):>25}" for key in MEASURES))
        for tool, ratios in cell["ratios"].items():
            cells = (_interval(ratios.get(key)) for key in MEASURES)
            print(f"  {'by ' + tool:14}" + "".join(f"{text:>25}" for text in cells))


def _median(runs: Sequence[dict[str, Any]], measure: str) -> str:
    values = [run[measure] for run in runs]
    if None in values:
        return "-"
    value = statistics.median(values)
    return f"{value:,.0f}" if measure == "queries_per_s" else f"{value * 1e6:,.1f}"


def _interval(ratio: dict[str, Any] | None) -> str:
    if ratio is None:
        return "-"
    estimate = RatioEstimate(**ratio)
    if estimate.low is None or estimate.high is None:
        return f"{estimate.ratio:.3f}"
    return f"{estimate.ratio:.3f} ({estimate.low:.2f} to {estimate.high:.2f})"


if __name__ == "__main__":
    main()
