"""Find what makes results on this host less trustworthy; docs/doctor.md explains each check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from millrace.app.host_activity import Activity, observe
from millrace.errors import MillraceError
from millrace.loadgen import cpu_idle
from millrace.model.host_facts import Finding, HostFacts
from millrace.quantities import counted
from millrace.trial.cpu_idle import WORTH_AVOIDING_US


@dataclass(frozen=True)
class ObservedHost:
    """The state of a host at one time.

    ``work_dir`` is the directory of the instances' data; ``latencies`` are the wake-up latencies of
    CPUs, empty if they could not be measured.
    """

    facts: HostFacts
    activity: Activity
    work_dir: Path
    latencies: tuple[cpu_idle.IdleLatency, ...]


@dataclass(frozen=True)
class Result:
    """The result of a rule; ``hint`` is what to do, None if nothing is wrong."""

    observed: str
    status: Literal["ok", "warn", "problem", "unknown"]
    hint: str | None = None


Rule = Callable[[ObservedHost], Result]
CHECKS: list[tuple[str, str, Rule]] = []  # as defined: the order of docs/doctor.md


def check(name: str, why: str) -> Callable[[Rule], Rule]:
    """Return a decorator that adds a rule as a check; ``why`` is how it can harm results."""

    def add(rule: Rule) -> Rule:
        CHECKS.append((name, why, rule))
        return rule

    return add


NOT_SHOWN = Result("this host does not show it", "unknown")


def warn_if(is_harmful: object, observed: str, hint: str) -> Result:
    """Return a warning if ``is_harmful``, else an ok result without the hint."""
    return Result(observed, "warn", hint) if is_harmful else Result(observed, "ok")


def graded(observed: str, hint: str, *, is_ok: bool, is_problem: bool) -> Result:
    """Return a result with status ok or problem, or else a warning."""
    if is_ok:
        return Result(observed, "ok")
    return Result(observed, "problem" if is_problem else "warn", hint)


_GIB = 1 << 30
_NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "ceph", "gluster", "9p", "virtiofs", "fuse", "afs")
_SHOWN_CPUS = 4
_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")


@check("governor", "other governors change the CPU's frequency with its recent load")
def _governor(host: ObservedHost) -> Result:
    frequency = host.facts.frequency
    if frequency.governor is None:
        return Result("this host does not show one", "unknown")
    return warn_if(
        frequency.governor != "performance",
        f"{frequency.governor} ({frequency.driver or 'unknown driver'})",
        "sudo cpupower frequency-set --governor performance",
    )


@check(
    "turbo",
    "how fast a CPU may run above its nominal frequency depends on heat and on its neighbours",
)
def _turbo(host: ObservedHost) -> Result:
    frequency = host.facts.frequency
    if frequency.turbo is None:
        return NOT_SHOWN
    switch = (
        "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        if (frequency.driver or "").startswith("intel")
        else "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
    )
    return warn_if(frequency.turbo, "on" if frequency.turbo else "off", switch)


@check("other load", "other programs take CPU, caches and disk from the server under test")
def _other_load(host: ObservedHost) -> Result:
    activity = host.activity
    if activity.busy_share is None:
        return NOT_SHOWN
    average = host.facts.load.average_1min
    observed = f"CPUs {activity.busy_share:.0%} busy now, load {average} over a minute"
    busiest = ", ".join(f"{p} {p.share:.0%}" for p in activity.busiest)
    return graded(
        f"{observed}; {busiest}" if busiest else observed,
        "stop it: `top` shows what it is",
        is_ok=activity.busy_share < 0.05,
        is_problem=activity.busy_share >= 0.25,
    )


@check("other databases", "they wake up in the background, hold memory and write to the same disk")
def _databases(host: ObservedHost) -> Result:
    databases = host.activity.databases
    return warn_if(
        databases,
        ", ".join(map(str, databases)) or "none running",
        "stop them while you measure, such as: sudo systemctl stop mysql mariadb postgresql",
    )


@check(
    "virtual machine",
    "neighbours on the same machine share its CPUs, caches and disks, and cannot be seen",
)
def _virtual_machine(host: ObservedHost) -> Result:
    virtualisation = host.facts.virtualisation
    kinds = []
    if virtualisation.virtual_machine:
        detail = virtualisation.hypervisor or virtualisation.product
        kinds.append(f"virtual machine ({detail})" if detail else "virtual machine")
    if virtualisation.container:
        kinds.append(f"container ({virtualisation.container})")
    return warn_if(
        kinds,
        " in a ".join(reversed(kinds)) or "none seen",
        "prefer a machine of your own; here, use more blocks and distrust small differences",
    )


@check("steal time", "the hypervisor ran other machines while this host needed the CPU")
def _steal(host: ObservedHost) -> Result:
    share = host.activity.steal_share
    if share is None:
        return NOT_SHOWN
    return graded(
        f"{share:.1%} of CPU time",
        "move to an instance with CPUs of its own, or measure when the machine is quieter",
        is_ok=share < 0.005,
        is_problem=share >= 0.05,
    )


@check(
    "CPU wake-up",
    "with few clients, CPUs sleep between requests; waking up adds to each response time",
)
def _wakeup(host: ObservedHost) -> Result:
    latencies = host.latencies
    if not latencies:
        return Result("it could not be measured", "unknown")
    observed = ", ".join(
        f"CPU {cpu.cpu} {cpu.idle_us:.0f} µs ({cpu.awake_us:.0f} kept awake)"
        for cpu in sorted(latencies, key=lambda cpu: -cpu.idle_us)[:_SHOWN_CPUS]
    )
    if len(latencies) > _SHOWN_CPUS:
        observed += f", {len(latencies) - _SHOWN_CPUS} faster ones"
    return warn_if(
        any(cpu.idle_us - cpu.awake_us >= WORTH_AVOIDING_US for cpu in latencies),
        observed,
        'nothing: trials with few clients disable idle states (disable_idle_states = "auto")',
    )


@check("CPU limit", "a control group that has used up its quota is stopped until the next period")
def _cpu_limit(host: ObservedHost) -> Result:
    cpus = host.facts.limits.cpus
    return warn_if(
        cpus is not None,
        "none" if cpus is None else f"{cpus:g} of {host.facts.cpu.threads} CPUs",
        "pin CPUs instead of limiting them, such as: docker run --cpuset-cpus 0-3",
    )


@check("swap", "a server whose memory was swapped out waits for the disk at random times")
def _swap(host: ObservedHost) -> Result:
    memory = host.facts.memory
    swap, used = memory.swap_bytes, memory.swap_used_bytes
    if swap is None or used is None:
        return NOT_SHOWN
    if swap == 0:
        return Result("none", "ok")
    in_use = used > 0.01 * swap
    is_eager = memory.swappiness is None or memory.swappiness > 10
    return warn_if(
        in_use or is_eager,
        f"{used / _GIB:.1f} of {swap / _GIB:.1f} GiB in use, swappiness {memory.swappiness}",
        "sudo sysctl vm.swappiness=1" + ("; sudo swapoff -a && sudo swapon -a" if in_use else ""),
    )


@check(
    "transparent huge pages",
    "with `always`, the kernel merges memory into huge pages at random, which causes stalls",
)
def _huge_pages(host: ObservedHost) -> Result:
    setting = host.facts.huge_pages.transparent
    if setting is None:
        return Result("this kernel has none", "ok")
    return warn_if(
        setting == "always",
        setting,
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


@check("NUMA", "memory of another node is slower, and its placement differs from start to start")
def _numa(host: ObservedHost) -> Result:
    numa = host.facts.numa
    if numa.nodes is None:
        return NOT_SHOWN
    balancing = {True: ", balancing on", False: ", balancing off", None: ""}[numa.balancing]
    return warn_if(
        numa.nodes != 1,
        f"{counted(numa.nodes, 'node')}{'' if numa.nodes == 1 else balancing}",
        "keep to one node: numactl --cpunodebind=0 --membind=0 millrace run FILE",
    )


@check("filesystem", "loads mostly write, and the file system decides the cost of writes")
def _filesystem(host: ObservedHost) -> Result:
    filesystem = host.facts.filesystem
    kind, options = filesystem.type, filesystem.options or ()
    if kind is None:
        return Result(f"{host.work_dir}: not seen", "unknown")
    observed = f"{kind} at {filesystem.mount_point}"
    if not host.facts.virtualisation.virtual_machine:  # a virtual disk hides the type of the disk
        disk = {True: ", rotating disk", False: ", solid-state disk", None: ""}
        observed += disk[filesystem.rotational]
    doubts = {
        "in memory, so nothing is durable": kind in ("tmpfs", "ramfs"),
        "layers of a container image": kind in ("overlay", "aufs"),
        "over a network or another program": kind.startswith(_NETWORK_FILESYSTEMS),
        "barriers are off, so fsync promises nothing": "nobarrier" in options
        or "barrier=0" in options,
        "every read writes an access time": "strictatime" in options,
    }
    harmful = [doubt for doubt, holds in doubts.items() if holds]
    return warn_if(
        harmful,
        "; ".join([observed, *harmful]),
        "put the data on a local ext4 or XFS with default options: MILLRACE_WORK=/path/there",
    )


@check("free disk", "a nearly full filesystem is slower, and a full one ends the trial")
def _free_disk(host: ObservedHost) -> Result:
    free, total = host.facts.filesystem.free_bytes, host.facts.filesystem.total_bytes
    share = free / total if total else 0.0
    return graded(
        f"{free / _GIB:,.1f} GiB ({share:.0%}) free for {host.work_dir}",
        "free some, or put the data elsewhere: MILLRACE_WORK=/path/there",
        is_ok=free >= 10 * _GIB and share >= 0.1,
        is_problem=free < _GIB,
    )


@check(
    "clock source",
    "servers read the clock all the time; a slow clock source makes each reading a call",
)
def _clock_source(host: ObservedHost) -> Result:
    source = host.facts.clock_source
    if source is None:
        return NOT_SHOWN
    available = "/sys/devices/system/clocksource/clocksource0"
    return warn_if(
        source in _SLOW_CLOCKS,
        source,
        f"choose tsc or kvm-clock if {available}/available_clocksource has it: "
        f"echo tsc | sudo tee {available}/current_clocksource",
    )


@check(
    "address layout",
    "each trial starts its server anew, so a random address layout averages out over blocks; "
    "without it every trial has the same lucky or unlucky one",
)
def _address_layout(host: ObservedHost) -> Result:
    aslr = host.facts.aslr
    if aslr is None:
        return NOT_SHOWN
    observed = {0: "fixed", 1: "random, but for the heap", 2: "random"}.get(aslr, str(aslr))
    return warn_if(aslr == 0, observed, "sudo sysctl kernel.randomize_va_space=2")


@check("power", "on battery, the CPU runs slower")
def _power(host: ObservedHost) -> Result:
    on_battery = host.activity.on_battery
    observed = {None: "no battery", True: "on battery", False: "mains"}[on_battery]
    return Result(observed, "problem", "plug it in") if on_battery else Result(observed, "ok")


@check("heat", "a hot CPU slows down, so later trials are slower than earlier ones")
def _heat(host: ObservedHost) -> Result:
    throttled = host.activity.throttled
    if throttled is None:
        return NOT_SHOWN
    return warn_if(
        throttled,
        f"slowed down {throttled:,} times since it was started",
        "cool it better, or lower its highest frequency: sudo cpupower frequency-set --max 2GHz",
    )


@check("perf", "without it a difference can be measured, but not traced to functions")
def _perf(host: ObservedHost) -> Result:
    activity = host.activity
    level = activity.perf_paranoid
    if level is None:
        return Result("this kernel has no performance events", "unknown")
    hints = []
    if level > 1 and not activity.is_root:
        hints.append("sudo sysctl kernel.perf_event_paranoid=1")
    if activity.perf_program is None:
        hints.append("install perf (Debian: sudo apt install linux-perf)")
    program = activity.perf_program or "not installed, or not for this kernel"
    as_root = " (as root it does not matter)" if activity.is_root else ""
    return warn_if(hints, f"{program}, perf_event_paranoid {level}{as_root}", "; ".join(hints))


@check("valgrind", "without it `millrace count` cannot count the instructions of statements")
def _valgrind(host: ObservedHost) -> Result:
    version = host.activity.valgrind
    return warn_if(
        version is None,
        version or "not installed",
        "install valgrind (Debian: sudo apt install valgrind)",
    )


@check(
    "kernel tracing",
    "without it, short waits of threads are estimated from samples, which is less exact",
)
def _tracing(host: ObservedHost) -> Result:
    missing = host.activity.no_tracing
    if missing is None:
        return Result("the scheduler's events can be traced", "ok")
    return Result(missing.message, "warn" if missing.hint else "unknown", missing.hint)


@check("open files", "a server with too few file descriptors silently makes its caches smaller")
def _open_files(host: ObservedHost) -> Result:
    return _limit(host.activity.open_files, 65_535, "nofile", "* hard nofile 1048576")


@check("processes", "each connection is a thread, and threads count as processes")
def _processes(host: ObservedHost) -> Result:
    return _limit(host.activity.processes, 4_096, "nproc", "* - nproc 65536")


def _limit(limit: int | None, at_least: int, key: str, line: str) -> Result:
    return warn_if(
        limit is not None and limit < at_least,
        f"at most {'unlimited' if limit is None else format(limit, ',')}",
        f"raise `{key}` in /etc/security/limits.conf: {line}; then log in again",
    )


@check("confinement", "a server could write outside of its own directories")
def _confinement(host: ObservedHost) -> Result:
    unconfined = host.activity.unconfined
    if host.activity.is_root:
        hint = (
            "run only servers that you trust here, or run millrace as an ordinary user; a container"
            " allows mount namespaces with --cap-add SYS_ADMIN"
        )
    else:
        hint = "run only servers and experiments that you trust here: servers can write your files"
    return warn_if(unconfined, "; ".join(unconfined) or "they write in their own directories", hint)


def examine(facts: HostFacts, work_dir: Path, *, sample_s: float = 0.5) -> tuple[Finding, ...]:
    """Observe this host for ``sample_s`` seconds, and return the findings of all checks."""
    activity = observe(Path("/"), sample_s)
    try:
        latencies: Sequence[cpu_idle.IdleLatency] = cpu_idle.measure()
    except MillraceError:
        latencies = ()  # a finding reports this
    return judge(facts, activity, work_dir, latencies)


def judge(
    facts: HostFacts, activity: Activity, work_dir: Path, latencies: Sequence[cpu_idle.IdleLatency]
) -> tuple[Finding, ...]:
    """Return the findings of all checks on these observations."""
    host = ObservedHost(facts, activity, work_dir, tuple(latencies))
    return tuple(Finding(check=name, why=why, **vars(rule(host))) for name, why, rule in CHECKS)
