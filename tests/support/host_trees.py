"""Build small trees of /proc, /sys and /etc as real kinds of hosts have them."""

from collections.abc import Mapping
from pathlib import Path

Tree = Mapping[str, str]
CPU = "sys/devices/system/cpu"


def plant(root: Path, tree: Tree, links: Mapping[str, str] | None = None) -> Path:
    """Write the files (and symbolic links) below ``root``."""
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for name, target in (links or {}).items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(root / target)
    return root


def topology(cpus: int, *, packages: int, threads_per_core: int) -> dict[str, str]:
    """Return CPU numbers as Linux assigns them: first threads of all cores first."""
    cores = cpus // threads_per_core
    found = {}
    for cpu in range(cpus):
        core = cpu % cores
        found[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = f"{core * packages // cores}\n"
        found[f"{CPU}/cpu{cpu}/topology/core_id"] = f"{core % (cores // packages)}\n"
    return found


def xeon_processor(number: int) -> str:
    return f"""\
processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz
stepping\t: 7
microcode\t: 0x5003707
cpu MHz\t\t: 3600.125
cache size\t: 36608 KB
physical id\t: {number % 2}
siblings\t: 4
core id\t\t: {number % 2}
cpu cores\t: 2
flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic constant_tsc nonstop_tsc avx2 avx512f
bugs\t\t: spectre_v1 spectre_v2 mds swapgs
power management:

"""


# Bare metal: two sockets, Intel P-states, NVMe, swap, two NUMA nodes.
SERVER: dict[str, str] = {
    "proc/cpuinfo": "".join(xeon_processor(number) for number in range(8)),
    **topology(8, packages=2, threads_per_core=2),
    **{f"{CPU}/cpu{cpu}/cpufreq/scaling_governor": "powersave\n" for cpu in range(8)},
    **{f"{CPU}/cpu{cpu}/cpufreq/scaling_driver": "intel_pstate\n" for cpu in range(8)},
    **{
        f"{CPU}/cpu{cpu}/cpufreq/energy_performance_preference": "balance_performance\n"
        for cpu in range(8)
    },
    f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "12\n",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "3\n",
    f"{CPU}/intel_pstate/no_turbo": "0\n",
    f"{CPU}/cpuidle/current_driver": "intel_idle\n",
    f"{CPU}/vulnerabilities/mds": "Mitigation: Clear CPU buffers; SMT vulnerable\n",
    f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n# a comment\n',
    "proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
    "proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)\n",
    "proc/sys/kernel/arch": "x86_64\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/kernel/perf_event_paranoid": "3\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/vm/nr_hugepages": "0\n",
    "proc/meminfo": """\
MemTotal:       263844096 kB
MemFree:         1893844 kB
MemAvailable:   201443968 kB
SwapTotal:       8388604 kB
SwapFree:        6291452 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
""",
    "proc/loadavg": "0.42 0.31 0.25 2/812 4711\n",
    "proc/self/cgroup": "0::/user.slice/user-1000.slice/session-4.scope\n",
    "proc/self/mountinfo": """\
22 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
95 28 253:0 / /srv/my\\040data rw,noatime shared:50 - xfs /dev/mapper/vg-data rw,attr2,inode64
""",
    "sys/devices/pci0/nvme/nvme0/nvme0n1/queue/rotational": "0\n",
    "sys/devices/pci0/nvme/nvme0/nvme0n1/queue/scheduler": "[none] mq-deadline kyber\n",
    "sys/devices/pci0/nvme/nvme0/nvme0n1/device/model": "SAMSUNG MZQL23T8HCLS-00A07             \n",
    "sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2/partition": "2\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/node0/cpulist": "0-1,4-5\n",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7\n",
    "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
    "sys/class/dmi/id/product_name": "PowerEdge R740\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never\n",
}
SERVER_LINKS = {"sys/dev/block/259:2": "sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2"}

# A cloud instance with Arm cores: no model name, no microcode, no frequency, no flag for a VM.
GRAVITON: dict[str, str] = {
    "proc/cpuinfo": "".join(
        f"""\
processor\t: {number}
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""
        for number in range(2)
    ),
    **topology(2, packages=1, threads_per_core=1),
    "etc/machine-id": "ec2fffffffffffffffffffffffffffff\n",
    "usr/lib/os-release": "PRETTY_NAME='Amazon Linux 2023.6'\nVERSION_ID=2023\n",
    "proc/sys/kernel/osrelease": "6.1.115-126.197.amzn2023.aarch64\n",
    "proc/sys/kernel/arch": "aarch64\n",
    "proc/self/mountinfo": "60 1 259:1 / / rw,noatime - xfs /dev/nvme0n1p1 rw,attr2,inode64\n",
    "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "sys/class/dmi/id/product_name": "m6g.large\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "arch_sys_counter\n",
}

# A pod on a cloud host: a quota of one and a half CPUs, an overlay for a disk.
POD: dict[str, str] = {
    "proc/cpuinfo": xeon_processor(0).replace("avx2", "avx2 hypervisor"),
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/memory.max": "4294967296\n",
    "run/.containerenv": "",
    "proc/self/mountinfo": (
        "1203 1120 0:319 / / rw,relatime - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u\n"
    ),
}

# Version 1 control groups, with and without limits.
OLD_GROUPS: dict[str, str] = {
    "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n",
    "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "200000\n",
    "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "9223372036854771712\n",
}

# A laptop on battery: btrfs with a device number of its own, AMD with a boost switch.
LAPTOP: dict[str, str] = {
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen 7 PRO\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu0/cpufreq/scaling_driver": "acpi-cpufreq\n",
    f"{CPU}/cpufreq/boost": "0\n",
    "proc/self/mountinfo": (
        "31 1 0:27 /@ / rw,relatime shared:1 - btrfs /dev/mapper/luks rw,ssd,subvol=/@\n"
    ),
    "dev/dm-0": "",
    "sys/devices/virtual/block/dm-0/queue/rotational": "0\n",
    "sys/class/power_supply/AC/type": "Mains\n",
    "sys/class/power_supply/AC/online": "0\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
}
LAPTOP_LINKS = {
    "dev/mapper/luks": "dev/dm-0",
    "sys/class/block/dm-0": "sys/devices/virtual/block/dm-0",
}

WSL: dict[str, str] = {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}
XEN: dict[str, str] = {"sys/hypervisor/type": "xen\n"}
METAL: dict[str, str] = {
    "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "sys/class/dmi/id/product_name": "c5.metal\n",
}
