"""Find the properties of this host that make results less trustworthy, and suggest remedies.

Each check is a plain function from the host's facts, or from its observed activity, to one finding.
docs/doctor.md explains the checks in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from millrace.app.host_activity import Activity, Process, observe
from millrace.errors import MillraceError
from millrace.loadgen import cpu_idle
from millrace.loadgen.cpu_idle import IdleLatency
from millrace.trial.cpu_idle import WORTH_AVOIDING_US

Status = Literal["ok", "warn", "problem", "unknown"]
Facts = Mapping[str, Any]

_GIB = 1 << 30
_NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "ceph", "gluster", "9p", "virtiofs", "fuse", "afs")
_SHOWN_CPUS = 4
_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    ``why`` says how it can harm results. ``hint`` is the remedy, a command line where there is one;
    None where nothing has to be done.
    """

    check: str
    status: Status
    observed: str
    why: str
    hint: str | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the finding as plain data, for the store and for JSON."""
        return asdict(self)


def examine(
    facts: Facts, work_dir: Path, *, root: Path = Path("/"), sample_s: float = 0.5
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
    facts: Facts, seen: Activity, work_dir: Path, latencies: Sequence[IdleLatency]
) -> tuple[Finding, ...]:
    """Run every check on the given facts and activity; observes nothing itself."""
    return (
        _governor(facts["frequency"]),
        _turbo(facts["frequency"]),
        _other_load(facts, seen),
        _databases(seen),
        _virtual_machine(facts["virtualisation"]),
        _steal(seen),
        _wakeup(latencies),
        _cpu_limit(facts),
        _swap(facts["memory"]),
        _huge_pages(facts["huge_pages"]),
        _numa(facts["numa"]),
        _filesystem(facts, work_dir),
        _free_disk(facts["filesystem"], work_dir),
        _clock_source(facts["clock_source"]),
        _address_layout(facts["aslr"]),
        _power(seen),
        _heat(seen),
        _perf(seen),
        _tracing(seen),
        _open_files(seen),
        _processes(seen),
        _confinement(seen),
    )


def _finding(
    check: str, why: str, observed: str, status: Status, hint: str | None = None
) -> Finding:
    """Return a finding whose hint is present only where something is wrong."""
    needed = hint if status in ("warn", "problem") else None
    return Finding(check, status, observed, why, needed)


def _governor(frequency: Facts) -> Finding:
    why = "other governors change the CPU's frequency with the load of the moment before"
    governor = frequency["governor"]
    if governor is None:
        return _finding("governor", why, "this host does not show one", "unknown")
    return _finding(
        "governor",
        why,
        f"{governor} ({frequency['driver'] or 'unknown driver'})",
        "ok" if governor == "performance" else "warn",
        "sudo cpupower frequency-set --governor performance",
    )


def _turbo(frequency: Facts) -> Finding:
    why = "how fast a CPU may run above its nominal frequency depends on heat and on its neighbours"
    turbo = frequency["turbo"]
    if turbo is None:
        return _finding("turbo", why, "this host does not show it", "unknown")
    switch = (
        "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        if (frequency["driver"] or "").startswith("intel")
        else "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
    )
    return _finding("turbo", why, "on" if turbo else "off", "warn" if turbo else "ok", switch)


def _other_load(facts: Facts, seen: Activity) -> Finding:
    why = "what else runs takes CPU, caches and disk from the server under test"
    if seen.busy_share is None:
        return _finding("other load", why, "this host does not show it", "unknown")
    average = facts["load"]["average_1min"]
    observed = f"CPUs {seen.busy_share:.0%} busy now, load {average} over a minute"
    if seen.busiest:
        observed += "; " + ", ".join(f"{_named(p)} {p.share:.0%}" for p in seen.busiest)
    status: Status = "ok" if seen.busy_share < 0.05 else "warn"
    if seen.busy_share >= 0.25:
        status = "problem"
    return _finding("other load", why, observed, status, "stop it: `top` shows what it is")


def _databases(seen: Activity) -> Finding:
    why = "they wake up in the background, hold memory and write to the same disk"
    names = ", ".join(map(_named, seen.databases))
    return _finding(
        "other databases",
        why,
        names or "none running",
        "warn" if seen.databases else "ok",
        "stop them while you measure, such as: sudo systemctl stop mysql mariadb postgresql",
    )


def _named(process: Process) -> str:
    return f"{process.name} (pid {process.pid})"


def _virtual_machine(virtualisation: Facts) -> Finding:
    why = "neighbours on the same machine share its CPUs, caches and disks, and cannot be seen"
    kinds = []
    if virtualisation["virtual_machine"]:
        detail = virtualisation["hypervisor"] or virtualisation["product"]
        kinds.append(f"virtual machine ({detail})" if detail else "virtual machine")
    if virtualisation["container"]:
        kinds.append(f"container ({virtualisation['container']})")
    return _finding(
        "virtual machine",
        why,
        " in a ".join(reversed(kinds)) or "none seen",
        "warn" if kinds else "ok",
        "prefer a machine of your own; here, use more blocks and distrust small differences",
    )


def _steal(seen: Activity) -> Finding:
    why = "time the hypervisor gave to others while this host wanted to run"
    if seen.steal_share is None:
        return _finding("steal time", why, "this host does not show it", "unknown")
    status: Status = "ok" if seen.steal_share < 0.005 else "warn"
    if seen.steal_share >= 0.05:
        status = "problem"
    return _finding(
        "steal time",
        why,
        f"{seen.steal_share:.1%} of CPU time",
        status,
        "move to an instance with CPUs of its own, or measure when the machine is quieter",
    )


def _wakeup(latencies: Sequence[IdleLatency]) -> Finding:
    why = "a CPU that slept is late in every answer to few clients, and hides a server's own time"
    if not latencies:
        return _finding("CPU wake-up", why, "it could not be measured", "unknown")
    observed = ", ".join(
        f"CPU {cpu.cpu} {cpu.idle_us:.0f} µs ({cpu.awake_us:.0f} kept awake)"
        for cpu in sorted(latencies, key=lambda cpu: -cpu.idle_us)[:_SHOWN_CPUS]
    )
    if len(latencies) > _SHOWN_CPUS:
        observed += f", {len(latencies) - _SHOWN_CPUS} more that are quicker"
    late = any(cpu.idle_us - cpu.awake_us >= WORTH_AVOIDING_US for cpu in latencies)
    hint = 'nothing: trials with few clients disable idle states (disable_idle_states = "auto")'
    return _finding("CPU wake-up", why, observed, "warn" if late else "ok", hint)


def _cpu_limit(facts: Facts) -> Finding:
    why = "a control group that used up its share is stopped until the next period"
    cpus = facts["limits"]["cpus"]
    return _finding(
        "CPU limit",
        why,
        "none" if cpus is None else f"{cpus:g} of {facts['cpu']['threads']} CPUs",
        "ok" if cpus is None else "warn",
        "pin CPUs instead of limiting them, such as: docker run --cpuset-cpus 0-3",
    )


def _swap(memory: Facts) -> Finding:
    why = "a server whose memory was swapped out waits for the disk at moments nobody chose"
    swap, used = memory["swap_bytes"], memory["swap_used_bytes"]
    if swap is None or used is None:
        return _finding("swap", why, "this host does not show it", "unknown")
    if swap == 0:
        return _finding("swap", why, "none", "ok")
    swappiness = memory["swappiness"]
    in_use = used > 0.01 * swap
    eager = swappiness is None or swappiness > 10
    return _finding(
        "swap",
        why,
        f"{used / _GIB:.1f} of {swap / _GIB:.1f} GiB in use, swappiness {swappiness}",
        "warn" if in_use or eager else "ok",
        "sudo sysctl vm.swappiness=1" + ("; sudo swapoff -a && sudo swapon -a" if in_use else ""),
    )


def _huge_pages(huge_pages: Facts) -> Finding:
    why = "with `always`, memory is merged into huge pages by chance, and stalls while it happens"
    setting = huge_pages["transparent"]
    if setting is None:
        return _finding("transparent huge pages", why, "this kernel has none", "ok")
    return _finding(
        "transparent huge pages",
        why,
        setting,
        "warn" if setting == "always" else "ok",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


def _numa(numa: Facts) -> Finding:
    why = "memory of another node is slower, and where memory lands differs from start to start"
    nodes = numa["nodes"]
    if nodes is None:
        return _finding("NUMA", why, "this host does not show it", "unknown")
    balancing = {True: ", balancing on", False: ", balancing off", None: ""}[numa["balancing"]]
    return _finding(
        "NUMA",
        why,
        "1 node" if nodes == 1 else f"{nodes} nodes{balancing}",
        "ok" if nodes == 1 else "warn",
        "keep to one node: numactl --cpunodebind=0 --membind=0 millrace run FILE",
    )


def _filesystem(facts: Facts, work_dir: Path) -> Finding:
    why = "a load is mostly writes: where they go decides what they cost"
    filesystem = facts["filesystem"]
    kind, options = filesystem["type"], filesystem["options"] or []
    if kind is None:
        return _finding("filesystem", why, f"{work_dir}: not seen", "unknown")
    disk = {True: ", rotating disk", False: ", solid-state disk", None: ""}
    observed = f"{kind} at {filesystem['mount_point']}"
    if not facts["virtualisation"][
        "virtual_machine"
    ]:  # the values of virtual disks are meaningless
        observed += disk[filesystem["rotational"]]
    doubts = {
        "in memory, so nothing is durable": kind in ("tmpfs", "ramfs"),
        "layers of a container image": kind in ("overlay", "aufs"),
        "over a network or another program": kind.startswith(_NETWORK_FILESYSTEMS),
        "barriers are off, so fsync promises nothing": "nobarrier" in options
        or "barrier=0" in options,
        "every read writes an access time": "strictatime" in options,
    }
    seen = [doubt for doubt, holds in doubts.items() if holds]
    return _finding(
        "filesystem",
        why,
        "; ".join([observed, *seen]),
        "warn" if seen else "ok",
        "put the data on a local ext4 or XFS with default options: MILLRACE_WORK=/path/there",
    )


def _free_disk(filesystem: Facts, work_dir: Path) -> Finding:
    why = "a nearly full filesystem is slower, and a full one ends the trial"
    free, total = filesystem["free_bytes"], filesystem["total_bytes"]
    share = free / total if total else 0.0
    status: Status = "ok" if free >= 10 * _GIB and share >= 0.1 else "warn"
    if free < _GIB:
        status = "problem"
    return _finding(
        "free disk",
        why,
        f"{free / _GIB:,.1f} GiB ({share:.0%}) free for {work_dir}",
        status,
        "free some, or put the data elsewhere: MILLRACE_WORK=/path/there",
    )


def _clock_source(source: str | None) -> Finding:
    why = "servers read the clock all the time; a slow clock source makes each reading a call"
    if source is None:
        return _finding("clock source", why, "this host does not show it", "unknown")
    available = "/sys/devices/system/clocksource/clocksource0"
    return _finding(
        "clock source",
        why,
        source,
        "warn" if source in _SLOW_CLOCKS else "ok",
        f"choose tsc or kvm-clock if {available}/available_clocksource has it: "
        f"echo tsc | sudo tee {available}/current_clocksource",
    )


def _address_layout(aslr: int | None) -> Finding:
    why = (
        "each trial starts its server anew, so a random address layout averages out over blocks; "
        "without it every trial has the same lucky or unlucky one"
    )
    if aslr is None:
        return _finding("address layout", why, "this host does not show it", "unknown")
    observed = {0: "fixed", 1: "random, but for the heap", 2: "random"}.get(aslr, str(aslr))
    hint = "sudo sysctl kernel.randomize_va_space=2"
    return _finding("address layout", why, observed, "ok" if aslr else "warn", hint)


def _power(seen: Activity) -> Finding:
    why = "on battery the CPU is held back"
    observed = {None: "no battery", True: "on battery", False: "mains"}[seen.on_battery]
    status: Status = "problem" if seen.on_battery else "ok"
    return _finding("power", why, observed, status, "plug it in")


def _heat(seen: Activity) -> Finding:
    why = "a hot CPU slows itself down, and later trials more than earlier ones"
    if seen.throttled is None:
        return _finding("heat", why, "this host does not show it", "unknown")
    return _finding(
        "heat",
        why,
        f"slowed down {seen.throttled:,} times since it was started",
        "warn" if seen.throttled else "ok",
        "cool it better, or lower its highest frequency: sudo cpupower frequency-set --max 2GHz",
    )


def _perf(seen: Activity) -> Finding:
    why = "without it a difference can be measured, but not traced to functions"
    level = seen.perf_paranoid
    if level is None:
        return _finding("perf", why, "this kernel has no performance events", "unknown")
    forbidden = level > 1 and not seen.is_root
    missing = seen.perf_program is None
    program = seen.perf_program or "not installed, or not for this kernel"
    as_root = " (as root it does not matter)" if seen.is_root else ""
    remedies = []
    if forbidden:
        remedies.append("sudo sysctl kernel.perf_event_paranoid=1")
    if missing:
        remedies.append("install perf (Debian: sudo apt install linux-perf)")
    return _finding(
        "perf",
        why,
        f"{program}, perf_event_paranoid {level}{as_root}",
        "warn" if forbidden or missing else "ok",
        "; ".join(remedies),
    )


def _tracing(seen: Activity) -> Finding:
    why = "without it, short waits of threads are estimated from samples, which is less exact"
    if seen.no_tracing is None:
        return _finding("kernel tracing", why, "the scheduler's events can be traced", "ok")
    message, hint = seen.no_tracing.message, seen.no_tracing.hint
    return _finding("kernel tracing", why, message, "warn" if hint else "unknown", hint)


def _open_files(seen: Activity) -> Finding:
    why = "a server that gets fewer files than it asks for makes its caches smaller, silently"
    line = "* hard nofile 1048576"
    return _limit("open files", why, seen.open_files, at_least=65_535, key="nofile", line=line)


def _processes(seen: Activity) -> Finding:
    why = "each connection is a thread, and threads count as processes"
    line = "* - nproc 65536"
    return _limit("processes", why, seen.processes, at_least=4_096, key="nproc", line=line)


def _limit(
    name: str, why: str, limit: int | None, *, at_least: int, key: str, line: str
) -> Finding:
    """Return the finding on a limit of this user's processes, None where it is unlimited."""
    return _finding(
        name,
        why,
        f"at most {'unlimited' if limit is None else format(limit, ',')}",
        "ok" if limit is None or limit >= at_least else "warn",
        f"raise `{key}` in /etc/security/limits.conf: {line}; then log in again",
    )


def _confinement(seen: Activity) -> Finding:
    why = "a hostile server could leave a program that runs under the user id of a later server"
    as_this_user = "they run as the user who runs millrace"
    confined = as_this_user if seen.unconfined is None else "they write in their own directories"
    return _finding(
        "confinement",
        why,
        "; ".join(seen.unconfined or ()) or confined,
        "warn" if seen.unconfined else "ok",
        "run only servers that you trust here, or run millrace as an ordinary user; a container "
        "allows mount namespaces with --cap-add SYS_ADMIN",
    )
