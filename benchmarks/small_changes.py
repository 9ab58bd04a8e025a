"""Measure whether slices find a small change, and call none where there is none.

Each round has a server, and the same server slowed down by each of the changes: it rests after its
slices for a share of their time. A change of 0 is the same server again. The rounds are cut into
runs of as many as fit into the minutes of a change, each with Student's interval: a run finds the
change where the interval excludes no difference, and is false where it does so for the server
against itself, or excludes the injected change. All changes are judged by the same rounds, so that
a run takes longer than one of a single change would. Rates have binomial intervals (Clopper and
Pearson, Biometrika 26, 1934).

    benchmarks/small_changes [--changes 0:3,1:3] [--runs 20] [--server NAME] [--test NAME]

A change is percent:minutes of a run; as many rounds are measured as the longest of them needs for
--runs runs. "--changes 1:3,0.5:10 --runs 10" takes 100 minutes, and has 33 runs of 3 minutes.
"""

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
class Change:
    """A slowdown by ``percent``, which runs of ``minutes`` must find."""

    percent: float
    minutes: float

    @property
    def share(self) -> float:
        return self.percent / 100

    @property
    def level(self) -> str:
        return Stopped(self.share).level if self.percent else AGAIN

    @property
    def name(self) -> str:
        return f"slowed down by {self.percent:g} %" if self.percent else "against itself"


@dataclass(frozen=True)
class Rounds:
    """The rates of each side by round, and the mean seconds of a round."""

    base: list[float]
    changed: dict[Change, list[float]]
    round_s: float


def main() -> None:
    arguments = _arguments()
    changes, runs = arguments.changes, arguments.runs
    if arguments.quick:
        changes, runs = [replace(each, minutes=0.8) for each in changes], 2
    with tempfile.TemporaryDirectory(prefix="millrace-small-changes-") as place:
        experiment = _experiment(Path(place), arguments.server, arguments.test, changes)
        rounds = measure(Path(place) / "results.sqlite", experiment, changes, runs)
    print(
        f"{arguments.server}, {arguments.test}: {len(rounds.base)} rounds of {rounds.round_s:.1f} "
        f"s for {1 + len(changes)} servers"
    )
    found = [_judged(each, rounds, len(rounds.base) // runs) for each in changes]
    json_file.write(arguments.json, "small_changes", round_s=rounds.round_s, found=found)


def measure(store: Path, experiment: Experiment, changes: Sequence[Change], runs: int) -> Rounds:
    """Measure rounds of all servers for as many runs of the longest change."""
    caller = execution.Caller("benchmarks/small_changes")
    execution.run(store, replace(experiment, blocks=4), caller)
    _, round_s = _rates(store)
    blocks = runs * max(_per_run(each, round_s) for each in changes) + 1
    execution.run(store, replace(experiment, blocks=blocks), caller)
    rates, round_s = _rates(store)
    return Rounds(rates[NONE], {each: rates[each.level] for each in changes}, round_s)


def _per_run(change: Change, round_s: float) -> int:
    """Return the number of rounds in a run that looks for the change."""
    return max(3, int(60 * change.minutes / round_s))


def _experiment(place: Path, server: str, test: str, changes: Sequence[Change]) -> Experiment:
    file = place / "experiment.toml"
    file.write_text(EXPERIMENT.format(server=server, test=test), encoding="utf-8")
    experiment = read_experiment(file)
    levels = (NONE, *(each.level for each in changes))
    aliases = {AGAIN: NONE} if AGAIN in levels else {}
    return replace(
        experiment,
        factors=(*experiment.factors, Factor(FACTOR, levels, aliases)),
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


def _judged(change: Change, rounds: Rounds, most_per_run: int) -> dict[str, object]:
    """Print and return how the runs judged a change."""
    base, other, ratio = rounds.base, rounds.changed[change], 1 - change.share
    per_run = min(_per_run(change, rounds.round_s), most_per_run)
    logs = [math.log(b / a) for a, b in zip(base, other, strict=True)]
    starts = range(0, len(logs) - per_run + 1, per_run)
    estimates = [paired_ratio(base[at : at + per_run], other[at : at + per_run]) for at in starts]
    different = sum(each.excludes_1 for each in estimates)
    held = sum(_holds(each, ratio) for each in estimates)
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    print(
        f"  {change.name}: mean log ratio {100 * statistics.fmean(logs):+.3f} % +- "
        f"{100 * error:.3f}, expected {100 * math.log(ratio):+.3f}; spread of a round "
        f"{100 * statistics.stdev(logs):.2f} %; {per_run} rounds a run of {change.minutes:g} min"
    )
    for what, count in (("call a difference", different), ("hold the truth", held)):
        low, high = proportion_limits(count, len(estimates))
        print(f"    {count} of {len(estimates)} runs {what} ({low:.2f} to {high:.2f})")
    return {
        "percent": change.percent, "minutes": change.minutes, "logs": logs,
        "runs": len(estimates), "different": different, "held": held,
    }  # fmt: skip


def _holds(estimate: RatioEstimate, ratio: float) -> bool:
    return estimate.low is None or estimate.low <= ratio <= (estimate.high or math.inf)


def _changes(text: str) -> list[Change]:
    """Return the changes of an argument. Raise ArgumentTypeError."""
    try:
        pairs = (each.split(":") for each in text.split(","))
        changes = [Change(float(percent), float(minutes)) for percent, minutes in pairs]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected such as 1:3,0.5:10") from None
    for each in changes:
        if not (0 <= each.percent < 100 and 0 < each.minutes < math.inf):
            raise argparse.ArgumentTypeError(
                f"{text}: expected percents from 0 to less than 100, and minutes above 0"
            )
    return changes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mysql-8.0.33")
    parser.add_argument("--test", default="point-query")
    parser.add_argument(
        "--changes", type=_changes, default="0:3,1:3", metavar="PERCENT:MINUTES,..."
    )
    parser.add_argument("--runs", type=int, default=20, help="of the change with the longest runs")
    parser.add_argument("--quick", action="store_true", help="two short runs: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except MillraceError as error:
        raise SystemExit(f"error: {error}") from None
