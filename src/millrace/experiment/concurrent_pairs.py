"""Order concurrent pairs: base and candidate run at the same time, each on its half of the CPUs.

A disturbance of the host then hits both at the same instant, and a block takes half the time; but
the two share disk, memory bandwidth and caches, so that each may disturb the other. They must share
these equally: both are measured for the same time, from the same moment on. The measured time must
therefore be known beforehand. If both worked until they were done, the slower one would have the
host to itself at the end, and look less slow than it is.

Where block b is even, the SHA-256 of ``"{seed}:{b // 2}:{id}:side"`` chooses the half of the base,
with its id, and in the next block the base has the other half: each is equally often on either
half, give or take one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from millrace.errors import Diagnostic, ValidationError
from millrace.experiment.model import Compare, Experiment, Treatment, sort_key

_HINT = "docs/design.md says what side by side needs; --interleaved measures without"
_TIMES = ("warmup_s", "time_s")


def sides(
    pair: Iterable[Treatment], compare: Compare, seed: str, block: int
) -> list[tuple[Treatment, int]]:
    """Return a pair's treatments in a block with their halves of the CPUs, half 0 first."""
    treatments = list(pair)
    base = next(each for each in treatments if each.levels[compare.factor] == compare.base)
    first = (sort_key(f"{seed}:{block // 2}:{base.id}:side")[0] + block) % 2
    placed = [(each, first if each is base else 1 - first) for each in treatments]
    return sorted(placed, key=lambda each: each[1])


def refuse_unfit(experiment: Experiment, values: Iterable[Mapping[str, Any]]) -> None:
    """Raise ValidationError where pairs with these settings of clients cannot be concurrent."""
    found = [*_compared(experiment), *_work(experiment, values)]
    if found:
        raise ValidationError(experiment.source, found, hint=_HINT)


def _compared(experiment: Experiment) -> Iterator[Diagnostic]:
    name = experiment.compare.factor
    levels = next(factor.levels for factor in experiment.factors if factor.name == name)
    if len(levels) != 2:
        number = f"{len(levels)} levels" if len(levels) > 1 else "one level"
        yield Diagnostic(
            f"factors.{name}",
            f"{number}: side by side, the base is measured beside one candidate",
            "two levels; --candidate LEVEL takes one of several",
        )


def _work(experiment: Experiment, values: Iterable[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    workload = experiment.checked_workload
    if not workload.drives:
        yield Diagnostic(
            "workload",
            f"{workload.name} measures until the work is done: the slower one of a pair would have "
            "the host to itself in the end",
            "a workload whose clients are driven for a time",
        )
        return
    driven = [workload.values(each) for each in values]
    if any(int(each["operations"]) for each in driven):
        yield Diagnostic(
            "parameters.operations",
            "the one of a pair that has done its work first would leave the host to the other",
            "time_s instead: both are measured for the same time",
        )
    if any(each["warmup"] == "steady" for each in driven):
        yield Diagnostic(
            "parameters.warmup",
            "two that warm up until they are steady are not measured at the same time",
            'warmup = "time", and warmup_s',
        )
    for name in _TIMES:
        if len({float(each[name]) for each in driven}) > 1:
            yield Diagnostic(
                f"parameters.{name}",
                "it is not the same for all tests: a pair is measured for the same time",
                f"a {name} for all of them",
            )
    if any(each["client_cpus"] for each in driven):
        yield Diagnostic(
            "parameters.client_cpus",
            "each side has half of the CPUs, and its clients are on these",
            "leave it out",
        )
