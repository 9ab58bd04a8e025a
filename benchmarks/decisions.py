"""Measure the noise of a ratio a minute: slices against interleaved trials, in turns.

A server is compared with itself, so that each ratio other than 1 is noise (A/A), or with another
one. Both designs measure for as long, on the same tables, and their blocks take turns. The noise of
one minute is the standard deviation of the blocks' log ratios by the root of the number of blocks
that fit into it, with all that a block takes but for loading its tables. Its interval is that of a
normal sample (chi-square); the ratio of two designs has that of an F distribution.

    benchmarks/decisions [--servers A,B] [--clients 1,8,32] [--blocks 20] [--quick] [--json FILE]

With "--designs slices" the time of all blocks is given to slices.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from scipy import stats

from benchmarks import json_file
from millrace.analysis.compare.treatments import trial_s
from millrace.store.records import StoredAttempt
from millrace.store.store import Store

EXPERIMENT = """
name = "{design}"
workload = "sysbench"
seed = 1
collectors = []

[factors]
server = {server}
test = ["{test}"]
clients = [{clients}]

[compare]
factor = "server"
base = "{base}"

[parameters]
table_size = 100_000
time_s = {time_s}
warmup_s = 0.5
settle_s = 5
cache_mode = "cached"
"""

Design = Literal["interleaved", "slices"]
DESIGNS: tuple[Design, ...] = ("interleaved", "slices")
_AFTER = {"interleaved": "measure_duration_s", "slices": "measure_trimmed_s"}


@dataclass(frozen=True)
class Blocks:
    """The log ratios of a design's blocks, and the mean seconds that a block takes."""

    design: Design
    logs: list[float]
    block_s: float

    @property
    def minute(self) -> float:
        """The standard deviation of a log ratio after one minute."""
        return statistics.stdev(self.logs) * math.sqrt(self.block_s / 60)

    def limits(self) -> tuple[float, float]:
        """Return the 95 % interval of the noise of one minute."""
        freedom = len(self.logs) - 1
        most, least = (float(stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025))
        return self.minute * math.sqrt(freedom / most), self.minute * math.sqrt(freedom / least)


def main() -> None:
    arguments = _arguments()
    blocks = 4 if arguments.quick else arguments.blocks
    found = []
    for name in arguments.servers.split(","):
        for clients in arguments.clients.split(","):
            with tempfile.TemporaryDirectory(prefix="millrace-decisions-") as place:
                measured = measure(Path(place), name, clients, arguments, blocks)
            _report(f"{name}, {arguments.test}, {clients} clients", measured)
            found.append(
                {"server": name, "clients": clients, "designs": list(map(asdict, measured))}
            )
    json_file.write(arguments.json, "decisions", found=found)


def measure(
    place: Path, server: str, clients: str, arguments: argparse.Namespace, blocks: int
) -> list[Blocks]:
    """Run both designs in turns, a block at a time, and return their blocks."""
    other = arguments.against
    levels = f'["{server}", "{other}"]'
    if other is None:
        levels = f'{{ levels = ["{server}", "again"], aliases = {{ again = "{server}" }} }}'
    designs: list[Design] = [each for each in DESIGNS if each in arguments.designs]
    for design in designs:
        text = EXPERIMENT.format(
            design=design, server=levels, test=arguments.test, clients=clients, base=server,
            time_s=arguments.time_s,
        )  # fmt: skip
        (place / f"{design}.toml").write_text(text, encoding="utf-8")
    # Blocks take turns; those of one design alone need not wait for another process each.
    for block in range(1, blocks + 1) if len(designs) > 1 else (blocks,):
        for design in designs if block % 2 else reversed(designs):
            how = "--slices" if design == "slices" else "--interleaved"
            _run(place, design, how, "--blocks", str(block))
    return [_blocks(place, design) for design in designs]


def _run(place: Path, design: Design, *options: str) -> None:
    command = [sys.executable, "-m", "millrace.cli.main", "run", str(place / f"{design}.toml")]
    store = ["--store", str(place / f"{design}.sqlite")]
    ended = subprocess.run(
        [*command, *store, *options], cwd=place, check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)


def _blocks(place: Path, design: Design) -> Blocks:
    with Store.open(place / f"{design}.sqlite") as store:
        stored = store.load_run(store.find_run("latest").id)
    attempts = stored.last_attempts()
    base = stored.treatments[0].id
    by_block: dict[int, dict[bool, StoredAttempt]] = {}
    for trial in stored.trials:
        if trial.id in attempts and attempts[trial.id].outcome == "finished":
            of_block = by_block.setdefault(trial.block, {})
            of_block[trial.treatment_id == base] = attempts[trial.id]
    # The first block loads the tables.
    pairs = [each for block, each in sorted(by_block.items()) if block and len(each) == 2]
    logs = [math.log(_tps(each[False], design) / _tps(each[True], design)) for each in pairs]
    took_s = statistics.fmean(sum(map(trial_s, each.values())) for each in pairs)
    return Blocks(design, logs, took_s)


def _tps(attempt: StoredAttempt, design: Design) -> float:
    return attempt.measured["transactions"] / attempt.measured[_AFTER[design]]


def _report(title: str, measured: list[Blocks]) -> None:
    print(title)
    for each in measured:
        low, high = each.limits()
        mean = statistics.fmean(each.logs)
        error = statistics.stdev(each.logs) / math.sqrt(len(each.logs))
        print(
            f"  {each.design:12} {len(each.logs)} blocks of {each.block_s:.1f} s: noise a minute "
            f"{100 * each.minute:.2f} % ({100 * low:.2f} to {100 * high:.2f}), mean log ratio "
            f"{100 * mean:+.2f} % +- {100 * error:.2f}",
            flush=True,
        )
    if len(measured) < len(DESIGNS):
        return
    interleaved, slices = measured
    ratio = slices.minute / interleaved.minute
    freedom = len(slices.logs) - 1, len(interleaved.logs) - 1
    low, high = (float(stats.f.ppf(share, *freedom)) for share in (0.025, 0.975))
    print(
        f"  slices have {ratio:.3f} of the noise ({ratio / math.sqrt(high):.3f} to "
        f"{ratio / math.sqrt(low):.3f})",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--servers", default="mysql-8.0.33,mariadb-10.11.19")
    parser.add_argument("--against", help="another server than the first itself")
    parser.add_argument("--test", default="point-query")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=DESIGNS)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--time-s", type=float, default=2.0)
    parser.add_argument("--quick", action="store_true", help="4 blocks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
