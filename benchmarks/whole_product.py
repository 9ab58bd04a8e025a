"""Check the error rates of the whole product's verdicts on this host, with a real server.

One server is compared with itself, in trials of about 6 s on three short workloads, through
experiment, plan, runner, store and the sequential rule: 60 verdicts, one after another, each with a
look after every block, 16 blocks at most. The margin is next to nothing: the interval alone makes
the verdict, and no comparison ends early as equivalent. The output compares the number of false
verdicts with the number that chance allows at a rate of 5 %, and counts estimates above and below
1.

Then the server is slowed down by one and by two times the smallest change that the calibration
announces for 16 blocks: 20 verdicts each. It is stopped and continued in turns of a tenth of a
second. Each turn corrects by the clock for the turns before it, so that the share of stopped time
matches the requested one to a hundredth. Each trial measures and reports its actual share.

The benchmark runs for hours. After an interruption the same command resumes from its store;
`--report` prints the results so far. Several stores, for example of several hosts or servers, can
share the verdicts, with `--verdicts` and `--injected` for each; a report of all of these stores
adds them up.

    benchmarks/whole_product --store FILE [--verdicts N] [--injected N] [--quick] [--server NAME]
    benchmarks/whole_product --store FILE [--store FILE ...] --report [--json FILE]
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scipy.stats import binom

from benchmarks.servers import installed
from millrace import __version__
from millrace.analysis.compare.calibration import Calibration, calibration
from millrace.app.calibrate import calibrate_by
from millrace.app.execution import Caller
from millrace.app.experiments import read_experiment
from millrace.campaign.policies.calibrate import (
    CalibrationBlock,
    CalibrationReviewed,
    FixedFactors,
    calibration_experiment,
    groups_of,
    next_block,
    stop_of_size,
)
from millrace.errors import MillraceError
from millrace.experiment.model import Experiment
from millrace.loadgen import datasets
from millrace.model.events import Emitted
from millrace.report.calibration import as_json
from millrace.stats.proportions import proportion_limits, sign_test
from millrace.store.store import Store

SERVER = "mysql-8.0.33"
TESTS = ("point-query", "update-nonindex", "range-notcovered-pk")
CLAIMED = 0.05  # intervals that exclude no difference where there is none
CHANCE = 0.05  # probability of more than the allowed number although the claim holds
SIZES = (1, 2)  # smallest changes

EXPERIMENT = """
name = "whole-product"
title = "verdicts of the whole product"
workload = "sysbench"
blocks = {blocks}
margin_percent = 0.1
collectors = []

[factors]
server = ["{server}"]
configuration = ["in-memory"]
test = [{tests}]
clients = [1]

[compare]
factor = "server"
base = "{server}"

[parameters]
table_size = 20_000
time_s = {time_s}
warmup_s = {warmup_s}
settle_s = 1

