"""Order rounds: all servers of a group are up at once, and their clients take turns in slices.

The load generator drives one server at a time, for some milliseconds, so that whatever changes more
slowly than that (the speed of a CPU, another program) meets all servers alike. A block of a group
is one round, with servers that have just been started: the layout of a process's memory makes it
some tenths of a percent faster or slower until it ends, which only starting it again averages out.

In block b the rounds of a plan are sorted by the SHA-256 of ``"{seed}:{b}:{id}:round"``, with the
id of a round's base. The slots of a round are those of its connections, and the order in which its
servers start. With n servers, the SHA-256 of ``"{seed}:{b // n}:{id}:slot"`` puts the treatments in
order; in each of the next blocks each moves on by one slot, so that in n blocks it has each once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from millrace.errors import Diagnostic, ValidationError
from millrace.experiment.concurrent_pairs import FixedFactors, fixed_factors
from millrace.experiment.model import Compare, Experiment, Treatment, sort_key
from millrace.experiment.slowdown import CPU, FACTOR

MOST_SLOTS = 8

_HINT = "docs/design.md says what slices need; --interleaved measures without"
_EQUAL = ("clients", "time_s", "warmup_s", "test", "protocol")


def block_order(
    treatments: Iterable[Treatment], compare: Compare, seed: str, block: int
) -> list[tuple[Treatment, int]]:
    """Return a block's trials and their slots, round by round, slot 0 first."""
    groups: dict[FixedFactors, list[Treatment]] = {}
    for treatment in treatments:
        groups.setdefault(fixed_factors(treatment, compare.factor), []).append(treatment)
    keyed = [(_base(group, compare).id, group) for group in groups.values()]
    keyed.sort(key=lambda each: sort_key(f"{seed}:{block}:{each[0]}:round"))
    ordered: list[tuple[Treatment, int]] = []
    for _, group in keyed:
        cycle, moved = divmod(block, len(group))
        group.sort(key=lambda each: sort_key(f"{seed}:{cycle}:{each.id}:slot"))
        slots = [(each, (place + moved) % len(group)) for place, each in enumerate(group)]
        ordered += sorted(slots, key=lambda each: each[1])
    return ordered


def _base(group: Iterable[Treatment], compare: Compare) -> Treatment:
    return next(each for each in group if each.levels[compare.factor] == compare.base)


def refuse_unfit(experiment: Experiment, values: Iterable[Mapping[str, Any]]) -> None:
    """Raise ValidationError where slices of these clients would not measure what they should."""
    found = [*_design(experiment), *_work(experiment, list(values))]
    if found:
        raise ValidationError(experiment.source, found, hint=_HINT)


def _design(experiment: Experiment) -> Iterator[Diagnostic]:
    name = experiment.compare.factor
    if experiment.concurrent:
        yield Diagnostic(
            "concurrent", "in slices one server works at a time", "leave out one of the two"
        )
    if not 2 <= experiment.servers_at_once <= MOST_SLOTS:
        yield Diagnostic(
            f"factors.{name}",
            f"{experiment.servers_at_once} levels: a round has 2 to {MOST_SLOTS} servers at once",
            "fewer levels; --candidate LEVEL takes one of several",
        )
    if name in _EQUAL:
        yield Diagnostic(
            "compare.factor",
            f"{name} is a property of the clients, which are the same for all servers of a round",
            "compare server, configuration or an option",
        )
    slowdowns = next((each.levels for each in experiment.factors if each.name == FACTOR), ())
    if any(str(level).startswith(f"{CPU}=") for level in slowdowns):
        yield Diagnostic(
            f"factors.{FACTOR}",
            "a server that is stopped for milliseconds is stopped in slices of others, too",
            "a slowdown by an option, or interleaved trials",
        )


def _work(experiment: Experiment, values: list[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    workload = experiment.checked_workload
    if not workload.drives:
        yield Diagnostic(
            "workload",
            f"{workload.name} has statements of minutes, which cannot take turns",
            "a workload whose clients are driven for a time",
        )
        return
    if not workload.metrics["throughput"].primary:
        yield Diagnostic(
            "workload",
            f"{workload.name} has another primary metric than throughput",
            "a workload that is compared by its throughput",
        )
    driven = [workload.values(each) for each in values]
    writing = {str(each["test"]) for each in driven if not _only_reads(experiment, each["test"])}
    for test in sorted(writing):
        yield Diagnostic(
            "factors.test",
            f"{test} writes: what a server does in the background for it falls into the slices of "
            "the others",
            "a test that only reads",
        )
    if any(float(each["rate"]) for each in driven):
        yield Diagnostic(
            "parameters.rate",
            "arrivals would wait for the other servers' slices",
            "rate = 0, a closed loop",
        )
    if any(int(each["operations"]) for each in driven):
        yield Diagnostic(
            "parameters.operations", "slices end by time", "time_s, the seconds of each server"
        )
    if any(each["warmup"] == "steady" for each in driven):
        yield Diagnostic(
            "parameters.warmup",
            "throughput of several servers in turns is not steady",
            'warmup = "time", and warmup_s',
        )
    if any(int(each["threads"]) > 1 for each in driven):
        yield Diagnostic("parameters.threads", "slices have one thread", "threads = 0")
    if any(each["cache_mode"] == "io_bound" for each in driven):
        yield Diagnostic(
            "parameters.cache_mode",
            "what a server has read ahead is there in its next slice",
            "cache_mode = 'cached'",
        )


def _only_reads(experiment: Experiment, test: object) -> bool:
    """Return whether each statement of a test is a SELECT that locks nothing."""
    definition = experiment.workload
    steps = definition["tests"][str(test)]["steps"]
    names = [name for step in steps for name in step["statements"]]
    texts = [str(definition["statements"][name]["sql"]).upper() for name in names]
    return all(text.lstrip().startswith("SELECT") and " FOR UPDATE" not in text for text in texts)
