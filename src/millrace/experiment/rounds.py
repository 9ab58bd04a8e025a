"""Order rounds, and check whether slices are valid for an experiment.

In a round, all servers of a group run at the same time and take turns in slices: the load generator
drives or loads one server at a time, for a few milliseconds. Slower changes, such as CPU speed or
another program, therefore affect all servers equally. The servers are started anew for each round:
the memory layout of a process makes it some tenths of a percent faster or slower until it exits,
and only new starts average this out.

A slot is a server's place in the order in which servers start and connect. With n servers, the
SHA-256 of ``"{seed}:{b // n}:{id}:slot"`` gives the order of treatments in block b. In each of the
next blocks, each treatment moves by one slot, so that it has each slot once in n blocks.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from millrace import databases
from millrace.errors import Diagnostic, ValidationError
from millrace.experiment.levels import CONFIGURATION, OPTION, SERVER
from millrace.experiment.model import Experiment, Treatment, sort_key
from millrace.experiment.slowdown import CPU, FACTOR, Stopped, slowdown_named
from millrace.levels import Values
from millrace.quantities import parse_size, readable_size
from millrace.workloads.defaults import COMPRESSION, UNCOMPRESSED
from millrace.workloads.definition import Workload
from millrace.workloads.settings import ClientSettings
from millrace.workloads.statement_effects import statement_kinds

MOST_SLOTS = 8
MOST_S = 2_000.0  # of all servers together: the load generator stores each slice
MOST_STOPPED = 0.5  # of a server's time: it is not stopped for longer than its slice ran

_HINT = (
    'docs/design.md lists the requirements of slices; without --slices (or design = "slices"), '
    "comparisons use slices only if they are valid"
)
# By factor: the level with which loads can be sliced, and what is wrong with other levels.
_FAIR = {
    "load_mode": ("local", "a server that reads a file itself cannot wait for its turn"),
    "transport": (
        "socket", "only a Unix socket shows which rows a server had read at the end of a slice"
    ),
}  # fmt: skip
_OF_SERVERS = (SERVER, CONFIGURATION, "engine", "transport", "tls", FACTOR)


def slots(group: Iterable[Treatment], seed: str, block: int) -> list[tuple[Treatment, int]]:
    """Return a group's treatments with their slots in a block's round, slot 0 first."""
    treatments = list(group)
    cycle, moved = divmod(block, len(treatments))
    treatments.sort(key=lambda each: sort_key(f"{seed}:{cycle}:{each.id}:slot"))
    placed = [(each, (place + moved) % len(treatments)) for place, each in enumerate(treatments)]
    return sorted(placed, key=lambda each: each[1])


def is_valid(experiment: Experiment, values: Iterable[Values]) -> bool:
    """Return whether slices are valid for clients or loads with these values.

    Clients need ``cache_mode = "cached"``; otherwise they may wait for the disk.
    """
    every = list(values)
    workload = experiment.checked_workload
    if [*_design(experiment), *_work(experiment, every)]:
        return False
    settings = [workload.client_settings(each) for each in every if workload.drives]
    return all(each.cache_mode == "cached" for each in settings)


def refuse_unfit(experiment: Experiment, values: Iterable[Values]) -> None:
    """Raise ValidationError if slices are not valid for clients or loads with these values."""
    found = dict.fromkeys((*_design(experiment), *_work(experiment, list(values))))
    if found:
        raise ValidationError(experiment.source, list(found), hint=_HINT)


def _design(experiment: Experiment) -> Iterator[Diagnostic]:
    name, at_once = experiment.compare.factor, experiment.treatments_at_once
    if not 2 <= at_once <= MOST_SLOTS:
        yield Diagnostic(
            f"factors.{name}",
            f"has {at_once} levels, but slices need 2 to {MOST_SLOTS} servers at once",
            "another number of levels; --candidate LEVEL compares only one with the base",
        )
    differs = (each.name for each in experiment.factors if len(each.levels) > 1)
    for each in experiment.compared_factors.intersection((name, *differs)):
        if each not in _OF_SERVERS and not each.startswith(OPTION):
            yield Diagnostic(
                "compare.factor",
                f"{each} is a factor of the clients, which all servers of a round share",
                "compare server, configuration or an option",
            )


def _work(experiment: Experiment, values: list[Values]) -> Iterator[Diagnostic]:
    workload = experiment.checked_workload
    if len(workload.roles) > 1:
        yield Diagnostic(
            "workload",
            f"a trial of {workload.name} has several servers that work at the same time: "
            f"{' and '.join(workload.roles)}",
            "interleaved trials",
        )
    if not workload.drives:
        yield from _loads(experiment, [workload.values(each) for each in values])
        return
    driven = [workload.client_settings(each) for each in values]
    yield from _pacing(workload, driven)
    for each in values:
        yield from _statements(experiment, workload.values(each))
    unfit = (
        (any(workload.background_client_count(workload.values(each)) for each in values),
         "factors.test", "background clients would run during the slices of all servers",
         "tests without background_clients, or interleaved trials"),
        (any(each.operations for each in driven),
         "parameters.operations", "slices end by time", "time_s, the seconds of each server"),
        (any(each.loops > 1 for each in driven),
         "parameters.loops", "slices are not supported for trials in loops", "loops = 1"),
        (any(each.warmup == "steady" for each in driven),
         "parameters.warmup", "a steady throughput cannot be detected in slices",
         'warmup = "time", and warmup_s'),
        (any(each.time_s * experiment.treatments_at_once > MOST_S for each in driven),
         "parameters.time_s",
         f"a round may last {MOST_S:,.0f} s at most, for all servers together",
         "a shorter time_s and more blocks"),
        (any(share > MOST_STOPPED for share in _stopped_shares(experiment)),
         f"factors.{FACTOR}",
         f"in slices, a server can be stopped for at most {MOST_STOPPED * 100:g} % of its time",
         f"{Stopped(MOST_STOPPED).level} or less, or interleaved trials"),
        (any(each.threads > 1 for each in driven),
         "parameters.threads", "in slices, the load generator has one thread", "threads = 0"),
        (any(each.cache_mode == "io_bound" for each in driven),
         "parameters.cache_mode", "a server could read ahead during the slices of the others",
         "cache_mode = 'cached'"),
    )  # fmt: skip
    for is_so, where, why, instead in unfit:
        if is_so:
            yield Diagnostic(where, why, instead)


def _pacing(workload: Workload, driven: Iterable[ClientSettings]) -> Iterator[Diagnostic]:
    if not any(each.rate for each in driven):
        yield from _other_metric(workload)
        return
    # The metric is not reported: in an open loop, a latency is the primary metric.
    wait = "arriving transactions would wait during the slices of the other servers"
    yield Diagnostic("parameters.rate", wait, "rate = 0, a closed loop")


def _loads(experiment: Experiment, every: list[Values]) -> Iterator[Diagnostic]:
    workload, data = experiment.checked_workload, experiment.checked_workload.data
    if data is None or [phase.kind for phase in workload.phases].count("load_data") != 1:
        yield Diagnostic(
            "workload",
            f"{workload.name} does not load with a single LOAD DATA, so its load cannot be sliced",
            "a workload with one LOAD DATA, or with clients that run for a time",
        )
        return
    yield from _other_metric(workload)
    if _stopped_shares(experiment):
        yield Diagnostic(
            f"factors.{FACTOR}",
            "the load generator cannot slow down a load",
            "a slowdown by an option, or interleaved trials",
        )
    default_bytes = min(each.default_pool_bytes for each in databases.storages()) // 2
    most_bytes = min((default_bytes, *(size // 2 for size in _buffer_pools(experiment))))
    pool = "default" if most_bytes == default_bytes else "smallest"
    for values in every:
        for name, (fair, why) in _FAIR.items():
            if values.get(name, fair) != fair:
                yield Diagnostic(f"factors.{name}", why, f'{name} = "{fair}"')
        yield from _compression(values)
        engine = str(values.get("engine", _engine_without_backlog()))
        if _defers_work(engine):
            yield Diagnostic(
                "factors.engine",
                f"{engine} may defer some work of a load into the slices of the other servers",
                f'engine = "{_engine_without_backlog()}"',
            )
            continue
        if data.table_bytes(int(values["rows"]), engine) > most_bytes:
            yield Diagnostic(
                "parameters.rows",
                f"the table is larger than {readable_size(most_bytes)}, half of the {pool} buffer "
                "pool: a server would write pages to disk during the slices of the others",
                f"rows = {most_bytes // data.table_bytes(1, engine):_} or fewer",
            )


def _other_metric(workload: Workload) -> Iterator[Diagnostic]:
    throughput = workload.metrics.get("throughput")
    if throughput is None or not throughput.primary:
        yield Diagnostic(
            "workload",
            f"the primary metric of {workload.name} is not throughput",
            "a workload with throughput as its primary metric",
        )


def _compression(values: Values) -> Iterator[Diagnostic]:
    if (level := values.get(COMPRESSION, UNCOMPRESSED)) != UNCOMPRESSED:
        yield Diagnostic(
            f"factors.{COMPRESSION}",
            f"with '{level}', a server may compress pages during the slices of the others",
            f"compression = '{UNCOMPRESSED}'",
        )


def _buffer_pools(experiment: Experiment) -> Iterator[int]:
    """Yield the buffer pool sizes, in bytes, that the experiment sets explicitly."""
    pools = {storage.pool_option for storage in databases.storages()}
    definitions = experiment.configurations.values()
    options = [each.to_json().get("options", {}) for each in definitions]
    defined = [each[pool] for each in options for pool in pools & each.keys()]
    names = {f"{OPTION}{pool}" for pool in pools}
    varied = (each.levels for each in experiment.factors if each.name in names)
    for size in (*defined, *chain.from_iterable(varied)):
        if isinstance(size, int | str):
            with suppress(ValueError):  # the server will refuse it
                yield parse_size(str(size))


def _engine_without_backlog() -> str:
    return databases.storages()[0].engine


def _defers_work(engine: object) -> bool:
    prompt = {storage.engine.casefold() for storage in databases.storages()}
    return str(engine).casefold() not in prompt


def _stopped_shares(experiment: Experiment) -> list[float]:
    """Return the fractions of time for which the experiment's slowdowns stop a server."""
    levels = next((each.levels for each in experiment.factors if each.name == FACTOR), ())
    names = (str(level) for level in levels)
    slowdowns = (slowdown_named(name) for name in names if name.startswith(f"{CPU}="))
    return [each.share for each in slowdowns if isinstance(each, Stopped)]


def _statements(experiment: Experiment, values: Values) -> Iterator[Diagnostic]:
    kinds = statement_kinds(experiment.workload, values)
    if not kinds <= {"read"}:
        yield from _compression(values)
    test, clients = values["test"], int(values["clients"])
    if "other" in kinds:
        yield Diagnostic(
            "factors.test",
            f"{test} has writes with deferred work, such as changes of indexed columns: a server "
            "may do this work during the slices of the others",
            "a test that only reads, inserts rows or updates columns without an index",
        )
    elif "simple write" in kinds and _defers_work(values.get("engine", _engine_without_backlog())):
        yield Diagnostic(
            "factors.engine",
            f"{test} writes, and {values['engine']} defers work, such as merging its files: a "
            "server may do it during the slices of the others",
            f'engine = "{_engine_without_backlog()}", or a test that only reads',
        )
    elif "simple write" in kinds and clients > 1:
        yield Diagnostic(
            "factors.clients",
            f"{test} writes, and slices with writes are known to be fair only for a single client",
            "clients = 1",
        )
