"""Collect the activity of the disk below the data directory, from /proc/diskstats at both marks.

The figures include the device's other users and partitions. A device on a single other one, such as
a logical volume, is followed down to it: the kernel counts flushes only for whole disks. Cost: less
than a millisecond.
"""

from pathlib import Path

from millrace.collect.model import CollectorResult, MarkCollector, Target
from millrace.errors import Unavailable
from millrace.host.files import block_device, mount_below
from millrace.model.observations import Disk

NAME = "disk"

_DISKSTATS = "proc/diskstats"
_SECTOR_BYTES = 512  # for every device, whatever its own sector size
_WRAP = 1 << 32  # the kernel counts milliseconds in 32 bits


def collector(target: Target, root: Path = Path("/")) -> MarkCollector[str]:
    """Create the collector. Raise Unavailable where the data directory or its disk is not known."""
    if target.data_dir is None:
        raise Unavailable(
            "the server's data directory cannot be seen",
            hint="have millrace start the server itself, on this host",
        )
    if target.servers > 1:
        raise Unavailable("figures of the disk are of all servers of a round together")
    device = disk_below(target.data_dir, root)
    if figures((root / _DISKSTATS).read_text(), device) is None:
        raise Unavailable(f"/{_DISKSTATS} has no figures of {device}")

    def usage(before: str, after: str) -> CollectorResult:
        first, last = figures(before, device), figures(after, device)
        if first is None or last is None:
            raise Unavailable(f"/{_DISKSTATS} does not have {device} any more")
        return CollectorResult({NAME: between(device, first, last)})

    return MarkCollector((root / _DISKSTATS).read_text, usage)


def disk_below(directory: Path, root: Path) -> str:
    """Return the device that holds ``directory``; raise Unavailable where there is none."""
    _, mount = mount_below(root, directory)
    device = None if mount is None else block_device(root, mount)
    if device is None:
        kind = "an unknown filesystem" if mount is None else mount.type
        raise Unavailable(
            f"the data directory is on {kind}, not on a disk",
            hint="set MILLRACE_WORK to a directory on a local disk",
        )
    while len(below := list((device / "slaves").glob("*"))) == 1:
        device = below[0].resolve()
        if (device / "partition").exists():
            device = device.parent
    return device.name


def figures(text: str, device: str) -> tuple[int, ...] | None:
    """Return the figures of a device from /proc/diskstats; None where it is not listed."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == device:
            return tuple(map(int, fields[3:]))
    return None


def between(device: str, before: tuple[int, ...], after: tuple[int, ...]) -> Disk:
    """Return the device's activity between two readings."""
    done = (later - earlier for earlier, later in zip(before, after, strict=True))
    # The fields are in the kernel's Documentation/admin-guide/iostats.rst.
    reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, *more = done
    flushes, flush_ms = more[5:7] if len(more) > 6 else (None, None)
    return Disk(
        device=device,
        reads=reads,
        writes=writes,
        read_bytes=read * _SECTOR_BYTES,
        write_bytes=written * _SECTOR_BYTES,
        flushes=flushes,
        read_s=_seconds(read_ms),
        write_s=_seconds(write_ms),
        flush_s=None if flush_ms is None else _seconds(flush_ms),
        busy_s=_seconds(busy_ms),
    )


def _seconds(milliseconds: int) -> float:
    return milliseconds % _WRAP / 1000  # of 32 bits
