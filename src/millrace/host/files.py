"""Read files of /proc, /sys and /etc below a root directory, and find block devices."""

from pathlib import Path

from millrace.host import parsers as text
from millrace.host import procfs


def read(root: Path, name: str) -> str | None:
    """Return the stripped text of a file below ``root``; None if it cannot be read."""
    return read_file(root / name)


def read_file(path: Path) -> str | None:
    """Return the stripped text of a file; None if it cannot be read."""
    raw = procfs.read_or_none(path)
    return None if raw is None else raw.decode(errors="replace").strip("\0 \n\t")


def number(root: Path, name: str) -> int | None:
    """Return the integer in a file; None if there is none."""
    found = read(root, name)
    try:
        return None if found is None else int(found)
    except ValueError:
        return None


def mount_below(root: Path, directory: Path) -> tuple[Path, text.Mount | None]:
    """Return the deepest existing path of ``directory`` and its parents, with its filesystem."""
    existing = next(path for path in (directory, *directory.parents) if _exists(path)).resolve()
    return existing, text.mount_of(str(existing), text.mounts(read(root, "proc/self/mountinfo")))


def block_device(root: Path, mount: text.Mount) -> Path | None:
    """Return the /sys directory of the whole disk below a filesystem; None without a disk."""
    device = root / "sys/dev/block" / mount.device
    if not device.exists() and mount.source.startswith("/dev/"):
        # btrfs and others report virtual device numbers; the mount source names the real device.
        name = (root / mount.source.lstrip("/")).resolve().name
        device = root / "sys/class/block" / name
    if not device.exists():
        return None
    device = device.resolve()
    return device.parent if (device / "partition").exists() else device


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # permission denied for a parent directory
        return False
