"""Read facts of a host that affect whether results are comparable; None for unknown facts."""

import hashlib
import json
import os
from pathlib import Path

from millrace.host import cpu_limits
from millrace.host import parsers as text
from millrace.host.files import block_device, mount_below, number, read, read_file
from millrace.model import host_facts as model

_CPUS = "sys/devices/system/cpu"
_NO_MEMORY_LIMIT = 1 << 62  # cgroup v1 writes the largest page count for "no limit"


def facts(work_dir: Path, *, root: Path = Path("/")) -> model.HostFacts:
    """Return the facts of this host, and of the file system of ``work_dir``."""
    cpu = text.cpu_info(read(root, "proc/cpuinfo"))
    release = read(root, "etc/os-release") or read(root, "usr/lib/os-release")
    return model.HostFacts(
        machine=_machine(root),
        cpu=_cpu(root, cpu),
        frequency=_frequency(root),
        kernel=_kernel(root),
        distribution=text.os_release(release).get("PRETTY_NAME"),
        libc=_libc(),
        memory=_memory(root),
        huge_pages=_huge_pages(root),
        virtualisation=_virtualisation(root, cpu),
        limits=_limits(root),
        filesystem=_filesystem(root, work_dir),
        load=_load(root),
        clock_source=read(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        numa=_numa(root),
        aslr=number(root, "proc/sys/kernel/randomize_va_space"),
        mitigations={
            file.name: read_file(file)
            for file in sorted((root / _CPUS / "vulnerabilities").glob("*"))
        },
    )


def host_id(known: model.HostFacts) -> str:
    """Return 12 hex digits that identify hardware and installation; settings do not change it."""
    cpu = known.cpu
    of_cpu = (cpu.vendor, cpu.model, cpu.sockets, cpu.cores, cpu.threads)
    identity = [known.machine, known.kernel.architecture, *of_cpu]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]


def _machine(root: Path) -> str | None:
    # The machine id must stay private (man 5 machine-id), so only a digest leaves this function.
    for name in ("etc/machine-id", "var/lib/dbus/machine-id", "sys/class/dmi/id/product_uuid"):
        identity = read(root, name)
        if identity and identity != "uninitialized":
            return hashlib.sha256(f"millrace {identity}".encode()).hexdigest()[:16]
    return None


def _cpu(root: Path, info: text.CpuInfo) -> model.CpuFacts:
    cpus = [path for path in (root / _CPUS).glob("cpu[0-9]*") if (path / "topology").is_dir()]
    packages = {read_file(path / "topology/physical_package_id") for path in cpus}
    cores = {
        (read_file(path / "topology/physical_package_id"), read_file(path / "topology/core_id"))
        for path in cpus
    }
    return model.CpuFacts(
        model=info.model,
        vendor=info.vendor,
        microcode=info.microcode,
        sockets=len(packages) or None,
        cores=len(cores) or None,
        threads=info.threads or len(cpus) or None,
    )


def _frequency(root: Path) -> model.FrequencyFacts:
    def all_of(name: str) -> str | None:
        values = {read_file(file) for file in (root / _CPUS).glob(f"cpu[0-9]*/cpufreq/{name}")}
        return ", ".join(sorted(value for value in values if value)) or None

    no_turbo = number(root, f"{_CPUS}/intel_pstate/no_turbo")
    boost = number(root, f"{_CPUS}/cpufreq/boost")
    turbo = None if no_turbo is None else no_turbo == 0
    return model.FrequencyFacts(
        driver=all_of("scaling_driver"),
        governor=all_of("scaling_governor"),
        preference=all_of("energy_performance_preference"),
        turbo=turbo if boost is None else boost == 1,
        idle_driver=read(root, f"{_CPUS}/cpuidle/current_driver"),
    )


def _kernel(root: Path) -> model.KernelFacts:
    return model.KernelFacts(
        release=read(root, "proc/sys/kernel/osrelease"),
        version=read(root, "proc/sys/kernel/version"),
        architecture=read(root, "proc/sys/kernel/arch") or os.uname().machine,
    )


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None  # not glibc


