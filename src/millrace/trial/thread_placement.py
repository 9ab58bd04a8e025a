"""Run the server's thread that serves the only client on the client's CPU, and all others not.

No version reports alike which thread that is, and many not at all; but each request that finds its
thread asleep is a voluntary context switch of that thread. So the client sends many empty requests
when it has connected, and the thread that has switched most since is the one. On a host that is too
busy for that, other threads switch as often meanwhile; then millrace takes the thread that waits
for a client, which takes longer to find.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

from millrace.collect.model import Target
from millrace.collect.server_processes import ServerProcesses
from millrace.collect.threads.thread_watch import ThreadWatch, require_processes
from millrace.databases.monitoring import CONNECTION
from millrace.errors import TrialFailed
from millrace.loadgen.events import Event, Mark
from millrace.loadgen.spec import LoadSpec
from millrace.trial.collection import target_of
from millrace.trial.hooks import MeasurementContext, MeasurementHook, adjust_drives

PINGS = 1000

_LOOKS = 100
_PAUSE_S = 0.01

_VOLUNTARY = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


def hooks(measurement: MeasurementContext, _opened: ExitStack) -> Iterator[MeasurementHook]:
    """Yield the hook that places the threads of the driven server, where a CPU is shared."""
    settings = measurement.spec.cpu_idle
    if settings is not None and settings.shared_cpu is not None:
        server = measurement.servers[0]
        target = target_of(server.client, server.database, {})
        yield Placement(target, settings.shared_cpu)


class Placement(MeasurementHook):
    """Place a server's threads once the client, on ``cpu``, has connected. Raise TrialFailed."""

    def __init__(self, target: Target, cpu: int) -> None:
        self._target = target
        self._processes = require_processes(target)
        self._cpu = cpu
        self._before: dict[int, int] = {}

    def adjust(self, load_spec: LoadSpec) -> LoadSpec:
        return adjust_drives(load_spec, lambda drive: replace(drive, pings=PINGS))

    def before(self) -> None:
        self._before = switches(self._processes)

    def on_event(self, event: Event) -> None:
        if isinstance(event, Mark) and event.mark == "connected":
            self._place()

    def _place(self) -> None:
        serving = serving_thread(self._before, switches(self._processes)) or self._waiting_thread()
        if serving is None:
            raise TrialFailed(
                "the server's thread that serves the client could not be found",
                hint='set the parameter colocate_client = "off"',
            )
        others = os.sched_getaffinity(0) - {self._cpu}
        try:
            os.sched_setaffinity(serving, {self._cpu})
            for thread in switches(self._processes):
                if thread != serving:
                    with suppress(ProcessLookupError):  # it has just ended
                        os.sched_setaffinity(thread, others)
        except OSError as error:
            raise TrialFailed(
                f"the server's threads cannot be given CPUs: {error.strerror}",
                hint='set the parameter colocate_client = "off", or run as root',
            ) from error

    def _waiting_thread(self) -> int | None:
        """Return the only thread that waits for a client; None where there is not exactly one."""
        watch = ThreadWatch(self._target)
        try:
            for _ in range(_LOOKS):
                watch.sample()
                time.sleep(_PAUSE_S)
                kinds = watch.kinds().items()
                serving = [thread for thread, kind in kinds if kind == CONNECTION]
                if len(serving) == 1:
                    return serving[0]
            return None
        finally:
            watch.close()


def serving_thread(before: Mapping[int, int], after: Mapping[int, int]) -> int | None:
    """Return the thread that slept between the pings; None where none stands out.

    Both arguments count voluntary context switches by thread id. A ping that arrives before the
    thread sleeps costs no switch, which is the rule on a busy host; so a tenth of the pings is
    enough, if no other thread has half as many switches.
    """
    asleep = {thread: count - before.get(thread, 0) for thread, count in after.items()}
    serving = max(asleep, key=lambda thread: asleep[thread], default=None)
    if serving is None or asleep[serving] < PINGS // 10:
        return None
    second = max((count for thread, count in asleep.items() if thread != serving), default=0)
    return serving if 2 * second <= asleep[serving] else None


def switches(processes: ServerProcesses) -> dict[int, int]:
    """Return the voluntary context switches of each thread of a server so far, by thread id."""
    found = {}
    for tid, task in processes.tasks():
        try:
            counted = _VOLUNTARY.search((task / "status").read_bytes())
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has just ended
        if counted is not None:
            found[tid] = int(counted[1])
    return found