[configurations.in-memory]
title = "everything in memory, no binary log"
extends = "default"
[configurations.in-memory.options]
innodb_buffer_pool_size = "64M"
innodb_flush_log_at_trx_commit = 2
character_set_server = "latin1"
skip_log_bin = true
"""


@dataclass(frozen=True)
class Size:
    """The amount to measure.

    That is ``verdicts`` without a difference, and ``injected`` of each slowdown, in at most
    ``blocks`` blocks.

    ``goals`` are the required numbers of detected slowdowns, by size.
    """

    verdicts: int
    injected: int
    blocks: int
    time_s: float
    warmup_s: float
    goals: dict[int, int]


FULL = Size(60, 20, 16, 2.0, 0.5, {1: 13, 2: 18})
QUICK = Size(3, 3, 5, 0.5, 0.1, {})


@dataclass(frozen=True)
class Slowed:
    """The outcome of one size in one group.

    ``announced`` and ``stopped`` are the requested and the measured share of the time for which the
    server was stopped.
    """

    group: str
    size: int
    announced: float
    wanted: float
    stopped: float | None
    verdicts: int
    found: int
    ratio: float | None
    low: float | None
    high: float | None


def main() -> None:
    arguments = _arguments()
    size = QUICK if arguments.quick else FULL
    try:
        with ExitStack() as stack:
            found = (
                [each for path in arguments.store for each in _kept(path)]
                if arguments.report
                else [_found(stack, arguments, size)]
            )
    except MillraceError as error:
        print(error.message, error.hint or "", sep="; ", file=sys.stderr)
        sys.exit(error.exit_status)
    if not found:
        print("nothing was measured yet")
        return
    for each in found:
        _print(each)
    _print_sums(found, size)
    if arguments.json is not None:
        document = {
            "benchmark": "whole_product",
            "versions": {"millrace": __version__, **datasets.versions()},
            "processors": len(os.sched_getaffinity(0)),
            "size": asdict(size),
            "allowed_false": allowed(sum(len(each.verdicts) for each in found)),
            "calibrations": [
                {
                    "slowed": [asdict(slowdown) for slowdown in slowed(each)],
                    "calibration": as_json(each),
                }
                for each in found
            ],
        }
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--store",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="where to keep what is measured; several of a report",
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing, print what there is"
    )
    parser.add_argument("--server", default=SERVER, metavar="NAME", help="[%(default)s]")
    parser.add_argument("--verdicts", type=int, metavar="N", help=f"A/A verdicts [{FULL.verdicts}]")
    parser.add_argument("--injected", type=int, metavar="N", help=f"of a size [{FULL.injected}]")
    parser.add_argument("--quick", action="store_true", help="a few short ones: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    if not arguments.store and (arguments.report or not arguments.quick):
        parser.error("--store FILE is wanted: this takes hours, and goes on where it was ended")
    if len(arguments.store) > 1 and not arguments.report:
        parser.error("several --store are for a --report")
    return arguments


def _found(stack: ExitStack, arguments: argparse.Namespace, size: Size) -> Calibration:
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-")))
    path = arguments.store[0] if arguments.store else place / "results.sqlite"
    wanted = replace(
        size,
        verdicts=size.verdicts if arguments.verdicts is None else arguments.verdicts,
        injected=size.injected if arguments.injected is None else arguments.injected,
    )
    installed(arguments.server)
    file = place / "whole-product.toml"
    text = EXPERIMENT.format(
        server=arguments.server,
        tests=", ".join(f'"{test}"' for test in TESTS),
        blocks=size.blocks,
        time_s=size.time_s,
        warmup_s=size.warmup_s,
    )
    file.write_text(text, encoding="utf-8")
    return _measured(path, calibration_experiment(read_experiment(file)), wanted)


def _kept(path: Path) -> Iterator[Calibration]:
    """Return the calibrations in a store."""
    with Store.open(path, create=False, read_only=True) as store:
        for run in store.list_runs():
            stored = store.load_run(run.id)
            if stored.run.spec.calibrates is not None:
                yield calibration(stored)


def _measured(path: Path, experiment: Experiment, size: Size) -> Calibration:
    """Measure block after block until all verdicts exist."""

    def choose_block(found: Calibration | None) -> CalibrationBlock | None:
        return _wanted(found, groups, size)

    def show(event: Emitted) -> None:
        if isinstance(event, CalibrationReviewed):
            print(_line(event.found, event.level), flush=True)

    groups = groups_of(experiment)
    caller = Caller("benchmarks/whole_product", show)
    return calibrate_by(path, experiment, caller, choose_block, verdicts=size.verdicts)


def _wanted(
    found: Calibration | None, groups: tuple[FixedFactors, ...], size: Size
) -> CalibrationBlock | None:
    """Return the next block: A/A first, then each size in each group."""
    following = next_block(found, groups, verdicts=size.verdicts, injected_kind=None)
    if following is not None or found is None:
        return following
    for factor in SIZES:
        for number, group in enumerate(found.groups):
            level = stop_of_size(group, found, factor).level
            done = sum(len(each.verdicts) for each in group.injected if each.level == level)
            if done < share(size.injected, len(found.groups), number):
                return CalibrationBlock(level, (group.fixed_factors,))
    return None


def share(total: int, n_parts: int, number: int) -> int:
    """Return the size of part ``number`` (from 0) in an even split: 20 are 7, 7 and 6."""
    return total // n_parts + (number < total % n_parts)


def allowed(verdicts: int) -> int:
    """Return the largest number of false verdicts that the claimed rate allows by chance."""
    return int(binom.isf(CHANCE, verdicts, CLAIMED)) if verdicts else 0


def slowed(found: Calibration) -> Iterator[Slowed]:
    """Return the outcomes of the injected slowdowns so far, size by size."""
    for factor in SIZES:
        for group in found.groups:
            if not group.detectable:
                continue
            stop = stop_of_size(group, found, factor)
            for each in group.injected:
                if each.level == stop.level:
                    estimate = each.estimate
                    yield Slowed(
                        group.label,
                        factor,
                        factor * group.detectable[found.target.blocks],
                        stop.share,
                        each.stopped,
                        len(each.verdicts),
                        each.found(found.metric.direction),
                        None if estimate is None else estimate.ratio,
                        None if estimate is None else estimate.low,
                        None if estimate is None else estimate.high,
                    )


def _line(found: Calibration, level: str) -> str:
    injected = list(slowed(found))
    of_injected = "".join(
        f", {size}x found {sum(each.found for each in injected if each.size == size)} of "
        f"{sum(each.verdicts for each in injected if each.size == size)}"
        for size in SIZES
        if any(each.size == size for each in injected)
    )
    return f"{level}: {found.false} false of {len(found.verdicts)}{of_injected}"


def _print(found: Calibration) -> None:
    verdicts, most = len(found.verdicts), found.target.blocks
    print(
        f"run {found.run.id}, {found.target.base}: {n_of(verdicts, 'A/A verdict')}, "
        f"{most} blocks at most"
    )
    for group in found.groups:
        noise = group.noise
        seen = group.detectable.get(found.target.blocks)
        print(
            f"  {group.label:24} {group.false} false of {len(group.verdicts)}; noise of a block "
            + (
                "?"
                if noise is None
                else f"{noise.log_sd:.2%} ({noise.low:.2%} to {noise.high:.2%})"
            )
            + ("" if seen is None else f", smallest change {seen:.2%}")
            + ("" if group.block_s is None else f", {group.block_s:.1f} s a block")
        )
    for each in slowed(found):
        effect = "" if each.ratio is None else f"; effect {1 - each.ratio:+.2%}"
        if each.ratio is not None and each.low is not None and each.high is not None:
            effect += f" ({1 - each.high:+.2%} to {1 - each.low:+.2%})"
        stopped = "" if each.stopped is None else f", stopped {each.stopped:.2%} of the time"
        print(
            f"  {each.group:24} {each.size}x: announced {each.announced:.2%}, to be stopped "
            f"{each.wanted:.2%}{stopped}{effect}; found {each.found} of {each.verdicts}"
        )


def _print_sums(found: Sequence[Calibration], size: Size) -> None:
    """Print the totals over all stores."""
    verdicts = sum(len(each.verdicts) for each in found)
    false, excluding = sum(each.false for each in found), sum(each.excluding for each in found)
    for name, events in (("false verdicts", false), ("intervals without 1", excluding)):
        if verdicts:
            low, high = proportion_limits(events, verdicts)
            print(
                f"{name}: {events} of {verdicts} ({low:.3f} to {high:.3f}, 95 %); "
                f"chance allows {allowed(verdicts)} at a rate of {CLAIMED:g}"
            )
    above, below = sum(each.signs[0] for each in found), sum(each.signs[1] for each in found)
    p = sign_test(above, above + below)
    print(f"signs: {above} above 1, {below} below (p = {p:.3f}, sign test)")
    injected = [slowdown for each in found for slowdown in slowed(each)]
    for factor in SIZES:
        of_size = [each for each in injected if each.size == factor]
        done, seen = sum(each.verdicts for each in of_size), sum(each.found for each in of_size)
        goal = f" (wanted: {size.goals[factor]} of {size.injected})" if size.goals else ""
        if done:
            low, high = proportion_limits(seen, done)
            print(
                f"slowdowns of {factor}x the smallest change: found {seen} of {done} "
                f"({low:.2f} to {high:.2f}, 95 %){goal}"
            )


def n_of(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


if __name__ == "__main__":
    main()