def _memory(root: Path) -> model.MemoryFacts:
    sizes = text.sizes(read(root, "proc/meminfo"))
    return model.MemoryFacts(
        total_bytes=sizes.get("MemTotal"),
        available_bytes=sizes.get("MemAvailable"),
        swap_bytes=sizes.get("SwapTotal"),
        swap_used_bytes=text.swap_used(sizes),
        swappiness=number(root, "proc/sys/vm/swappiness"),
    )


def _huge_pages(root: Path) -> model.HugePagesFacts:
    base = "sys/kernel/mm/transparent_hugepage"
    return model.HugePagesFacts(
        transparent=text.chosen(read(root, f"{base}/enabled")),
        defrag=text.chosen(read(root, f"{base}/defrag")),
        reserved=number(root, "proc/sys/vm/nr_hugepages"),
    )


def _virtualisation(root: Path, cpu: text.CpuInfo) -> model.VirtualisationFacts:
    release = (read(root, "proc/sys/kernel/osrelease") or "").lower()
    dmi = [read(root, f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    product = " ".join(part for part in dmi if part) or None
    kind = read(root, "sys/hypervisor/type")
    is_virtual = "hypervisor" in cpu.flags or kind is not None or "microsoft" in release
    # Arm CPUs have no hypervisor flag: only the product name of the machine shows a hypervisor.
    named = ("QEMU", "KVM", "VMware", "VirtualBox", "Virtual Machine", "Amazon EC2", "Google")
    if not is_virtual and product and not product.endswith(".metal"):
        is_virtual = any(name in product for name in named)
    if kind is None and "microsoft" in release:
        kind = "WSL"
    return model.VirtualisationFacts(
        virtual_machine=is_virtual, hypervisor=kind, product=product, container=_container(root)
    )


def _container(root: Path) -> str | None:
    """Return the kind of container that this process runs in; None without signs of one."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    named = read(root, "run/systemd/container")
    if named:
        return named
    groups = read(root, "proc/self/cgroup") or ""
    return next((k for k in ("kubepods", "docker", "libpod", "lxc") if f"/{k}" in groups), None)


def _limits(root: Path) -> model.LimitFacts:
    """Return the limits of CPUs (such as 1.5) and memory of the control group (v1 or v2)."""
    groups = text.control_groups(read(root, "proc/self/cgroup"))
    unified = root / "sys/fs/cgroup" / groups.get("", "")
    memory = number(unified, "memory.max")
    if "memory" in groups:
        memory = number(root / "sys/fs/cgroup/memory" / groups["memory"], "memory.limit_in_bytes")
    if memory is not None and memory >= _NO_MEMORY_LIMIT:
        memory = None
    return model.LimitFacts(cpus=cpu_limits.quota_cpus("self", root), memory_bytes=memory)


def _filesystem(root: Path, work_dir: Path) -> model.FilesystemFacts:
    """Return the filesystem of ``work_dir``, which need not exist yet, and its device."""
    existing, mount = mount_below(root, work_dir)
    device = block_device(root, mount) if mount else None
    space = os.statvfs(existing)
    rotational = read_file(device / "queue/rotational") if device else None
    return model.FilesystemFacts(
        mount_point=mount.point if mount else None,
        type=mount.type if mount else None,
        options=tuple(mount.options) if mount else None,
        source=mount.source if mount else None,
        device=device.name if device else None,
        device_model=read_file(device / "device/model") if device else None,
        rotational=None if rotational is None else rotational == "1",
        scheduler=text.chosen(read_file(device / "queue/scheduler")) if device else None,
        total_bytes=space.f_blocks * space.f_frsize,
        free_bytes=space.f_bavail * space.f_frsize,
    )


def _load(root: Path) -> model.LoadFacts:
    averages = (read(root, "proc/loadavg") or "").split()[:3]
    if len(averages) < 3:
        return model.LoadFacts()
    last, last_5, last_15 = map(float, averages)
    return model.LoadFacts(average_1min=last, average_5min=last_5, average_15min=last_15)


def _numa(root: Path) -> model.NumaFacts:
    nodes = len(list((root / "sys/devices/system/node").glob("node[0-9]*")))
    balancing = number(root, "proc/sys/kernel/numa_balancing")
    return model.NumaFacts(
        nodes=nodes or None, balancing=None if balancing is None else balancing != 0
    )
