"""Measure how well and how fast millrace finds changes in performance histories.

Series of 200 points come from recorded noise of real benchmarks, with no steps or three, quiet and
with drift (``history_series``). A change point within ±5 points of a step is right, one to one.
Unchanged series with any change point are false alarms. The zero detector, which never finds
anything, is compared too, and so are Apache Otava and MongoDB's E-divisive with their defaults, and
the kernel detection of ruptures with a robust scale, where they can be installed. Intervals are
those of Clopper and Pearson (Biometrika 26, 1934).
Series of one benchmark are alike: read results of several draws of each with care.

    benchmarks/history [--quick] [--alone] [--draws N] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.history_series import (
    LENGTH,
    MARGIN,
    SIZES,
    History,
    Pool,
    Step,
    injected,
    matched,
    unchanged,
    with_steps,
)
from benchmarks.history_tools import TOOLS, Missing, detect, installed
from benchmarks.trial_noise import recorded
from millrace.stats.change_points import change_points
from millrace.stats.proportions import proportion_limits

Found = list[list[int]]
Detector = Callable[[Sequence[History]], tuple[Found, float]]
Sensitivity = Literal["review", "alert"]

SEED = 20
GOALS = {
    ("false alarms", False): "at most 0.02",
    ("false alarms", True): "at most 0.10",
    ("F1", False): "at least 0.80, aim 0.88",
    ("F1", True): "at least 0.58, aim 0.70",
}
FIRST_LOOK, LOOK_EVERY = 40, 2
STEP_AT, LAST_LOOK = 100, 140
LENGTHS = (200, 1_000, 2_000, 5_000, 10_000)


@dataclass(frozen=True)
class Quality:
    """The quality of a detector on ``n`` unchanged series and ``n`` series with three steps."""

    detector: str
    drift: bool
    n: int
    false_alarms: int
    right: int
    wrong: int
    steps: dict[str, tuple[int, int]]
    """By size of the step, how many are found, and how many there are."""
    ms_per_series: float

    @property
    def f1(self) -> float:
        missed = sum(total - found for found, total in self.steps.values())
        return 2 * self.right / (2 * self.right + self.wrong + missed)


def main() -> None:
    arguments = _arguments()
    drawn = recorded()[:: 10 if arguments.quick else 1] * arguments.draws
    qualities = _qualities(drawn, _detectors(alone=arguments.alone))
    online = [
        _online(drawn, sensitivity, drift=drift)
        for sensitivity in ("review", "alert")
        for drift in (False, True)
    ]
    times = _times(drawn[:10])
    if arguments.json:
        result = {
            "benchmark": "history",
            "seed": SEED,
            "quality": [{**asdict(each), "f1": each.f1} for each in qualities],
            "online": online,
            "times": times,
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the benchmarks")
    parser.add_argument("--alone", action="store_true", help="without the other tools")
    parser.add_argument("--draws", type=int, default=2, help="series a benchmark [%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def _detectors(*, alone: bool) -> dict[str, Detector]:
    detectors: dict[str, Detector] = {
        "millrace": lambda series: _ours(series, "review"),
        "millrace, alert": lambda series: _ours(series, "alert"),
        "zero": lambda series: ([[] for _ in series], 0.0),
    }
    for tool in () if alone else TOOLS:
        try:
            python = installed(tool)
        except Missing as missing:
            print(f"without {tool.name}: {missing}", file=sys.stderr)
            continue
        detectors[tool.name] = lambda series, tool=tool, python=python: detect(  # type: ignore[misc]
            tool, python, [history.values.tolist() for history in series]
        )
    return detectors


def _ours(series: Sequence[History], sensitivity: Sensitivity) -> tuple[Found, float]:
    begun = time.process_time()
    found = [
        [point.index for point in change_points(history.values, sensitivity=sensitivity)]
        for history in series
    ]
    return found, time.process_time() - begun


def _qualities(drawn: Sequence[Pool], detectors: dict[str, Detector]) -> list[Quality]:
    source = np.random.default_rng(SEED)
    qualities = []
    for drift in (False, True):
        same = [unchanged(source, pool, drift=drift) for pool in drawn]
        changed = [injected(source, pool, drift=drift) for pool in drawn]
        print(
            f"\n{'with drift' if drift else 'quiet'}: {len(same)} unchanged series, and as many "
            f"with three steps; {LENGTH} points, margin ±{MARGIN}"
        )
        print(
            f"{'':20} {'false alarms':>26} {'F1':>6} {'precision':>10} {'recall':>7}"
            + "".join(f"{f'{size:.0%}':>6}" for size in SIZES)
            + f"{'ms/series':>11}"
        )
        for name, detector in detectors.items():
            quality = _quality(name, detector, same, changed, drift=drift)
            qualities.append(quality)
            _print(quality)
        goals = (f"{what} {GOALS[what, drift]}" for what in ("false alarms", "F1"))
        print(f"goals: {'; '.join(goals)}")
    return qualities


def _quality(
    name: str,
    detector: Detector,
    same: Sequence[History],
    changed: Sequence[History],
    *,
    drift: bool,
) -> Quality:
    alarms, _ = detector(same)
    found, cpu_s = detector(changed)
    steps = {size: [0, 0] for size in SIZES}
    right = wrong = 0
    for history, indexes in zip(changed, found, strict=True):
        hits = matched(indexes, history.steps)
        right += len(hits)
        wrong += len(indexes) - len(hits)
        for step in history.steps:
            steps[step.size][0] += step in hits
            steps[step.size][1] += 1
    return Quality(
        detector=name,
        drift=drift,
        n=len(same),
        false_alarms=sum(bool(indexes) for indexes in alarms),
        right=right,
        wrong=wrong,
        steps={f"{size:.0%}": (hit, total) for size, (hit, total) in steps.items()},
        ms_per_series=1e3 * cpu_s / len(changed),
    )


def _print(quality: Quality) -> None:
    total = sum(total for _, total in quality.steps.values())
    precision = quality.right / max(quality.right + quality.wrong, 1)
    print(
        f"{quality.detector:20} {_rate(quality.false_alarms, quality.n):>26} {quality.f1:6.3f} "
        f"{precision:10.3f} {quality.right / total:7.3f}"
        + "".join(f"{found / steps:6.2f}" for found, steps in quality.steps.values())
        + f"{quality.ms_per_series:11.2f}",
        flush=True,
    )


def _rate(hits: int, n: int) -> str:
    low, high = proportion_limits(hits, n)
    return f"{hits / n:.3f} ({low:.3f} to {high:.3f})"


def _online(drawn: Sequence[Pool], sensitivity: Sensitivity, *, drift: bool) -> dict[str, Any]:
    """Analyse after every second point, from 40 to 200, and return the time to find a step.

    The step of 10 % comes after 100 points."""
    source = np.random.default_rng(SEED)
    ever = withdrawn = 0
    delays: list[int] = []
    for pool in drawn:
        history = unchanged(source, pool, drift=drift)
        alarms = _looks(history, range(FIRST_LOOK, LENGTH + 1, LOOK_EVERY), sensitivity)
        ever += any(alarms)
        withdrawn += sum(_withdrawn(before, after) for before, after in pairwise(alarms))
        step = Step(STEP_AT, 1.1)
        looks = range(STEP_AT + LOOK_EVERY, LAST_LOOK + 1, LOOK_EVERY)
        for look in looks:
            values = with_steps(history, [step]).values[:look]
            if matched(_indexes(values, sensitivity), [step]):
                delays.append(look - STEP_AT)
                break
    n = len(drawn)
    missed = n - len(delays)
    late = statistics.median(delays) if delays else LAST_LOOK - STEP_AT
    print(
        f"\n{sensitivity}, looking after every second point, {'drift' if drift else 'quiet'}: "
        f"{_rate(ever, n)} of {n} unchanged series ever have an alarm, {withdrawn / n:.3f} alarms "
        f"a series are withdrawn; a step of 10 % is found after {late:g} points (median of those "
        f"found), missed for 40 points in {_rate(missed, n)}",
        flush=True,
    )
    return {
        "sensitivity": sensitivity,
        "drift": drift,
        "n": n,
        "ever": ever,
        "withdrawn": withdrawn,
        "median_delay": late,
        "missed": missed,
    }


def _looks(history: History, looks: range, sensitivity: Sensitivity) -> list[list[int]]:
    return [_indexes(history.values[:look], sensitivity) for look in looks]


def _indexes(values: Any, sensitivity: Sensitivity) -> list[int]:
    return [point.index for point in change_points(values, sensitivity=sensitivity)]


def _withdrawn(before: Sequence[int], after: Sequence[int]) -> int:
    """Count the alarms of one look that the next look does not have within the margin."""
    return sum(all(abs(index - other) > MARGIN for other in after) for index in before)


def _times(drawn: Sequence[Pool]) -> list[dict[str, Any]]:
    """Measure the CPU time of a series by its length, with a step of 10 % every 100 points."""
    source = np.random.default_rng(SEED)
    times = []
    print()
    for length in LENGTHS:
        for drift in (False, True):
            series = []
            for pool in drawn:
                steps = [Step(at, 1.1 if at % 200 else 1 / 1.1) for at in range(100, length, 100)]
                history = unchanged(source, pool, drift=drift, length=length)
                series.append(with_steps(history, steps))
            _, cpu_s = _ours(series, "review")
            ms = 1e3 * cpu_s / len(series)
            times.append({"length": length, "drift": drift, "ms": ms})
            print(
                f"{length:6} points, {'drift' if drift else 'quiet'}: {ms:8.2f} ms a series, "
                f"{1e3 * ms / length:5.1f} µs a point (N {len(series)})",
                flush=True,
            )
    return times


if __name__ == "__main__":
    main()
