"""What a run does about CPUs that sleep: one rule, decided before the first trial.

On an idle virtual machine a halted CPU takes tens of microseconds to run again, and one that is
kept awake still takes long to be told. With few clients that delay is in every operation, the same
for all servers, and hides a part of their difference; whether it is there at all depends on who
else uses the host. There are three remedies:

a shared CPU    The only client and the server's thread of its connection take turns on one CPU, so
                that no other has to be woken; the server's other threads have the other CPUs.
kept awake      Pollers of the idle class keep the CPUs from halting.
busy polling    Clients ask for answers instead of sleeping, on CPUs of their own.

The last two take CPU time, which nobody misses where CPUs are to spare, and which the server lacks
where they are not: pollers of the idle class are given turns by current kernels too. So these are
for all trials of a run or for none, by its largest number of clients (or of connections that load,
where loading is what is measured). A CPU is shared by single clients only, where nothing is
compared with more of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from millrace.errors import MillraceError
from millrace.loadgen import cpu_idle
from millrace.loadgen.cpu_idle import CpuWakeup, KeptAwake
from millrace.loadgen.results import DriveResult
from millrace.store.records import StoredRun
from millrace.trial.resolved_workload import ResolvedWorkload

# Under this name the instances of a trial carry the control it ran under.
FACT = "cpu_idle"

Setting = Literal["auto", "on", "off"]

# A quick server answers a client in about 30 microseconds: less than this is less than a tenth.
WORTH_AVOIDING_US = 3.0

# A client that polls is never done: what the server does in the background, or after a read from
# the disk, would wait behind it for milliseconds, so it must be able to run elsewhere.
_AMPLE = 4


@dataclass(frozen=True)
class Control:
    """What a trial does about sleeping CPUs, and why.

    ``client_cpus`` are those that polling clients get for themselves; None leaves them where the
    experiment says. ``shared_cpu`` is that of the only client and the thread of its connection,
    None where they are left to the kernel. The latencies are those of the slowest CPU, medians in
    microseconds; None where they could not be measured.
    """

    keep_awake: bool
    busy_poll: bool
    client_cpus: tuple[int, ...] | None
    shared_cpu: int | None
    reason: str
    idle_wakeup_us: float | None
    awake_wakeup_us: float | None


@dataclass(frozen=True)
class Rule:
    """How a run decides for its trials: what the experiment says and what was measured.

    ``busy_poll`` and ``share_cpu`` are None where nobody drives clients: tables are loaded.
    ``cpus`` are those this process may use. ``most`` is the largest number of clients of a trial;
    where they are what is compared (``compared``), single ones do not share a CPU, nor where
    threads of a server cannot be given CPUs (``placeable``).
    """

    keep_awake: Setting
    busy_poll: Setting | None
    share_cpu: Setting | None
    idle_us: float | None
    awake_us: float | None
    cpus: tuple[int, ...]
    most: int
    compared: bool = False
    placeable: bool = True

    def control(self, clients: int) -> Control:
        """What is done in a trial with so many clients."""
        lost_us = 0.0
        if self.idle_us is not None and self.awake_us is not None:
            lost_us = self.idle_us - self.awake_us
        sleeps = lost_us >= WORTH_AVOIDING_US
        room = 2 * self.most <= len(self.cpus)
        ample = _AMPLE * self.most <= len(self.cpus)
        polls = sleeps and ample if self.busy_poll == "auto" else self.busy_poll == "on"
        shared = clients == 1 and self._shares(polls=polls)
        needed = sleeps and room and not (self.most == 1 and shared)
        awake = needed if self.keep_awake == "auto" else self.keep_awake == "on"
        return Control(
            awake,
            polls,
            # Else the kernel may put client and server on one CPU, and in one trial more than
            # another.
            self.cpus[-clients:] if polls and ample else None,
            self.cpus[-1] if shared else None,
            "; ".join(self._reasons(sleeps=sleeps, room=room)),
            self.idle_us,
            self.awake_us,
        )

    def _shares(self, *, polls: bool) -> bool:
        """Whether single clients share a CPU with the server's thread that serves them."""
        if len(self.cpus) < 2 or self.compared or polls or not self.placeable:
            return False
        slow_to_wake = self.awake_us is not None and self.awake_us >= WORTH_AVOIDING_US
        return slow_to_wake if self.share_cpu == "auto" else self.share_cpu == "on"

    def _reasons(self, *, sleeps: bool, room: bool) -> Iterator[str]:
        yield self._found()
        if sleeps and not room and "auto" in (self.keep_awake, self.busy_poll):
            what, n_cpus = "clients" if self.busy_poll else "connections", len(self.cpus)
            yield f"{what} = {self.most} leaves none of the {n_cpus} CPUs to spare"
        for name in ("keep_awake", "busy_poll", "share_cpu"):
            if (setting := getattr(self, name)) in ("on", "off"):
                yield f'the experiment says {name} = "{setting}"'

    def _found(self) -> str:
        if self.idle_us is None or self.awake_us is None:
            return "how long a CPU takes to wake could not be measured"
        return (
            f"a sleeping CPU takes {self.idle_us:.0f} µs to run again, "
            f"one kept awake {self.awake_us:.0f} µs"
        )


