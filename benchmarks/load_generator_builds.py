"""Compare two builds of the load generator, such as that of today with an earlier one.

Both take turns against one running server: point queries and transactions of many statements,
prepared and as text, from one client and from 32, each for a few seconds in random order. The
ratios are this build's figures by the other's in the same turn, with Student's 95 % interval.

    benchmarks/load_generator_builds OTHER [--server NAME] [--turns N] [--quick] [--json FILE]

OTHER is the program millrace-load of the other build.
"""

import argparse
import json
import os
import random
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from benchmarks import json_file
from benchmarks.servers import installed, running
from benchmarks.table_loading import load_sbtest
from millrace.loadgen.program import find_load_generator
from millrace.servers.instances.instance import Instance
from millrace.stats.ratio import RatioEstimate, paired_ratio

ROWS = 100_000
OPTIONS = {"innodb_buffer_pool_size": "512M", "innodb_flush_log_at_trx_commit": "0"}
PREPARED, TEXT = "auto", "disable"
MEASURES = {"queries_per_s": "queries/s", "cpu_s": "client CPU a query"}


@dataclass(frozen=True)
class Cell:
    """One kind of load."""

    test: str
    prepared: str
    clients: int

    @property
    def text(self) -> str:
        how = "prepared" if self.prepared == PREPARED else "text"
        return f"{self.test}, {how}, {self.clients} client{'' if self.clients == 1 else 's'}"


@dataclass(frozen=True)
class Figures:
    """One run of one build: queries a second, and its own CPU seconds for each."""

    queries_per_s: float
    cpu_s: float


CELLS = tuple(
    Cell(*each)
    for each in product(("oltp_point_select", "oltp_read_only"), (PREPARED, TEXT), (1, 32))
)


def main() -> None:
    arguments = _arguments()
    turns, seconds = (3, 1) if arguments.quick else (arguments.turns, 3)
    builds = {"this": find_load_generator(), "other": arguments.other}
    runs: dict[Cell, dict[str, list[Figures]]] = {c: {b: [] for b in builds} for c in CELLS}
    order = random.Random(1)
    with running(installed(arguments.server), OPTIONS) as instance:
        instance.query("CREATE DATABASE sbtest")
        load_sbtest(instance, 1, ROWS)
        for _ in range(turns):
            for cell in order.sample(CELLS, len(CELLS)):
                for name in order.sample(sorted(builds), len(builds)):
                    runs[cell][name].append(_run(builds[name], instance, cell, seconds))
    print(f"{arguments.server}, {turns} turns of {seconds} s: this build by the other")
    print(" " * 42 + "".join(f"{title:>25}" for title in MEASURES.values()))
    ratios = {cell: _ratios(found) for cell, found in runs.items()}
    for cell, of_cell in ratios.items():
        print(f"{cell.text:42}" + "".join(f"{_text(each):>25}" for each in of_cell.values()))
    json_file.write(
        arguments.json,
        "load_generator_builds",
        server=arguments.server,
        ratios={
            cell.text: {name: asdict(each) for name, each in of_cell.items()}
            for cell, of_cell in ratios.items()
        },
    )


def _run(program: Path, instance: Instance, cell: Cell, seconds: int) -> Figures:
    command = [
        str(program), "bench", f"--workload={cell.test}", f"--threads={cell.clients}",
        f"--table-size={ROWS}", f"--db-ps-mode={cell.prepared}", f"--time={seconds}",
        "--warmup-time=0.5", "--json=-", f"--socket={instance.socket}",
        f"--user={instance.user}", f"--password={instance.password}", "--database=sbtest",
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{program}: {ended.stderr.strip()}")
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    driven = next(event for event in events if event["type"] == "phase")
    queries = sum(each["count"] for each in driven["statements"])
    client = driven["client"]
    return Figures(
        queries_per_s=queries / driven["duration_s"],
        cpu_s=(client["user_s"] + client["system_s"]) / queries,
    )


def _ratios(found: Mapping[str, list[Figures]]) -> dict[str, RatioEstimate]:
    """Return this build's figures by the other's, by measure."""
    return {
        name: paired_ratio(*([getattr(run, name) for run in found[of]] for of in ("other", "this")))
        for name in MEASURES
    }


def _text(ratio: RatioEstimate) -> str:
    return f"{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _program(text: str) -> Path:
    """Return the path of a program. Raise ArgumentTypeError where there is none."""
    path = Path(text).resolve()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text} is not a program; name a file millrace-load")
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "other", type=_program, metavar="OTHER", help="millrace-load of another build"
    )
    parser.add_argument("--server", default="mariadb-10.11.19", help="of the catalogue")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="three short turns, in a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
