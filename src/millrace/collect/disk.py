"""What the disk under the data directory did, by the kernel's own count (/proc/diskstats).

The figures are the device's: who else uses it is in them too. A partition's are its whole disk's,
and what lies on one device alone, such as a logical volume, is followed down to it, since only a
whole disk counts flushes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace.collect.model import Target
from millrace.errors import Unavailable
from millrace.host.files import block_device, mount_below

NAME = "disk"
COST = "one file of /proc where the measured part begins and where it ends: less than a millisecond"

_DISKSTATS = "proc/diskstats"
_SECTOR_BYTES = 512  # whatever the device's own are
_WRAP = 1 << 32  # milliseconds are counted in 32 bits

# Where a line has each figure, behind the device's name.
_COUNTS = {"reads": 0, "writes": 4, "flushes": 15}
_SECTORS = {"read_bytes": 2, "write_bytes": 6}
_MILLISECONDS = {"read_s": 3, "write_s": 7, "flush_s": 16, "busy_s": 9}
_ORDER = ("reads", "writes", "read_bytes", "write_bytes", "flushes", "read_s", "write_s", "flush_s")


class Disk:
    """Reads the device's figures at both marks."""

    def __init__(self, device: str, root: Path) -> None:
        self._device = device
        self._file = root / _DISKSTATS
        self._texts: list[str] = []

    def begin(self) -> None:
        self._texts.append(self._file.read_text())

    def end(self) -> None:
        self._texts.append(self._file.read_text())

    def result(self) -> Mapping[str, Any]:
        if len(self._texts) != 2:
            raise Unavailable("the disk's figures were not read at both marks")
        before, after = (figures(text, self._device) for text in self._texts)
        if before is None or after is None:
            raise Unavailable(f"/{_DISKSTATS} does not have {self._device} any more")
        return {NAME: {"device": self._device, **between(before, after)}}

    def close(self) -> None:
        pass


def collector(target: Target, root: Path = Path("/")) -> Disk:
    """Raises Unavailable where the data directory cannot be seen, or has no disk with figures."""
    if target.data_dir is None:
        raise Unavailable(
            "the server's data directory cannot be seen",
            hint="have millrace start the server itself, on this host",
        )
    device = disk_below(target.data_dir, root)
    if figures((root / _DISKSTATS).read_text(), device) is None:
        raise Unavailable(f"/{_DISKSTATS} has no figures of {device}")
    return Disk(device, root)


def disk_below(directory: Path, root: Path) -> str:
    """The name of the device that holds ``directory``. Raises Unavailable where there is none."""
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
    """A device's line of /proc/diskstats; None where there is none."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == device:
            return tuple(map(int, fields[3:]))
    return None


def between(before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, int | float | None]:
    """What the device did between two readings; None what this kernel does not count."""
    done = [b - a for a, b in zip(before, after, strict=True)]
    found: dict[str, int | float | None] = {}
    for name, at in _COUNTS.items():
        found[name] = done[at] if at < len(done) else None
    for name, at in _SECTORS.items():
        found[name] = done[at] * _SECTOR_BYTES
    for name, at in _MILLISECONDS.items():
        found[name] = done[at] % _WRAP / 1000 if at < len(done) else None
    return {name: found[name] for name in (*_ORDER, "busy_s")}
