"""Measure the cost of collectors as lost throughput.

Clients run continuously. Turns of some seconds with the collectors of every trial, and with the CPU
profile added, are compared with the mean of the seconds without collectors before and after.

The CPUs on which clients and the server's threads run make more of a difference than any collector,
and they change within seconds. So clients are not restarted, and each of the server's threads runs
on the CPU of its client: a single client's thread as in trials; with several clients, on the CPU of
the load generator's thread that drives the client.
"""

import argparse
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Queue
from statistics import fmean
from threading import Event
from typing import Any

import psutil

from benchmarks import json_file
from benchmarks.servers import installed, running
from millrace import databases, workloads
from millrace.collect.collectors import CollectorSet, collecting
from millrace.collect.model import Target
from millrace.collect.registry import COLLECTORS, PROFILE
from millrace.collect.threads.connection_map import connection_map, slots_of_threads
from millrace.collect.threads.thread_watch import ThreadWatch
from millrace.host.cpu_clock import clock_ns
from millrace.levels import Level
from millrace.loadgen import client as load
from millrace.loadgen.events import DriveInterval, Mark, MarkName
from millrace.loadgen.events import Event as LoadEvent
from millrace.loadgen.spec import Connection, LoadSpec
from millrace.loadgen.statement_activity import StatementActivity
from millrace.servers.instances.instance import Instance
from millrace.stats.ratio import RatioEstimate, paired_ratio
from millrace.trial import phase_spec
from millrace.trial.collection import target_of, window
from millrace.trial.hooks import adjust_drives
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.trial.thread_placement import PINGS, Placement

DATABASE = "sbtest"
DIALECT = databases.get("mysql").load_dialect
LIMIT_S = 3600.0
SECONDS = 3  # of a turn
OPTIONS = {"innodb_buffer_pool_size": "256M", "innodb_flush_log_at_trx_commit": "0"}
TESTS = ("oltp_point_select", "oltp_update_non_index")

BY_DEFAULT = tuple(name for name in COLLECTORS if name != PROFILE)
NONE: tuple[str, ...] = ()
WAYS: Mapping[str, tuple[str, ...]] = {
    "collectors of every trial": BY_DEFAULT,
    "with the CPU profile": (*BY_DEFAULT, PROFILE),
}
CPUS = sorted(os.sched_getaffinity(0))

Intervals = Queue[DriveInterval]
Place = Callable[[LoadEvent], None]

GOALS = {"collectors of every trial": 0.99, "with the CPU profile": 0.97}


@dataclass(frozen=True)
class Rates:
    """Transactions per second with collectors, and without them before and after.

    The clients' speed drifts more in ten seconds than in five. ``own_cpu`` is the CPU time of the
    collectors, including the kernel's work on their behalf, as a share of the time of all CPUs.
    """

    seen: float
    without: float
    own_cpu: float


class _Over(Exception):
    """A signal that clients have worked long enough."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="mysql-8.0.33", metavar="NAME", help="[%(default)s]")
    parser.add_argument(
        "--each", action="store_true", help="each collector alone, too, instead of all at once"
    )
    parser.add_argument("--quick", action="store_true", help="5 turns instead of 25")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    turns = 5 if arguments.quick else 25
    ways = {**WAYS, **({name: (name,) for name in BY_DEFAULT} if arguments.each else {})}
    results = []
    server = installed(arguments.server)
    for clients in (1, 16):
        for test in TESTS:
            with running(server, OPTIONS) as instance:
                rates = _rates(instance, work_of(test, clients), ways, turns)
            for way, of_way in rates.items():
                ratio = paired_ratio(
                    [each.without for each in of_way], [each.seen for each in of_way]
                )
                own_cpu = fmean(each.own_cpu for each in of_way)
                about = {"test": test, "clients": clients, "way": way, "own_cpu": own_cpu}
                results.append({**about, **asdict(ratio)})
                _print(test, clients, way, ratio, own_cpu)
    json_file.write(
        arguments.json,
        "collector_cost",
        server=arguments.server,
        turns=turns,
        seconds=SECONDS,
        ratios=results,
    )


def work_of(test: str, clients: int) -> ResolvedWorkload:
    """Return a workload of this many clients that run until stopped.

    Several clients get their CPUs in turn."""
    chosen: dict[str, Level] = {
        "test": test,
        "clients": clients,
        "time_s": LIMIT_S,
        "warmup_s": 2.0,
    }
    if clients > 1:
        used = CPUS[:clients]
        chosen |= {"threads": len(used), "client_cpus": ",".join(map(str, used))}
    return ResolvedWorkload(
        workloads.load("sysbench"), {**chosen, "table_size": 50_000, "tables": 1}
    )


def _print(test: str, clients: int, way: str, ratio: RatioEstimate, own_cpu: float) -> None:
    goal = f"; the goal is {GOALS[way]:.2f}" if way in GOALS else ""
    print(
        f"{test:22} {clients:3} clients  {way:26} {ratio.ratio:.3f} of the throughput "
        f"({ratio.low:.3f} to {ratio.high:.3f}, 95 %, {ratio.n_pairs} turns){goal}; collectors ran "
        f"{own_cpu:.2%} of the CPUs' time themselves",
        flush=True,
    )


def _rates(
    instance: Instance, work: ResolvedWorkload, ways: Mapping[str, tuple[str, ...]], turns: int
) -> dict[str, list[Rates]]:
    """Return one value per turn for each way; the order changes from turn to turn."""
    connection = Connection(
        socket=instance.socket, user=instance.user, password=instance.password, database=DATABASE
    )
    make(instance, work, connection)
    rates: dict[str, list[Rates]] = {way: [] for way in ways}
    names = list(ways)
    with StatementActivity.create() as shown:
        shared_cpu = shared_cpu_of(work)
        spec = measured_spec(work, connection, shown, shared_cpu)
        target = replace(
            target_of(instance, DATABASE),
            statements=load.statements(spec),
            statement_activity=shown,
            connections=work.connections or 1,
        )
        with going_on(spec, placing(target, shared_cpu, shown)) as intervals:

            def rate(
                collectors: tuple[str, ...], others: Collection[int] = ()
            ) -> tuple[float, float]:
                with collecting(COLLECTORS, collectors, target, window(work)) as collector:
                    return _rate(collector, intervals, others)

            before, _ = rate(NONE)
            others = _children()  # server and load generator, which runs by now
            for turn in range(turns):
                first = turn % len(names)
                for way in names[first:] + names[:first]:
                    seen, own_cpu = rate(ways[way], others)
                    after, _ = rate(NONE)
                    rates[way].append(Rates(seen, math.sqrt(before * after), own_cpu))
                    before = after
    return rates


def make(instance: Instance, work: ResolvedWorkload, connection: Connection) -> None:
    """Make the tables and read them into memory."""
    instance.query(f"CREATE DATABASE {DATABASE}")
    load.run(phase_spec.load_spec(work.making_phases, work, DIALECT, connection), limit_s=LIMIT_S)
    load.run(phase_spec.load_spec(work.warming_phases, work, DIALECT, connection), limit_s=LIMIT_S)


def shared_cpu_of(work: ResolvedWorkload) -> int | None:
    """Return the CPU that a single client shares with its thread of the server, as in trials."""
    return None if work.client_settings.clients > 1 or len(CPUS) < 2 else CPUS[-1]


def measured_spec(
    work: ResolvedWorkload, connection: Connection, shown: StatementActivity, shared_cpu: int | None
) -> LoadSpec:
    """Return the specification of the measured phases, as the hooks of a trial adjust it."""
    shared: dict[str, Any] = {} if shared_cpu is None else {"cpus": (shared_cpu,), "pings": PINGS}
    return adjust_drives(
        phase_spec.load_spec(work.measuring_phases, work, DIALECT, connection),
        lambda drive: replace(drive, statement_activity=shown.path, **shared),
    )


def placing(target: Target, shared_cpu: int | None, shown: StatementActivity) -> Place:
    """Return a function that runs each of the server's threads on the CPU of its client."""
    if shared_cpu is not None:
        placement = Placement(target, shared_cpu)
        placement.before()
        return placement.on_event
    return _place_all(target, shown)


