"""Run the server's thread that serves the only client on the client's CPU, and all others not.

No version reports alike which thread that is, and many not at all; but each request that finds its
thread asleep is a voluntary context switch of that thread. So the client sends many empty requests
when it has connected, and the thread that has switched most since is the one. On a host that is too
busy for that, other threads switch as often meanwhile; then millrace takes the thread that waits
for a client, which takes longer to find.

The client's first statements confirm the choice: they wake the thread, or take CPU time of it, more
than of any other. A thread that they do not wake is replaced by another that waits for a client.

In a round, the threads that serve several clients are pinned to the CPUs, alike on all sides. The
kernel leaves a thread where it ran last. The threads of a side sleep while the others have their
turn, so those that happen to share a CPU go on to share it until the round ends, and one of two
equal servers is faster by a tenth or more. As many threads on each CPU on all sides leave no room
for that. The assignment of clients to threads does not matter, because one thread of the load
generator drives all clients in slices. Where the threads that serve are not as many as the clients,
as in a pool of threads, all stay where the kernel runs them.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from millrace.collect.model import Target
from millrace.collect.server_processes import ServerProcesses
from millrace.collect.threads.thread_watch import ThreadWatch, require_processes
from millrace.databases.monitoring import CONNECTION
from millrace.errors import TrialFailed
from millrace.host import procfs
from millrace.loadgen.events import Event, Mark
from millrace.loadgen.spec import LoadSpec
from millrace.trial.collection import target_of
from millrace.trial.hooks import MeasurementContext, MeasurementHook, adjust_drives

_PINGS_OF_ALL = 8_000  # of all clients together: a second or less
_FEWEST_PINGS = 50

PINGS = 1000

_LOOKS = 100
_PAUSE_S = 0.01
_TRIES = 3
_CONFIRMING_S = 2.0
# Of what the client's first statements cause: some milliseconds of them are enough.
_FEWEST_SWITCHES, _LEAST_CPU_NS = 50, 5_000_000


def hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that places or pins the threads of the driven server, if either applies."""
    settings = measurement.spec.cpu_idle
    if settings is None:
        return
    server = measurement.servers[0]
    target = target_of(server.client, server.database)
    if settings.shared_cpu is not None:
        yield Placement(target, settings.shared_cpu)
    if settings.server_cpus is not None:
        clients = measurement.spec.workload.connections
        assert clients is not None
        yield ThreadPinning(target, clients, settings.server_cpus)


class _Pinged(MeasurementHook):
    """A hook before whose mark ``connected`` clients send pings, which wake the serving threads."""

    def __init__(self, target: Target, pings: int) -> None:
        self._processes = require_processes(target)
        self._pings = pings
        self._before: dict[int, int] = {}

    def adjust(self, load_spec: LoadSpec) -> LoadSpec:
        return adjust_drives(load_spec, lambda drive: replace(drive, pings=self._pings))

    def before(self) -> None:
        self._before = switches(self._processes)

    def _serving(self, clients: int) -> list[int]:
        return serving_threads(self._before, switches(self._processes), clients, self._pings)


class Placement(_Pinged):
    """Place a server's threads once the client, on ``cpu``, has connected. Raise TrialFailed."""

    def __init__(self, target: Target, cpu: int) -> None:
        super().__init__(target, PINGS)
        self._target = target
        self._cpu = cpu
        self._placed = 0
        self._refused: set[int] = set()

    def on_event(self, event: Event) -> None:
        if not isinstance(event, Mark):
            return
        if event.mark == "connected":
            self._place(next(iter(self._serving(1)), None))
        elif event.mark == "warmup_started":
            self._confirm()

    def _place(self, serving: int | None) -> None:
        """Place the thread that serves, by default the one that is seen waiting for a client."""
        serving = serving or self._waiting_thread()
        if serving is None:
            raise TrialFailed(
                "the server's thread that serves the client could not be found",
                hint='set the parameter colocate_client = "off"',
            )
        self._placed = serving
        self._run_apart(serving)

    def _confirm(self) -> None:
        """Place another thread where the client's statements do not wake the chosen one.

        Keep it where they show too little, or where no other thread is seen waiting for a client.
        """
        for _ in range(_TRIES):
            before, since = activity(self._processes), time.monotonic()
            shown = None
            # Background work may come first, so what refutes the choice has to last.
            while not shown and time.monotonic() < since + _CONFIRMING_S:
                time.sleep(_PAUSE_S)
                shown = serves(self._placed, before, activity(self._processes))
            if shown is not False:
                return
            self._refused.add(self._placed)
            other = self._waiting_thread()
            if other is None:
                return
            self._place(other)

    def _run_apart(self, serving: int) -> None:
        """Let a thread run on the client's CPU, and all others elsewhere."""
        others = os.sched_getaffinity(0) - {self._cpu}
        placed: set[int] = set()
        while new := switches(self._processes).keys() - placed:
            for thread in new:
                place(thread, {self._cpu} if thread == serving else others)
            placed |= new  # threads of one that was not yet placed may have come meanwhile

    def _waiting_thread(self) -> int | None:
        """Return the only thread, besides the refused, that waits for a client; None if unclear."""
        watch = ThreadWatch(self._target)
        try:
            for _ in range(_LOOKS):
                watch.sample()
                time.sleep(_PAUSE_S)
                kinds = watch.kinds().items()
                serving = [t for t, kind in kinds if kind == CONNECTION and t not in self._refused]
                if len(serving) == 1:
                    return serving[0]
            return None
        finally:
            watch.close()


