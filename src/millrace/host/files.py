"""Files of /proc, /sys and /etc below a root, and the device below a directory.

What a host does not say is None.
"""

from __future__ import annotations

from pathlib import Path

from millrace.host import parsers as text
from millrace.host import procfs


def read(root: Path, name: str) -> str | None:
    """A file below ``root`` without surrounding white space; None when it cannot be read."""
    return read_file(root / name)


def read_file(path: Path) -> str | None:
    raw = procfs.read_or_none(path)
    return None if raw is None else raw.decode(errors="replace").strip("\0 \n\t")


def number(root: Path, name: str) -> int | None:
    """A file that holds one whole number; None when it does not."""
    found = read(root, name)
    try:
        return None if found is None else int(found)
    except ValueError:
        return None


def mount_below(root: Path, directory: Path) -> tuple[Path, text.Mount | None]:
    """The deepest parent of ``directory`` that exists, if it does not do so itself, and the
    filesystem that holds it."""
    existing = next(path for path in (directory, *directory.parents) if _is_there(path)).resolve()
    return existing, text.mount_of(str(existing), text.mounts(read(root, "proc/self/mountinfo")))


def block_device(root: Path, mount: text.Mount) -> Path | None:
    """The whole device (not its partition) below a filesystem, as its directory in /sys; None where
    there is none."""
    device = root / "sys/dev/block" / mount.device
    if not device.exists() and mount.source.startswith("/dev/"):
        # btrfs and others have a device number of their own; the source names the real one.
        name = (root / mount.source.lstrip("/")).resolve().name
        device = root / "sys/class/block" / name
    if not device.exists():
        return None
    device = device.resolve()
    return device.parent if (device / "partition").exists() else device


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # below a directory that is closed to us
        return False
