"""Collect the activity of the disk below the data directory, from /proc/diskstats.

The figures are those of the whole device, so they include its other users and partitions. A device
that lies on a single other one, such as a logical volume, is followed down to it, because the
kernel counts flushes only for whole disks.
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
_SECTOR_BYTES = 512  # for every device, whatever its own sector size
_WRAP = 1 << 32  # the kernel counts milliseconds in 32 bits

# The position of each figure in a line, after the device's name.
_COUNTS = {"reads": 0, "writes": 4, "flushes": 15}
_SECTORS = {"read_bytes": 2, "write_bytes": 6}
_MILLISECONDS = {"read_s": 3, "write_s": 7, "flush_s": 16, "busy_s": 9}
_ORDER = ("reads", "writes", "read_bytes", "write_bytes", "flushes", "read_s", "write_s", "flush_s")


class Disk:
    """A collector of the device's figures, read at both marks."""

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
    """Create the collector of the disk below the data directory.

    Raise Unavailable where this host does not show the data directory, or it is on no disk with
    figures.
    """
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
    """Return the name of the device that holds ``directory``.

    Raise Unavailable where there is none.
    """
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


def between(before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, int | float | None]:
    """Return the device's activity between two readings.

    A figure that the kernel does not count is None.
    """
    done = [b - a for a, b in zip(before, after, strict=True)]
    found: dict[str, int | float | None] = {}
    for name, at in _COUNTS.items():
        found[name] = done[at] if at < len(done) else None
    for name, at in _SECTORS.items():
        found[name] = done[at] * _SECTOR_BYTES
    for name, at in _MILLISECONDS.items():
        found[name] = done[at] % _WRAP / 1000 if at < len(done) else None
    return {name: found[name] for name in (*_ORDER, "busy_s")}