@dataclass(frozen=True)
class Activity:
    """The voluntary context switches and the CPU time of a thread so far."""

    switches: int
    cpu_ns: int


def serves(
    thread: int, before: Mapping[int, Activity], after: Mapping[int, Activity]
) -> bool | None:
    """Return whether a thread serves the client, by what its statements caused since ``before``.

    A write wakes threads of the log, too, so another thread may do up to twice as much. Return None
    where too little happened.
    """
    none = Activity(0, 0)
    grown = {
        tid: Activity(
            now.switches - before.get(tid, none).switches, now.cpu_ns - before.get(tid, none).cpu_ns
        )
        for tid, now in after.items()
    }
    own = grown.pop(thread, none)
    most_switches = max((each.switches for each in grown.values()), default=0)
    most_cpu_ns = max((each.cpu_ns for each in grown.values()), default=0)
    wakes = own.switches >= _FEWEST_SWITCHES and most_switches <= 2 * own.switches
    works = own.cpu_ns >= _LEAST_CPU_NS and most_cpu_ns <= 2 * own.cpu_ns
    if wakes or works:
        return True
    others = most_switches > 2 * _FEWEST_SWITCHES or most_cpu_ns > 2 * _LEAST_CPU_NS
    return False if others else None


def place(thread: int, cpus: Set[int]) -> None:
    """Let a thread of a server run on these CPUs alone, unless it has just ended."""
    try:
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cpus)
    except OSError as error:
        raise TrialFailed(
            f"the server's threads cannot be given CPUs: {error.strerror}",
            hint='set the parameter colocate_client = "off", or run as root',
        ) from error


def switches(processes: ServerProcesses) -> dict[int, int]:
    """Return the voluntary context switches of each thread of a server so far, by thread id."""
    return {tid: each.switches for tid, each in activity(processes).items()}


def activity(processes: ServerProcesses) -> dict[int, Activity]:
    """Return the activity of each thread of a server so far, by thread id."""
    found = {}
    for tid, task in processes.tasks():
        try:
            voluntary, _ = procfs.switches((task / "status").read_bytes())
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has just ended
        ran = procfs.read_or_none(task / "schedstat")  # not every kernel has it
        found[tid] = Activity(voluntary, 0 if ran is None else procfs.schedstat(ran)[0])
    return found


class ThreadPinning(_Pinged):
    """Pin a server's threads to ``cpus`` in turn once its ``clients`` have connected."""

    def __init__(self, target: Target, clients: int, cpus: Sequence[int]) -> None:
        super().__init__(target, max(_FEWEST_PINGS, _PINGS_OF_ALL // clients))
        self._clients = clients
        self._cpus = cpus

    def on_event(self, event: Event) -> None:
        if not (isinstance(event, Mark) and event.mark == "connected"):
            return
        for number, thread in enumerate(self._serving(self._clients)):
            place(thread, {self._cpus[number % len(self._cpus)]})


def serving_threads(
    before: Mapping[int, int], after: Mapping[int, int], clients: int, pings: int
) -> list[int]:
    """Return the threads that slept between the pings, one a client; none where that is unclear.

    Both mappings count voluntary context switches by thread id. A ping that arrives before the
    thread sleeps costs no switch, which is the rule on a busy host; so a tenth of the pings is
    enough, if no other thread has half as many switches.
    """
    asleep = {thread: count - before.get(thread, 0) for thread, count in after.items()}
    ranked = sorted(asleep, key=lambda thread: -asleep[thread])
    serving, others = ranked[:clients], ranked[clients:]
    if len(serving) < clients or asleep[serving[-1]] < pings // 10:
        return []
    if others and 2 * asleep[others[0]] > asleep[serving[-1]]:
        return []
    return sorted(serving)
