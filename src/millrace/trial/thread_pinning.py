"""Pin the server's threads that serve several clients to the CPUs, alike on all sides of a round.

The kernel leaves a thread where it ran last. The threads of a side sleep while the others have
their turn, so those that happen to share a CPU go on to share it until the round ends, and one of
two equal servers is faster by a tenth or more. As many threads on each CPU on all sides leave no
room for that.

Which thread serves which client does not matter, because one thread of the load generator drives
all clients in slices. Where the threads that serve are not as many as the clients, as in a pool of
threads, all stay where the kernel runs them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from millrace.collect.model import Target
from millrace.collect.threads.thread_watch import require_processes
from millrace.loadgen.events import Event, Mark
from millrace.loadgen.spec import LoadSpec
from millrace.trial.collection import target_of
from millrace.trial.hooks import MeasurementContext, MeasurementHook, adjust_drives
from millrace.trial.thread_placement import place, switches

_PINGS_OF_ALL = 8_000  # of all clients together: a second or less
_FEWEST_PINGS = 50


def hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that pins the threads of a server with several clients."""
    spec = measurement.spec
    if spec.cpu_idle is not None and spec.cpu_idle.server_cpus is not None:
        server = measurement.servers[0]
        assert spec.workload.connections is not None
        yield ThreadPinning(
            target_of(server.client, server.database, {}),
            spec.workload.connections,
            spec.cpu_idle.server_cpus,
        )


class ThreadPinning(MeasurementHook):
    """Pin a server's threads to ``cpus`` in turn once its ``clients`` have connected."""

    def __init__(self, target: Target, clients: int, cpus: Sequence[int]) -> None:
        self._processes = require_processes(target)
        self._clients = clients
        self._cpus = cpus
        self._pings = max(_FEWEST_PINGS, _PINGS_OF_ALL // clients)
        self._before: dict[int, int] = {}

    def adjust(self, load_spec: LoadSpec) -> LoadSpec:
        return adjust_drives(load_spec, lambda drive: replace(drive, pings=self._pings))

    def before(self) -> None:
        self._before = switches(self._processes)

    def on_event(self, event: Event) -> None:
        if not (isinstance(event, Mark) and event.mark == "connected"):
            return
        now = switches(self._processes)
        serving = serving_threads(self._before, now, self._clients, self._pings)
        for number, thread in enumerate(serving):
            place(thread, {self._cpus[number % len(self._cpus)]})


def serving_threads(
    before: Mapping[int, int], after: Mapping[int, int], clients: int, pings: int
) -> list[int]:
    """Return the threads that slept between the pings, one a client; none where that is unclear.

    Both mappings count voluntary context switches by thread id. A ping that arrives before the
    thread sleeps costs no switch, so a tenth of the pings is enough, if no other thread has half as
    many switches.
    """
    asleep = {thread: count - before.get(thread, 0) for thread, count in after.items()}
    ranked = sorted(asleep, key=lambda thread: -asleep[thread])
    serving, others = ranked[:clients], ranked[clients:]
    if len(serving) < clients or asleep[serving[-1]] < pings // 10:
        return []
    if others and 2 * asleep[others[0]] > asleep[serving[-1]]:
        return []
    return sorted(serving)
