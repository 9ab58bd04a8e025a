"""Measure whether slices find a small change, and call none where there is none.

Each round has a server, the same server again, and the same server slowed down: it rests after its
slices for a share of their time. The rounds are cut into runs of as many as fit into a time, each
with Student's interval: a run finds the change where the interval excludes no difference, and is
false where it does so for the server against itself, or excludes the injected change. Rates have
binomial intervals (Clopper and Pearson, Biometrika 26, 1934).

    benchmarks/small_changes [--change 1] [--minutes 3] [--runs 20] [--server NAME] [--test NAME]
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import json_file
from millrace.analysis.compare.treatments import trial_s
from millrace.app import execution
from millrace.app.experiments import read_experiment
from millrace.errors import MillraceError
from millrace.experiment.model import Compare, Experiment, Factor
from millrace.experiment.slowdown import AGAIN, FACTOR, NONE, Stopped
from millrace.model.measurements import TRANSACTIONS, trimmed_s
from millrace.stats.proportions import proportion_limits
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.store.records import StoredRun
from millrace.store.store import Store

EXPERIMENT = """
name = "small-changes"
workload = "sysbench"
design = "slices"
collectors = []
blocks = 2

[factors]
server = ["{server}"]
test = ["{test}"]

[compare]
base = "{server}"

[parameters]
table_size = 100_000
time_s = 2
warmup_s = 0.5
settle_s = 5
cache_mode = "cached"
"""


@dataclass(frozen=True)
class Rounds:
    """The rates of each side by round, and the mean seconds of a round."""

    base: list[float]
    again: list[float]
    slowed: list[float]
    round_s: float


def main() -> None:
    arguments = _arguments()
    minutes, runs = (0.8, 2) if arguments.quick else (arguments.minutes, arguments.runs)
    change = arguments.change / 100
    with tempfile.TemporaryDirectory(prefix="millrace-small-changes-") as place:
        experiment = _experiment(Path(place), arguments.server, arguments.test, change)
        rounds = measure(Path(place) / "results.sqlite", experiment, minutes, runs)
    per_run = min(max(3, int(60 * minutes / rounds.round_s)), len(rounds.base) // runs)
    print(
        f"{arguments.server}, {arguments.test}: {len(rounds.base)} rounds of {rounds.round_s:.1f} "
        f"s for three servers, {per_run} of them a run"
    )
    found = {
        "against itself": _judged("against itself", rounds.base, rounds.again, per_run, 0.0),
        "slowed down": _judged("slowed down", rounds.base, rounds.slowed, per_run, change),
    }
    json_file.write(
        arguments.json, "small_changes", change=change, round_s=rounds.round_s, found=found
    )


def measure(store: Path, experiment: Experiment, minutes: float, runs: int) -> Rounds:
    """Measure rounds of three servers for the time of all runs."""
    caller = execution.Caller("benchmarks/small_changes")
    execution.run(store, replace(experiment, blocks=4), caller)
    _, round_s = _rates(store)
    blocks = runs * max(3, int(60 * minutes / round_s)) + 1
    execution.run(store, replace(experiment, blocks=blocks), caller)
    rates, round_s = _rates(store)
    base, again, slowed = (rates[str(level)] for level in experiment.factors[-1].levels)
    return Rounds(base, again, slowed, round_s)


def _experiment(place: Path, server: str, test: str, change: float) -> Experiment:
    file = place / "experiment.toml"
    file.write_text(EXPERIMENT.format(server=server, test=test), encoding="utf-8")
    experiment = read_experiment(file)
    levels = (NONE, AGAIN, Stopped(change).level)
    return replace(
        experiment,
        factors=(*experiment.factors, Factor(FACTOR, levels, {AGAIN: NONE})),
        compare=Compare(FACTOR, NONE),
    )


def _rates(path: Path) -> tuple[dict[str, list[float]], float]:
    with Store.open(path) as store:
        stored = store.load_run(store.find_run("latest").id)
    return _by_level(stored), _round_s(stored)


def _by_level(stored: StoredRun) -> dict[str, list[float]]:
    """Return the rates by level of the rounds that all finished, but the first: it loads."""
    assert stored.run.phases.driven is not None
    time_s = trimmed_s(stored.run.phases.driven)
    level_of = {each.id: str(each.levels[FACTOR]) for each in stored.treatments}
    last = stored.last_attempts()
    rounds: dict[int, dict[str, float]] = {}
    for trial in stored.trials:
        attempt = last.get(trial.id)
        if trial.block and trial.purpose == "measure" and attempt and attempt.measured:
            rate = attempt.measured[TRANSACTIONS] / attempt.measured[time_s]
            rounds.setdefault(trial.block, {})[level_of[trial.treatment_id]] = rate
    whole = [rates for _, rates in sorted(rounds.items()) if len(rates) == len(level_of)]
    return {level: [rates[level] for rates in whole] for level in level_of.values()}


def _round_s(stored: StoredRun) -> float:
    blocks = {trial.id: trial.block for trial in stored.trials}
    last = stored.last_attempts().items()
    times = [(blocks[trial], trial_s(attempt)) for trial, attempt in last if blocks[trial]]
    return math.fsum(each for _, each in times) / len({block for block, _ in times})


def _judged(
    name: str, base: Sequence[float], other: Sequence[float], per_run: int, change: float
) -> dict[str, object]:
    """Print and return how the runs judged a side that is slower by ``change``."""
    logs = [math.log(b / a) for a, b in zip(base, other, strict=True)]
    starts = range(0, len(logs) - per_run + 1, per_run)
    estimates = [paired_ratio(base[at : at + per_run], other[at : at + per_run]) for at in starts]
    different = sum(each.excludes_1 for each in estimates)
    held = sum(_holds(each, 1 - change) for each in estimates)
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    print(
        f"  {name}: mean log ratio {100 * statistics.fmean(logs):+.3f} % +- {100 * error:.3f}, "
        f"expected {100 * math.log(1 - change):+.3f}; spread of a round "
        f"{100 * statistics.stdev(logs):.2f} %"
    )
    for what, count in (("call a difference", different), ("hold the truth", held)):
        low, high = proportion_limits(count, len(estimates))
        print(f"    {count} of {len(estimates)} runs {what} ({low:.2f} to {high:.2f})")
    return {"logs": logs, "runs": len(estimates), "different": different, "held": held}


def _holds(estimate: RatioEstimate, ratio: float) -> bool:
    return estimate.low is None or estimate.low <= ratio <= (estimate.high or math.inf)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mysql-8.0.33")
    parser.add_argument("--test", default="point-query")
    parser.add_argument("--change", type=float, default=1.0, help="percent of the throughput")
    parser.add_argument("--minutes", type=float, default=3.0, help="of a run")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two short runs: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except MillraceError as error:
        raise SystemExit(f"error: {error}") from None
