"""Has a server's thread that serves the only client run on the client's CPU, and all others not.

Which thread that is no version tells alike, and many not at all; but each request that finds its
thread asleep is a voluntary context switch of it. So the client asks for nothing (COM_PING) many
times when it has connected, and the thread that has switched most since is the one. On a host that
is too busy for that, others switch as often meanwhile; then it is the one that is seen to wait for
a client, which takes longer.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from millrace.collect.model import Target
from millrace.collect.server_processes import ServerProcesses
from millrace.collect.threads.thread_watch import ThreadWatch, needs_processes
from millrace.databases.monitoring import CONNECTION
from millrace.errors import TrialFailed

PINGS = 1000

_LOOKS = 100
_PAUSE_S = 0.01

_VOLUNTARY = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


class Placement:
    """Places the threads of a server's process when the client has connected; ``cpu`` is its own.

    To be made before the load generator begins, whose pings do not wait for anybody to look.
    """

    def __init__(self, target: Target, cpu: int) -> None:
        self._target = target
        self._processes = needs_processes(target)
        self._cpu = cpu
        self._before = switches(self._processes)

    def see(self, event: Mapping[str, Any]) -> None:
        """Take an event of the load generator. Raises TrialFailed where the thread cannot be found
        or the threads may not be placed."""
        if event["type"] == "mark" and event["mark"] == "connected":
            self._place()

    def _place(self) -> None:
        serving = serving_thread(self._before, switches(self._processes)) or self._watched()
        if serving is None:
            raise TrialFailed(
                "the server's thread that serves the client could not be found",
                hint='set the parameter share_cpu = "off"',
            )
        others = os.sched_getaffinity(0) - {self._cpu}
        try:
            for thread in switches(self._processes):
                os.sched_setaffinity(thread, {self._cpu} if thread == serving else others)
        except OSError as error:
            raise TrialFailed(
                f"the server's threads cannot be given CPUs: {error.strerror}",
                hint='set the parameter share_cpu = "off", or run as root',
            ) from error

    def _watched(self) -> int | None:
        """The only thread that is seen to wait for a client; None where there is no such one."""
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
    """The thread that has gone to sleep for the pings in between; None without one that stands out.

    Both count voluntary context switches by thread id. A ping that comes while the thread has not
    yet gone to sleep costs none, which is most of them where the host is busy; so a tenth will do,
    if no other thread has half as many.
    """
    asleep = {thread: count - before.get(thread, 0) for thread, count in after.items()}
    serving = max(asleep, key=lambda thread: asleep[thread], default=None)
    if serving is None or asleep[serving] < PINGS // 10:
        return None
    second = max((count for thread, count in asleep.items() if thread != serving), default=0)
    return serving if 2 * second <= asleep[serving] else None


def switches(processes: ServerProcesses) -> dict[int, int]:
    """The voluntary context switches of each thread of a server until now, by thread id."""
    found = {}
    for tid, task in processes.tasks():
        try:
            counted = _VOLUNTARY.search((task / "status").read_bytes())
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended just now
        if counted is not None:
            found[tid] = int(counted[1])
    return found
