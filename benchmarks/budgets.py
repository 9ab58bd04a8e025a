"""Count the comparisons that runs within a fixed time decide.

Two experiments, each with the time that it may take: 15 sysbench tests of three servers, one client
(20 minutes), and LOAD DATA of six servers (6 minutes). A comparison is decided where its verdict is
a regression, an improvement or equivalence, and the correction for all comparisons leaves it; the
output says how many are, how many of those that look 15 % apart or more, and the first likely cause
of each.

    benchmarks/budgets [--only microbenchmarks|load-data] [--store FILE] [--json FILE]

With ``--store`` the results are kept there, for reports and explanations.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import json_file

BASE = "mysql-5.6.24"
MICROBENCHMARKS = f"""
name = "microbenchmarks-budget"
workload = "sysbench"

[factors]
server = ["{BASE}", "mysql-8.0.33", "mysql-9.7.4"]
configuration = ["cached-oltp"]
test = [
    "point-query", "random-points-100", "hot-points", "points-covered-si", "points-notcovered-si",
    "range-covered-pk", "range-notcovered-si", "scan", "read-only-10", "read-only-100",
    "update-inlist", "update-index", "update-nonindex", "update-one", "write-only",
]
clients = [1]

[compare]
base = "{BASE}"

[parameters]
cache_mode = "cached"
tables = 1
table_size = 100_000
"""
LOAD_DATA = f"""
name = "load-data-budget"
workload = "load-data"

[factors]
server = [
    "{BASE}", "mysql-5.7.22", "mysql-8.0.33", "mysql-9.7.4", "mariadb-10.11.19", "mariadb-11.8.9",
]
configuration = ["default"]
engine = ["InnoDB"]

[compare]
base = "{BASE}"

[parameters]
rows = 500_000
"""
EXPERIMENTS = {"microbenchmarks": (MICROBENCHMARKS, "20min"), "load-data": (LOAD_DATA, "6min")}
LARGE = 0.15
TRIAL_FAILED = 3  # exit status of a run whose other trials have their results
DECIDED = {"regression", "improvement", "equivalent"}


@dataclass(frozen=True)
class Judged:
    """A comparison of the headline metric."""

    candidate: str
    group: str
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None
    decided: bool
    first_cause: str | None

    @property
    def is_large(self) -> bool:
        """True where the two are 15 % apart or more, either way."""
        return self.ratio is not None and not 1 - LARGE < self.ratio < 1 / (1 - LARGE)


def main() -> None:
    arguments = _arguments()
    found = []
    for name in [arguments.only] if arguments.only else EXPERIMENTS:
        text, limit = EXPERIMENTS[name]
        with tempfile.TemporaryDirectory(prefix="millrace-budgets-") as place:
            store = arguments.store or Path(place) / "results.sqlite"
            started_s = time.monotonic()
            document = measure(Path(place), text, limit, store)
            took_s = time.monotonic() - started_s
        judged = comparisons(document)
        _report(f"{name}, at most {limit}: {took_s / 60:.1f} min", judged)
        found.append({"experiment": name, "took_s": took_s, "comparisons": [*map(asdict, judged)]})
    json_file.write(arguments.json, "budgets", found=found)


def measure(place: Path, text: str, limit: str, store: Path) -> dict[str, Any]:
    """Run an experiment within a time limit and return its report (docs/report-json.md)."""
    file = place / "experiment.toml"
    file.write_text(text, encoding="utf-8")
    millrace = [sys.executable, "-m", "millrace.cli.main"]
    ran = subprocess.run(
        [*millrace, "run", str(file), "--new", "--max-time", limit, "--store", str(store)],
        stdout=sys.stderr,
        check=False,
    )
    if ran.returncode not in (0, TRIAL_FAILED):
        raise SystemExit(ran.returncode)
    reported = subprocess.run(
        [*millrace, "report", "latest", "--format", "json", "--store", str(store)],
        stdout=subprocess.PIPE,
        check=True,
    )
    document: dict[str, Any] = json.loads(reported.stdout)
    return document


def comparisons(document: dict[str, Any]) -> list[Judged]:
    """Return the comparisons of a report's headline metric."""
    headline = next(each["name"] for each in document["metrics"] if each["headline"])
    return [
        Judged(
            each["candidate"],
            each["fixed_factors"].get("test", ""),
            each["ratio"],
            each["low"],
            each["high"],
            each["verdict"],
            each["verdict"] in DECIDED and not each["may_be_chance"],
            each["first_cause"],
        )
        for each in document["comparisons"]
        if each["metric"] == headline
    ]


def _report(title: str, judged: list[Judged]) -> None:
    large = [each for each in judged if each.is_large]
    print(title)
    for each in judged:
        ratio = "no ratio"
        if each.ratio is not None:
            ratio = f"{each.ratio:.3f} ({each.low or 0:.3f} to {each.high or 0:.3f})"
        verdict = f"{each.verdict or 'no verdict'}{'' if each.decided else ', not decided'}"
        print(f"  {each.candidate:17} {each.group:21} {ratio}  {verdict}")
        if each.first_cause:
            print(f"    {each.first_cause}")
    print(
        f"  {sum(each.decided for each in judged)} of {len(judged)} comparisons decided; of those "
        f"{100 * LARGE:.0f} % apart or more, {sum(each.decided for each in large)} of {len(large)}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=sorted(EXPERIMENTS))
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep the results there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
