"""Find the properties of this host that make results less trustworthy, and suggest what to do.

docs/doctor.md explains the checks in the same order.
"""

from collections.abc import Sequence
from pathlib import Path

from millrace.app.host_activity import Activity, observe
from millrace.app.host_checks import CHECKS, ObservedHost
from millrace.errors import MillraceError
from millrace.loadgen import cpu_idle
from millrace.loadgen.cpu_idle import IdleLatency
from millrace.model.host_facts import Finding, HostFacts


def examine(
    facts: HostFacts, work_dir: Path, *, root: Path = Path("/"), sample_s: float = 0.5
) -> tuple[Finding, ...]:
    """Observe the host for ``sample_s`` seconds, then check it.

    ``facts`` are those of ``host.facts``; ``work_dir`` is the directory of instances' data.
    """
    return judge(facts, observe(root, sample_s), work_dir, _measured_wakeups())


def _measured_wakeups() -> tuple[IdleLatency, ...]:
    """Return wake-up latencies; none where they cannot be measured.

    That is a finding, not an error.
    """
    try:
        return cpu_idle.measure()
    except MillraceError:
        return ()


def judge(
    facts: HostFacts, activity: Activity, work_dir: Path, latencies: Sequence[IdleLatency]
) -> tuple[Finding, ...]:
    """Run every check on what was observed; observes nothing itself."""
    host = ObservedHost(facts, activity, work_dir, tuple(latencies))
    return tuple(check.finding(host) for check in CHECKS)
