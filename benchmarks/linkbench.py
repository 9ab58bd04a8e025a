"""Measure what LinkBench costs the load generator, and how fast it loads.

*Requests*: the client's CPU time per operation, against the same statements sent blindly. The
server's general log records what some operations asked; a workload of constants then sends these
texts again, with nothing generated and no answer looked at. *Load*: rows a second of LOAD DATA
LOCAL, against multi-row INSERT with as many loaders. Both sides take turns (A B, B A, A B ...).
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import json_file
from benchmarks.servers import installed, running
from millrace import workloads
from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance
from millrace.stats.ratio import paired_ratio

# A pool and a log that hold the tables keep the disk out of the measurement.
OPTIONS = {
    "innodb_buffer_pool_size": "1G",
    "innodb_log_file_size": "512M",
    "innodb_flush_log_at_trx_commit": "0",
}
DATABASE = "linkbench"
MOST_COST = 2.0  # CPU time per operation, by that of the blind replay
LEAST_SPEED = 1.35  # rows a second, by those of multi-row INSERT
RECORDED = 400  # each has a histogram of its own
LIMIT_S = 3600

Workload = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the nodes, 3 pairs")
    parser.add_argument("--server", default="mysql-5.7.22", metavar="NAME", help="[%(default)s]")
    parser.add_argument("--clients", type=int, default=8, metavar="N", help="[%(default)s]")
    parser.add_argument(
        "--loaders", type=int, default=linkbench_defaults()["load_threads"], metavar="N",
        help="[%(default)s, those of the workload]",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    nodes, pairs, seconds = (60_000, 3, 3) if arguments.quick else (300_000, 7, 10)
    values = {"nodes": nodes, "max_links": nodes // 10, "table_options": ""}
    with running(installed(arguments.server), OPTIONS) as instance:
        load = measure_load(instance, values, arguments.loaders, pairs)
        requests = measure_requests(instance, values, arguments.clients, pairs, seconds)
    figures = {"load": load, "requests": requests}
    for name, found in figures.items():
        print(f"{name}: {json.dumps(found)}", flush=True)
    json_file.write(
        arguments.json, "linkbench", server=arguments.server, options=OPTIONS, nodes=nodes,
        loaders=arguments.loaders, clients=arguments.clients, **figures,
    )  # fmt: skip
    speed, cost = load["ratio"], requests["ratio"]
    print(f"load: {interval(speed)} times as fast, goal {LEAST_SPEED}")
    print(f"requests: {interval(cost)} times the CPU time, goal at most {MOST_COST}")
    sys.exit(speed["ratio"] < LEAST_SPEED or cost["ratio"] > MOST_COST)


def interval(ratio: Mapping[str, Any]) -> str:
    return f"{ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def measure_load(
    instance: Instance, values: Mapping[str, Any], loaders: int, pairs: int
) -> dict[str, Any]:
    """Return rows a second by both methods.

    One load comes before: it touches the memory of the server's pool for the first time.
    """

    def load(method: str) -> float:
        recreate(instance)
        phase = {"kind": "load_tables", "threads": loaders, "chunk_rows": 8192, "method": method}
        (done,) = run(instance, linkbench(), values, [phase])
        return float(done["rows_sent"] / done["duration_s"])

    speeds: dict[str, list[float]] = {"local": [], "multi_row": []}
    load("local")
    for method in turns(list(speeds), pairs):
        speeds[method].append(load(method))
    return {
        "rows_per_s": speeds,
        "ratio": asdict(paired_ratio(speeds["multi_row"], speeds["local"])),
    }


def measure_requests(
    instance: Instance, values: Mapping[str, Any], clients: int, pairs: int, seconds: float
) -> dict[str, Any]:
    """Return the CPU time of an operation, in seconds, as LinkBench and replayed blindly."""
    recreate(instance)
    run(instance, linkbench(), values, [{"kind": "load_tables"}])
    blind = replay(recorded(instance, values))
    by_time = {"kind": "time", "seconds": seconds}
    sides = {"linkbench": linkbench(), "replay": blind}
    costs: dict[str, list[float]] = {name: [] for name in sides}
    for name in turns(list(sides), pairs):
        (done,) = run(instance, sides[name], values, [drive(name, clients, by_time)])
        operations = sum(each["count"] for each in done["transactions"])
        costs[name].append((done["client"]["user_s"] + done["client"]["system_s"]) / operations)
    return {
        "cpu_s_per_operation": costs,
        "ratio": asdict(paired_ratio(costs["replay"], costs["linkbench"])),
    }


def turns(names: Sequence[str], pairs: int) -> Iterator[str]:
    """Yield the sides of pairs in alternating order."""
    for pair in range(pairs):
        yield from names if pair % 2 == 0 else reversed(names)


def linkbench_defaults() -> dict[str, Any]:
    return workloads.parse_workload(workloads.load("linkbench")).defaults()


def linkbench() -> Workload:
    definition = workloads.load("linkbench")
    return {key: definition[key] for key in ("tables", "generators", "statements", "tests")}


def recorded(instance: Instance, values: Mapping[str, Any]) -> list[list[str]]:
    """Return the texts of the transactions that one client asks."""
    instance.query("SET GLOBAL log_output = 'TABLE'")
    instance.query("TRUNCATE mysql.general_log")
    instance.query("SET GLOBAL general_log = 1")
    end = {"kind": "operations", "transactions": RECORDED}
    run(instance, linkbench(), values, [drive("linkbench", 1, end)])
    instance.query("SET GLOBAL general_log = 0")
    rows = instance.query(
        "SELECT CONVERT(argument USING latin1) FROM mysql.general_log WHERE command_type = 'Query'"
    )
    asked = [str(text) for (text,) in rows if "linktable" in f"{text}" or is_of_nodes(f"{text}")]
    transactions: list[list[str]] = [[]]
    for text in asked:
        transactions[-1].append(text)
        if transactions[-1][0] != "BEGIN" or text == "COMMIT":
            transactions.append([])
    return transactions[:-1]


def is_of_nodes(text: str) -> bool:
    return text in ("BEGIN", "COMMIT") or "nodetable" in text or "counttable" in text


def replay(transactions: Sequence[Sequence[str]]) -> Workload:
    """Return a workload that asks for any of the transactions, whatever the answers."""
    statements = {
        f"s{number}_{place}": {"sql": text}
        for number, texts in enumerate(transactions)
        for place, text in enumerate(texts)
    }
    mix = [
        {
            "name": f"t{number}",
            "weight": 1,
            "steps": [{"statements": [f"s{number}_{place}" for place in range(len(texts))]}],
        }
        for number, texts in enumerate(transactions)
    ]
    return {"statements": statements, "tests": {"replay": {"title": "the same again", "mix": mix}}}


def drive(test: str, clients: int, end: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "drive", "test": test, "clients": clients, "protocol": "text",
        "pacing": {"kind": "closed"}, "warmup": {"kind": "time", "seconds": 0}, "end": end,
        "retry": ["1205", "1213"],
    }  # fmt: skip


def recreate(instance: Instance) -> None:
    instance.query(f"DROP DATABASE IF EXISTS {DATABASE}")
    instance.query(f"CREATE DATABASE {DATABASE}")


def run(
    instance: Instance,
    workload: Workload,
    values: Mapping[str, Any],
    phases: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Run phases with millrace-load and return their results."""
    specification = {
        "version": 2,
        "connection": {
            "socket": str(instance.socket),
            "user": instance.user,
            "password": instance.password,
            "database": DATABASE,
        },
        "session": [],
        "workload": workload,
        "defaults": linkbench_defaults(),
        "values": dict(values),
        "seed": 1,
        "phases": [{"name": each["kind"], "limit_s": LIMIT_S, **each} for each in phases],
    }
    done = subprocess.run(
        [str(find_load_generator()), "run", "-"],
        input=json.dumps(specification), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"millrace-load failed: {done.stdout[-2000:]}{done.stderr}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event for event in events if event["type"] == "phase"]


if __name__ == "__main__":
    main()
