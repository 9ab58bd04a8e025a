"""Parse and format sizes as server options write them: ``128M`` is 128 x 1024 x 1024 bytes."""

import re

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_SIZE = re.compile(r"(\d+)([KMGTPE]?)B?", re.IGNORECASE | re.ASCII)


def parse(text: str) -> int:
    """Return the bytes of a size such as ``4096``, ``192K`` or ``12G``; else raise ValueError."""
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise ValueError(f"{text!r} is not a size such as 128M or 12G")
    return int(matched[1]) << _UNITS[matched[2].upper()]


def exact(size_bytes: int) -> str:
    """Return the shortest exact spelling that an option accepts: ``12G``, ``1900M``, ``1000``."""
    if size_bytes == 0:
        return "0"
    unit = max(
        (unit for unit, shift in _UNITS.items() if size_bytes % (1 << shift) == 0),
        key=_UNITS.__getitem__,
    )
    return f"{size_bytes >> _UNITS[unit]}{unit}"


def readable(size_bytes: int) -> str:
    """Return a size for people, in decimal units to three digits: ``5.84 GB``."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError("the loop returns at TB")