def rule_of(
    works: Collection[ResolvedWorkload],
    compared: str,
    earlier: StoredRun | None,
    *,
    placeable: bool,
) -> Rule | None:
    """The rule of a run that does ``works``, by what was measured when its ``earlier`` trials
    began, else by what is measured now; None where no work has ``connections``.

    ``compared`` is the factor whose levels are compared, ``placeable`` says whether threads of all
    servers can be given CPUs.
    """
    numbers = [work.connections for work in works if work.connections is not None]
    if not numbers:
        return None
    idle_us, awake_us = _earlier(earlier) or _measured()
    values = next(iter(works)).values  # parameters, which all treatments share
    return Rule(
        values["keep_awake"],
        values.get("busy_poll"),
        values.get("share_cpu"),
        idle_us,
        awake_us,
        tuple(sorted(os.sched_getaffinity(0))),
        max(numbers),
        compared == "clients",
        placeable,
    )


@contextlib.contextmanager
def in_force(control: Control | None) -> Iterator[KeptAwake | None]:
    """Keep the CPUs awake while the block runs, if the control says so; gives how."""
    if control is None or not control.keep_awake:
        yield None
        return
    with cpu_idle.kept_awake() as how:
        yield how


def told(
    control: Control, awake: KeptAwake | None = None, driven: DriveResult | None = None
) -> dict[str, Any]:
    """The fact about a trial that keeps its control, and what came of it once it is known: how the
    CPUs were kept awake, whether the clients polled and on which CPUs they were."""
    fact = asdict(control)
    if awake is not None:
        fact["kept_awake_by"] = asdict(awake)
    if driven is not None:
        fact["polled"] = driven.details["busy_poll"]
        fact["on_cpus"] = driven.details["cpus"]
    return {FACT: fact}


def slowest(measured: Sequence[CpuWakeup]) -> tuple[float | None, float | None]:
    """The slowest CPU's wake-up from sleep and when kept awake, in microseconds."""
    return (
        max((cpu.idle_us for cpu in measured), default=None),
        max((cpu.awake_us for cpu in measured), default=None),
    )


def _earlier(run: StoredRun | None) -> tuple[float | None, float | None] | None:
    for attempt in run.attempts if run is not None else ():
        for instance in attempt.instances:
            fact = instance.facts.cpu_idle
            if fact is not None:
                return fact.idle_wakeup_us, fact.awake_wakeup_us
    return None


def _measured() -> tuple[float | None, float | None]:
    try:
        return slowest(cpu_idle.measure())
    except MillraceError:
        return None, None
