"""Decide what a run does about idle CPUs: one policy, fixed before the first trial.

On an idle virtual machine a halted CPU takes tens of microseconds to run again, and even one that
is kept awake receives its signal late. With few clients that delay is in every operation, the same
for all servers, and hides a part of their difference; whether it occurs depends on who else uses
the host. Three settings help:

a shared CPU    The only client and the server's thread of its connection take turns on one CPU, so
                that no other CPU has to wake up; the server's other threads have the other CPUs.
kept awake      Pollers of the idle class keep the CPUs from halting.
busy polling    Clients poll for answers instead of sleeping, on CPUs of their own.

The last two take CPU time, which nobody misses where CPUs are to spare, and which the server lacks
where they are not: current kernels give turns to pollers of the idle class, too. So they apply to
all trials of a run or to none, by its largest number of clients (or of connections that load, where
loading is measured). Only single clients share a CPU, where nothing compares them with more. Single
clients that share a CPU and only read wake no other one; a write may wait for the server's other
threads, such as those that write the log, so CPUs stay awake for it.

In slices, millrace pins the threads that serve several clients to the CPUs in turn, in the same way
on all servers. The kernel leaves a thread where it ran last, so threads that sleep between the
slices of their server keep the CPUs that they have by chance, and one of two equal servers would be
faster by a tenth or more until the round ends.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass

from millrace.errors import MillraceError
from millrace.loadgen import cpu_idle
from millrace.loadgen.cpu_idle import DisabledIdleStates, IdleLatency
from millrace.loadgen.events import DriveResult
from millrace.model.instance_facts import CpuIdleFact
from millrace.store.records import StoredRun
from millrace.trial.resolved_workload import ResolvedWorkload
from millrace.workloads.settings import Switch

# A quick server answers a client in about 30 microseconds: less than this is less than a tenth.
WORTH_AVOIDING_US = 3.0

# A client that polls never sleeps: the server's background work, or its work after a read from the
# disk, would wait behind the client for milliseconds, so it must be able to run elsewhere.
_AMPLE = 4


@dataclass(frozen=True)
class CpuIdleSettings:
    """The settings of a trial about idle CPUs, with the ``reason``."""

    disable_idle_states: bool
    busy_poll: bool
    client_cpus: tuple[int, ...] | None  # for polling clients; None: as the experiment says
    shared_cpu: int | None  # of the only client and its server thread, if any
    reason: str
    idle_wakeup_us: float | None  # a median of the slowest CPU, if measured
    awake_wakeup_us: float | None
    server_cpus: tuple[int, ...] | None = None  # several clients' threads are pinned there in turn


@dataclass(frozen=True)
class CpuIdlePolicy:
    """The experiment's parameters and the measured latencies, which decide for a run's trials."""

    disable_idle_states: Switch
    busy_poll: Switch | None  # None, like the next one, where no client is driven
    colocate_client: Switch | None
    idle_us: float | None
    awake_us: float | None
    cpus: tuple[int, ...]  # that this process may use
    most_clients: int  # of a trial
    compares_clients: bool = False  # of several numbers, which share no CPU
    writes: bool = False  # in some trial
    places_threads: bool = True  # else single clients share no CPU either

    def settings(self, clients: int, *, in_slices: bool = False) -> CpuIdleSettings:
        """Return the settings of a trial with this number of clients."""
        spare_cpus = 2 * self.most_clients <= len(self.cpus)
        ample_cpus = _AMPLE * self.most_clients <= len(self.cpus)
        busy_poll = _decided(self.busy_poll, automatic=self._halting_costs and ample_cpus)
        shares_cpu = clients == 1 and self._colocates(busy_poll=busy_poll)
        wakes_others = self.writes or not (self.most_clients == 1 and shares_cpu)
        pins = in_slices and clients > 1 and self._pins_threads(busy_poll=busy_poll)
        client_cpus = self.cpus[-1:] if pins else None
        return CpuIdleSettings(
            disable_idle_states=_decided(
                self.disable_idle_states,
                automatic=self._halting_costs and spare_cpus and wakes_others,
            ),
            busy_poll=busy_poll,
            # Else the kernel may put client and server on one CPU, and in one trial more than
            # another.
            client_cpus=self.cpus[-clients:] if busy_poll and ample_cpus else client_cpus,
            shared_cpu=self.cpus[-1] if shares_cpu else None,
            server_cpus=self.cpus if pins else None,
            reason="; ".join(self._reasons(spare_cpus=spare_cpus)),
            idle_wakeup_us=self.idle_us,
            awake_wakeup_us=self.awake_us,
        )

    @property
    def _halting_costs(self) -> bool:
        """True where a CPU takes noticeably longer to run again after it halted."""
        if self.idle_us is None or self.awake_us is None:
            return False
        return self.idle_us - self.awake_us >= WORTH_AVOIDING_US

    def _colocates(self, *, busy_poll: bool) -> bool:
        """Return whether single clients share a CPU with the server's thread of the connection."""
        if len(self.cpus) < 2 or self.compares_clients or busy_poll or not self.places_threads:
            return False
        slow_to_wake = self.awake_us is not None and self.awake_us >= WORTH_AVOIDING_US
        return _decided(self.colocate_client, automatic=slow_to_wake)

    def _pins_threads(self, *, busy_poll: bool) -> bool:
        """Return whether the server's threads of several clients in slices get CPUs."""
        if len(self.cpus) < 2 or busy_poll or not self.places_threads:
            return False
        return _decided(self.colocate_client, automatic=True)

    def _reasons(self, *, spare_cpus: bool) -> Iterator[str]:
        yield self._latencies()
        if (
            self._halting_costs
            and not spare_cpus
            and "auto" in (self.disable_idle_states, self.busy_poll)
        ):
            what, n_cpus = "clients" if self.busy_poll else "connections", len(self.cpus)
            yield f"{self.most_clients} {what} leave none of the {n_cpus} CPUs to spare"
        for name in ("disable_idle_states", "busy_poll", "colocate_client"):
            if (setting := getattr(self, name)) in ("on", "off"):
                yield f'the experiment says {name} = "{setting}"'

    def _latencies(self) -> str:
        if self.idle_us is None or self.awake_us is None:
            return "how long a CPU takes to wake could not be measured"
        return (
            f"a sleeping CPU takes {self.idle_us:.0f} µs to run again, "
            f"one kept awake {self.awake_us:.0f} µs"
        )


