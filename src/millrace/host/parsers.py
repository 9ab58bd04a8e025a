"""Parse files about a Linux host in /proc, /sys and /etc: text in, plain values out.

Each function takes the text of one file, or None if the host does not have the file. It returns
None (or an empty collection) for facts that the text does not contain.
"""

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

# Values of the main ID register (implementer, part): Arm's cpuinfo has numbers instead of names.
_ARM_CORES = {
    ("0x41", "0xd08"): "Arm Cortex-A72",
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


@dataclass(frozen=True)
class CpuInfo:
    """The first CPU in /proc/cpuinfo; ``threads`` is the number of all CPUs there."""

    model: str | None
    vendor: str | None
    microcode: str | None
    flags: frozenset[str]
    threads: int | None


def cpu_info(text: str | None) -> CpuInfo:
    """Parse /proc/cpuinfo of x86, Arm and POWER."""
    first: dict[str, str] = {}
    threads = 0
    for line in (text or "").splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            continue
        name, value = name.strip(), value.strip()
        threads += name == "processor" and value.isdigit()
        first.setdefault(name, value)
    core = (first.get("CPU implementer", ""), first.get("CPU part", ""))
    arm = _ARM_CORES.get(core) or (f"Arm {core[0]}:{core[1]}" if all(core) else None)
    return CpuInfo(
        model=first.get("model name") or first.get("cpu") or arm,
        vendor=first.get("vendor_id") or first.get("CPU implementer"),
        microcode=first.get("microcode"),
        flags=frozenset((first.get("flags") or first.get("Features") or "").split()),
        threads=threads or None,
    )


def sizes(text: str | None) -> Mapping[str, int]:
    """Parse /proc/meminfo. Sizes are converted to bytes (1 kB there is 1024); counts stay as is."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        match = re.fullmatch(r"([^:]+):\s+(\d+)( kB)?\s*", line)
        if match:
            found[match[1]] = int(match[2]) * (1024 if match[3] else 1)
    return found


def swap_used(sizes: Mapping[str, int]) -> int | None:
    """Return the used swap space in bytes, from the sizes in /proc/meminfo."""
    total, free = sizes.get("SwapTotal"), sizes.get("SwapFree")
    return None if total is None or free is None else total - free


def os_release(text: str | None) -> Mapping[str, str]:
    """Parse /etc/os-release, a list of shell assignments."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        name, equals, value = line.partition("=")
        if not equals or name.lstrip().startswith("#"):
            continue
        try:
            found[name.strip()] = "".join(shlex.split(value))
        except ValueError:  # an unclosed quote
            found[name.strip()] = value.strip("\"' ")
    return found


def chosen(text: str | None) -> str | None:
    """Return the word in brackets, as in ``always [madvise] never``; without brackets the text."""
    if text is None:
        return None
    match = re.search(r"\[([^\]]+)\]", text)
    return match[1] if match else text.strip() or None


@dataclass(frozen=True)
class Mount:
    """A mounted filesystem; ``device`` is ``major:minor``, ``source`` usually a path in /dev."""

    point: str
    type: str
    source: str
    device: str
    options: tuple[str, ...]


def mounts(text: str | None) -> tuple[Mount, ...]:
    """Parse /proc/self/mountinfo; ``options`` has those of the mount, then of the filesystem."""
    found = []
    for line in (text or "").splitlines():
        before, separator, after = line.partition(" - ")
        fields, last = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or len(last) < 2:
            continue
        options = [*fields[5].split(","), *(last[2].split(",") if len(last) > 2 else ())]
        found.append(
            Mount(
                point=_unescape(fields[4]),
                type=last[0],
                source=_unescape(last[1]),
                device=fields[2],
                options=tuple(dict.fromkeys(option for option in options if option)),
            )
        )
    return tuple(found)


def _unescape(text: str) -> str:
    """Decode the octal escapes of space, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, table: tuple[Mount, ...]) -> Mount | None:
    """Return the filesystem of an absolute path: the deepest, then the last, mount above it."""
    best = None
    for mount in table:
        inside = mount.point == "/" or f"{path}/".startswith(f"{mount.point}/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


@dataclass(frozen=True)
class CpuTimes:
    """Clock ticks since boot over all CPUs, from the first line of /proc/stat."""

    busy: int
    idle: int
    steal: int


def cpu_times(text: str | None) -> CpuTimes | None:
    """Return the CPU times in /proc/stat; None if there are none."""
    ticks = cpu_ticks(text)
    if ticks is None:
        return None
    idle, steal = ticks["idle"] + ticks["iowait"], ticks["steal"]
    return CpuTimes(busy=sum(ticks.values()) - idle - steal, idle=idle, steal=steal)


_CPU_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def cpu_ticks(text: str | None) -> Mapping[str, int] | None:
    """Return clock ticks of all CPUs since boot, by state, from /proc/stat; 0 if not counted."""
    for line in (text or "").splitlines():
        name, *values = line.split()
        if name == "cpu" and len(values) >= 4:
            ticks = zip(_CPU_STATES, map(int, values), strict=False)
            return dict.fromkeys(_CPU_STATES, 0) | dict(ticks)
    return None


def cpu_steal(text: str | None, cpus: Collection[int]) -> tuple[int, int] | None:
    """Return steal ticks and all ticks of ``cpus`` since boot; None if /proc/stat lacks a CPU."""
    found: dict[int, tuple[int, int]] = {}
    for line in (text or "").splitlines():
        match = re.match(r"cpu(\d+) ([\d ]+)$", line)
        if match and len(values := match[2].split()) >= len(_CPU_STATES):
            ticks = [int(value) for value in values[: len(_CPU_STATES)]]
            found[int(match[1])] = ticks[-1], sum(ticks)
    if not cpus or any(cpu not in found for cpu in cpus):
        return None
    return sum(found[cpu][0] for cpu in cpus), sum(found[cpu][1] for cpu in cpus)


def cpu_count(text: str | None) -> int:
    """Return the number of online CPUs in /proc/stat."""
    return len(re.findall(r"^cpu\d+ ", text or "", flags=re.MULTILINE))


def numbers(text: str | None) -> Mapping[str, int]:
    """Parse a file of lines with a name and an integer, such as /proc/vmstat."""
    found = re.findall(r"^(\S+) (\d+)$", text or "", flags=re.MULTILINE)
    return {name: int(value) for name, value in found}


def pressure_s(text: str | None) -> Mapping[str, float]:
    """Parse a file of /proc/pressure: seconds since boot in which ``some`` or ``full`` stalled."""
    found = re.findall(r"^(some|full) .*\btotal=(\d+)$", text or "", flags=re.MULTILINE)
    return {name: int(total_us) / 1e6 for name, total_us in found}


def control_groups(text: str | None) -> Mapping[str, str]:
    """Parse /proc/PID/cgroup: paths without leading slash, by controller (v2: "")."""
    groups: dict[str, str] = {}
    for line in (text or "").splitlines():
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        groups |= {name: path.strip("/") for name in controllers.split(",")}
    return groups
