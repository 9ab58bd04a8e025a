"""Measure how often millrace calls a difference between a server and itself.

The same server under two names, run after run, through the whole product: every verdict of
``regression`` or ``improvement`` is a false alarm. Prints a line a run, the count with its binomial
interval (Clopper and Pearson, Biometrika 26, 1934), and the mean of the runs' log ratios, which
should be 0, with its standard error.

    benchmarks/aa [--runs 20] [--server NAME] [--configuration NAME] [--quick] [--json FILE]
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import json_file
from millrace.stats.proportions import proportion_limits

EXPERIMENT = """
name = "a-a"
title = "The same server twice"
workload = "load-data"
blocks = {blocks}

[factors]
server = {{ levels = ["{server}", "again"], aliases = {{ again = "{server}" }} }}
configuration = ["{configuration}"]

[compare]
factor = "server"
base = "{server}"

[parameters]
rows = {rows}
"""


def main() -> None:
    arguments = _arguments()
    rows, blocks, runs = (2_000, 3, 2) if arguments.quick else (100_000, 3, arguments.runs)
    text = EXPERIMENT.format(
        server=arguments.server, configuration=arguments.configuration, rows=rows, blocks=blocks
    )
    with tempfile.TemporaryDirectory(prefix="millrace-aa-") as directory:
        file = Path(directory) / "a-a.toml"
        file.write_text(text, encoding="utf-8")
        store = Path(directory) / "results.sqlite"
        comparisons = [_run(file, store, seed) for seed in range(1, runs + 1)]
    false_alarms = sum(each["verdict"] in ("regression", "improvement") for each in comparisons)
    low, high = proportion_limits(false_alarms, runs)
    print(
        f"{false_alarms} of {runs} runs called a difference where there is none "
        f"(95 % interval of the rate {low:.3f} to {high:.3f})"
    )
    if runs > 1:
        logs = [math.log(each["ratio"]) for each in comparisons]
        error = statistics.stdev(logs) / math.sqrt(runs)
        print(f"mean log ratio {100 * statistics.fmean(logs):+.2f} % +- {100 * error:.2f}")
    json_file.write(
        arguments.json, "aa", runs=runs, false_alarms=false_alarms, comparisons=comparisons
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--server", default="mysql-5.6.24")
    parser.add_argument("--configuration", default="default")
    parser.add_argument("--quick", action="store_true", help="two small runs: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def _run(file: Path, store: Path, seed: int) -> dict[str, Any]:
    """Execute one run, print its primary comparison as a line, and return the comparison."""
    millrace = str(Path(sys.executable).with_name("millrace"))
    subprocess.run(
        [millrace, "run", str(file), "--seed", str(seed), "--store", str(store)],
        check=True,
        capture_output=True,
    )
    report = subprocess.run(
        [millrace, "report", "--format", "json", "--store", str(store)],
        check=True,
        capture_output=True,
        text=True,
    )
    comparisons = json.loads(report.stdout)["comparisons"]
    found: dict[str, Any] = next(each for each in comparisons if each["metric"] == "throughput")
    print(
        f"seed {seed}: {found['verdict']}, ratio {found['ratio']:.3f} "
        f"({found['low']:.3f} to {found['high']:.3f}), {found['n_blocks']} blocks",
        flush=True,
    )
    return found


if __name__ == "__main__":
    main()
