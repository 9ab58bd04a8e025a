"""Whether a run keeps the CPUs awake and its clients polling: decided once, before the first trial.

On an idle virtual machine a halted CPU takes tens of microseconds to run again. With few clients
that delay is in every operation, the same for all servers, and hides a part of their difference;
whether it is there at all depends on who else uses the host. The decision holds for the whole run,
so that it never differs inside a block.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from millrace.errors import MillraceError
from millrace.load import wakeup
from millrace.load.wakeup import CpuWakeup
from millrace.runner.work import Work
from millrace.store.records import StoredRun

# Under this name the instances of a trial carry the control it ran under.
FACT = "cpu_wakeup"

Setting = Literal["auto", "on", "off"]

# A quick server answers a client in about 30 microseconds: less than this is less than a tenth.
WORTH_AVOIDING_US = 3.0


@dataclass(frozen=True)
class Control:
    """What a run does about sleeping CPUs, and why. The latencies are those of the slowest CPU,
    medians in microseconds; None where they could not be measured."""

    keep_awake: bool
    busy_poll: bool
    reason: str
    idle_wakeup_us: float | None
    awake_wakeup_us: float | None

    def as_data(self) -> dict[str, Any]:
        """The control as plain data, kept with each trial."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Control:
        """The control that ``as_data`` gave."""
        return cls(**data)


def control_of(works: Collection[Work], earlier: StoredRun | None) -> Control | None:
    """The control of a run that does ``works``: that of its ``earlier`` trials where it has any,
    else decided by what is measured now; None where no clients are driven."""
    driving = [work for work in works if work.workload.drives]
    if not driving:
        return None
    for attempt in earlier.attempts if earlier is not None else ():
        for instance in attempt.instances:
            if FACT in instance.facts:
                return Control.of_data(instance.facts[FACT])
    try:
        measured = wakeup.measure()
    except MillraceError:
        measured = ()
    values = driving[0].values  # parameters, which all treatments share
    return decide(
        values["keep_awake"],
        values["busy_poll"],
        measured,
        most_clients=max(int(work.values["clients"]) for work in driving),
        n_cpus=len(os.sched_getaffinity(0)),
    )


@contextlib.contextmanager
def in_force(control: Control | None) -> Iterator[None]:
    """Keep the CPUs awake while the block runs, if the control says so."""
    with contextlib.ExitStack() as opened:
        if control is not None and control.keep_awake:
            opened.enter_context(wakeup.kept_awake())
        yield


def decide(
    keep_awake: Setting,
    busy_poll: Setting,
    measured: Sequence[CpuWakeup],
    *,
    most_clients: int,
    n_cpus: int,
) -> Control:
    """Decide for a run whose treatments have at most ``most_clients`` clients.

    ``measured`` is empty where wake-ups could not be measured; automatic settings are then off.
    """
    idle_us = max((cpu.idle_us for cpu in measured), default=None)
    awake_us = max((cpu.awake_us for cpu in measured), default=None)
    lost_us = idle_us - awake_us if idle_us is not None and awake_us is not None else None
    found = _found(idle_us, awake_us)
    sleeps = lost_us is not None and lost_us >= WORTH_AVOIDING_US
    awake = sleeps if keep_awake == "auto" else keep_awake == "on"
    # A polling client has a CPU of its own all the time; the server must have as many beside it.
    room = 2 * most_clients <= n_cpus
    polls = sleeps and not awake and room if busy_poll == "auto" else busy_poll == "on"
    reasons = [found]
    if keep_awake == "auto":
        verb = "are kept awake" if awake else "may sleep"
        reasons.append(f"CPUs {verb}")
    else:
        reasons.append(f'the experiment says keep_awake = "{keep_awake}"')
    if busy_poll != "auto":
        reasons.append(f'the experiment says busy_poll = "{busy_poll}"')
    elif polls:
        reasons.append("clients poll instead of sleeping")
    return Control(awake, polls, "; ".join(reasons), idle_us, awake_us)


def _found(idle_us: float | None, awake_us: float | None) -> str:
    if idle_us is None or awake_us is None:
        return "how long a CPU takes to wake could not be measured"
    return f"a sleeping CPU takes {idle_us:.0f} µs to run again, one kept awake {awake_us:.0f} µs"