def _place_all(target: Target, activity: StatementActivity) -> Place:
    """Place the server's threads when the clients have connected and wait for the start."""

    def on_event(event: LoadEvent) -> None:
        if isinstance(event, Mark) and event.mark == "connected":
            with closing(ThreadWatch(target)) as watch:
                slots = connection_map(activity, watch.pid, target.client.port)
                for thread, slot in slots_of_threads(watch.sample(), slots).items():
                    os.sched_setaffinity(thread, {_cpu(slot, len(slots))})

    return on_event


def _cpu(slot: int, clients: int) -> int:
    """Return the CPU on which the client of a slot is driven.

    Clients of one thread of the load generator are adjacent in the connection map."""
    threads = min(len(CPUS), clients)
    of_threads = [n for n in range(threads) for _ in range(n, clients, threads)]
    return CPUS[of_threads[slot]]


@contextmanager
def going_on(spec: LoadSpec, place: Place) -> Iterator[Intervals]:
    """Run clients until the end of the block and yield their work in each second.

    ``place`` receives their events."""
    intervals: Intervals = Queue()
    over = Event()

    def on_event(event: LoadEvent) -> None:
        if over.is_set():
            raise _Over
        place(event)
        if isinstance(event, DriveInterval) and event.part == "measure":
            intervals.put(event)

    def work() -> None:
        with suppress(_Over):
            load.run(spec, on_event=on_event, limit_s=LIMIT_S)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield intervals
        finally:
            over.set()
            working.result()


def _reach(collector: CollectorSet, *marks: MarkName) -> None:
    for name in marks:
        collector.on_event(Mark(phase="measure", mark=name, t_s=0))


def _rate(
    collector: CollectorSet, intervals: Intervals, others: Collection[int]
) -> tuple[float, float]:
    """Return transactions per second while collectors run, and their share of all CPUs.

    The processes ``others`` do not count.

    Work before and after the window is excluded, and so is the second in which they begin."""
    _reach(collector, "connected", "measure_started")
    while not intervals.empty():
        intervals.get()
    intervals.get(timeout=LIMIT_S)  # they began only after the second did
    began_ns = _own_ns(others)
    looked = [intervals.get(timeout=LIMIT_S) for _ in range(SECONDS)]
    own_ns = _own_ns(others) - began_ns
    _reach(collector, "measure_ended")
    collector.document()
    transactions = sum(each.transactions for each in looked)
    seconds = sum(each.duration_s for each in looked)
    return transactions / seconds, own_ns / 1e9 / seconds / len(CPUS)


def _own_ns(others: Collection[int]) -> int:
    """Return the nanoseconds of CPU of this process and its children, without ``others``."""
    return sum(clock_ns(pid) for pid in {os.getpid(), *_children()}.difference(others))


def _children() -> frozenset[int]:
    return frozenset(child.pid for child in psutil.Process().children(recursive=True))


if __name__ == "__main__":
    main()
