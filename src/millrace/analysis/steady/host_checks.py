"""Gates on what the host did to a trial: it was suspended, or its CPUs were taken away.

They hold for every trial, also one that is too short to tell or that need not be steady: a second
in which nothing ran is in its figures all the same. Trials of an older millrace have no such facts,
and no such gates.
"""

from __future__ import annotations

from millrace.analysis.steady.checks import Result, SteadyCheck
from millrace.model.instance_facts import HostTimeFact

SUSPENSION, STEAL = "suspension", "steal time"
HOST_CHECKS = frozenset((SUSPENSION, STEAL))

MOST_SUSPENDED_S = 0.1
MOST_STEP_S = 0.5  # of the wall clock; corrections of the time are slower or smaller
MOST_STOLEN = 0.05  # of the time of the trial's CPUs
_SHORTEST_S = 8.0  # steal comes in bursts: less shows no share


def host_checks(fact: HostTimeFact | None) -> tuple[SteadyCheck, ...]:
    """Return the checks on the record of ``trial.host_time``; none where it is empty."""
    if fact is None:
        return ()
    return _suspension(fact), _steal(fact)


def _suspension(fact: HostTimeFact) -> SteadyCheck:
    slept_s, step_s = fact.suspended_s, fact.clock_step_s
    fails = slept_s > MOST_SUSPENDED_S or step_s > MOST_STEP_S
    return SteadyCheck(
        SUSPENSION,
        "failed" if fails else "passed",
        "the machine was suspended, or its clock was set forward",
        f"the machine slept for {slept_s:.1f} s in the measured part, and its wall clock went "
        f"{step_s:+.1f} s beside that",
        "measure again while nothing suspends, moves or backs up this machine, nor sets its clock",
    )


def _steal(fact: HostTimeFact) -> SteadyCheck:
    share, measured_s = fact.steal_share, fact.measured_s
    result: Result = "unknown"
    figures = "the kernel does not count it, or the measured part is too short"
    if share is not None and measured_s >= _SHORTEST_S:
        result = "failed" if share > MOST_STOLEN else "passed"
        figures = f"the hypervisor ran others in {share * 100:.1f} % of the CPUs' time"
    return SteadyCheck(
        STEAL,
        result,
        "the hypervisor took the CPUs away",
        figures,
        "measure on a host whose CPUs are not shared, or when its neighbours are idle",
    )
