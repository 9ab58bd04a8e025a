"""Likely causes in the servers' environment: other processes, the hypervisor, limits, memory."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from millrace.analysis.explain.breakdown_model import PartKey
from millrace.analysis.explain.causes.evidence import CPU, Evidence, SideEvidence, is_larger
from millrace.analysis.explain.causes.model import Finding, count_text, listed
from millrace.analysis.explain.observations import Observed, figure_of

# A disturbance of only one side says nothing of the servers, so it ranks first.
_WEIGHT = 4.0

_OTHER_CPUS = 0.1
_STOLEN = 0.01  # of the CPU time of the host
_SLOWER_CLOCK = 0.05
_STALLED = 0.01  # of the time, for memory
_SWAPPED_BYTES = 16e6

# What a thread does more of where it has to share CPUs.
_OF_CPUS: tuple[PartKey, ...] = ("runnable", "client_wire", "network_send", *CPU)


@dataclass(frozen=True)
class _Disturbance:
    """Something that can be read of each trial: more of it than ``by`` disturbs."""

    about: str
    ask: Callable[[Observed], float | None]
    by: float
    parts: tuple[PartKey, ...]
    clause: str
    text: Callable[[float], str]


def environment(evidence: Evidence) -> Iterator[Finding]:
    """Yield the disturbances and limits that affected only the worse side, or affected it more."""
    for each in _DISTURBANCES:
        better, worse = evidence.better.by_block(each.ask), evidence.worse.by_block(each.ask)
        if is_larger(better, worse, by=each.by):
            less, more = (sum(side.values()) / len(side) for side in (better, worse))
            a, b = evidence.as_a_and_b(each.text(less), each.text(more))
            clause = each.clause.format(a=a, b=b, who=_others(evidence.worse))
            only_worse = min((more - less) / more, 1.0) if more > 0 else 1.0
            yield from _found(evidence, each.about, clause, each.parts, only_worse)
    yield from _limits(evidence)


def _found(
    evidence: Evidence, about: str, clause: str, parts: tuple[PartKey, ...], only_worse: float = 1.0
) -> Iterator[Finding]:
    us = evidence.growth_of(parts)
    if us > 0:
        weight = _WEIGHT * only_worse**2
        yield Finding(
            kind="environment",
            about=about,
            clause=clause,
            us=us,
            consequence=listed(evidence.growth_texts(parts)),
            weight=weight,
        )


def _per_s(amount: float | None, observed: Observed) -> float | None:
    """Return an amount of the window, of each of its seconds."""
    return None if amount is None or not observed.window_s else amount / observed.window_s


def _stalled(observed: Observed) -> float | None:
    pressure = observed.host.pressure
    return None if pressure is None else _per_s(pressure.memory_full_s, observed)


def _slowness(observed: Observed) -> float | None:
    """Return minus the logarithm of the clock in MHz: a difference of 0.05 is 5 % less."""
    clock = observed.host.frequency_mhz
    return -math.log(clock.mean) if clock is not None and clock.mean else None


def _stolen(observed: Observed) -> float | None:
    cpu, cpus = observed.host.cpu, observed.host.cpus
    stolen = None if cpu is None else _per_s(cpu.steal_s, observed)
    return None if stolen is None or not cpus else stolen / cpus


def _others(side: SideEvidence) -> str:
    used: defaultdict[str, float] = defaultdict(float)
    for trial in side.trials:
        for other in trial.observed.host.others or ():
            used[str(other.name)] += other.cpu_s or 0.0
    most = sorted(used, key=lambda name: -used[name])[:2]
    names = listed([name for name in most if used[name] > 0])
    return f" (most of it {names})" if names else ""


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


_DISTURBANCES = (
    _Disturbance(
        "other processes", lambda observed: _per_s(observed.host.other_cpu_s, observed),
        _OTHER_CPUS, _OF_CPUS,
        "processes that belong neither to the server nor to millrace used {a} CPUs while A was "
        "measured and {b} while B was{who}", count_text,
    ),
    _Disturbance(
        "stolen CPU time", _stolen, _STOLEN, _OF_CPUS,
        "the hypervisor took {a} of the host's CPU time from A's trials and {b} from B's", _percent,
    ),
    _Disturbance(
        "clock of the CPUs", _slowness, _SLOWER_CLOCK, _OF_CPUS,
        "the CPUs ran at {a} MHz while A was measured and at {b} MHz while B was",
        lambda slowness: f"{math.exp(-slowness):,.0f}",
    ),
    _Disturbance(
        "memory pressure", _stalled, _STALLED, ("data_read", "data_write", "lock", *_OF_CPUS),
        "processes of the host stood still for want of memory {a} of the time in A and {b} in B",
        _percent,
    ),
    _Disturbance(
        "swapping", lambda observed: figure_of(observed.host.memory, "swap_used_bytes"),
        _SWAPPED_BYTES, ("data_read", *_OF_CPUS),
        "the host had {a} MB swapped out in A's trials and {b} MB in B's",
        lambda swapped_bytes: count_text(swapped_bytes / 1e6),
    ),
)  # fmt: skip


def _limits(evidence: Evidence) -> Iterator[Finding]:
    """Yield fewer CPUs for the server, by affinity or by quota."""
    both = evidence.better_and_worse(lambda side: side.mean(_allowed_cpus))
    if both is None or both[1] >= both[0]:
        return
    a, b = evidence.as_a_and_b(*map(count_text, both))
    clause = f"the server may use {a} CPUs in A and {b} in B (affinity or quota)"
    yield from _found(evidence, "CPU limit", clause, ("runnable", "lock", *CPU))


def _allowed_cpus(observed: Observed) -> float | None:
    """Return the CPU time per second that the server may use; None where that was not recorded."""
    limits = observed.host.server_limits
    known = () if limits is None else (limits.cpus, limits.quota_cpus)
    return min(filter(None, known), default=None)