def _decided(setting: Switch | None, *, automatic: bool) -> bool:
    return automatic if setting == "auto" else setting == "on"


def policy_of(
    workloads: Collection[ResolvedWorkload],
    compared: str,
    earlier: StoredRun | None,
    *,
    placeable: bool,
) -> CpuIdlePolicy | None:
    """Return a run's policy, by earlier latencies or new ones; None without ``connections``."""
    numbers = [each.connections for each in workloads if each.connections is not None]
    if not numbers:
        return None
    idle_us, awake_us = _earlier(earlier) or _measured()
    workload = next(iter(workloads))  # parameters, which all treatments share
    clients = workload.client_settings if workload.drives else None
    return CpuIdlePolicy(
        disable_idle_states=workload.load_settings.disable_idle_states,
        busy_poll=None if clients is None else clients.busy_poll,
        colocate_client=None if clients is None else clients.colocate_client,
        idle_us=idle_us,
        awake_us=awake_us,
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        most_clients=max(numbers),
        compares_clients=compared == "clients",
        writes=any(each.writes for each in workloads),
        places_threads=placeable,
    )


def fact(
    settings: CpuIdleSettings,
    awake: DisabledIdleStates | None = None,
    driven: DriveResult | None = None,
) -> CpuIdleFact:
    """Return the fact of the settings and, once known, of their effect on CPUs and clients."""
    effect: dict[str, object] = {}
    if awake is not None:
        effect["kept_awake_by"] = asdict(awake)
    if driven is not None:
        effect |= {"polled": driven.busy_poll, "on_cpus": driven.cpus}
    return CpuIdleFact.model_validate({**asdict(settings), **effect})


def slowest(measured: Sequence[IdleLatency]) -> tuple[float | None, float | None]:
    """Return the slowest CPU's wake-up latency from sleep and when kept awake, in microseconds."""
    return (
        max((cpu.idle_us for cpu in measured), default=None),
        max((cpu.awake_us for cpu in measured), default=None),
    )


def _earlier(run: StoredRun | None) -> tuple[float | None, float | None] | None:
    for attempt in run.attempts if run is not None else ():
        for instance in attempt.instances:
            recorded = instance.facts.cpu_idle
            if recorded is not None:
                return recorded.idle_wakeup_us, recorded.awake_wakeup_us
    return None


def _measured() -> tuple[float | None, float | None]:
    try:
        return slowest(cpu_idle.measure())
    except MillraceError:
        return None, None
