"""Encode histograms by the format's definition, without help from the module under test."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from millrace.stats.histogram import Layout

LATENCIES = Layout(1_000, 3_600_000_000_000, 3)
FINE = Layout(1, 3_600_000_000_000, 3)


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes((*out, zigzag))


def slot(value: int, layout: Layout) -> int:
    """Return the slot of a value by a search: slow, and independent of the decoder's method."""
    sub_buckets: int = 2 ** math.ceil(math.log2(2 * 10**layout.digits))
    scaled, bucket = value >> math.floor(math.log2(layout.lowest)), 0
    while scaled >= sub_buckets:
        scaled, bucket = scaled >> 1, bucket + 1
    return bucket * sub_buckets // 2 + scaled


def encoded(values: Sequence[int], layout: Layout, *, compressed: bool = False) -> str:
    """Encode ``values`` by the format, without help from the module under test."""
    counts: dict[int, int] = {}
    for value in values:
        counts[slot(value, layout)] = counts.get(slot(value, layout), 0) + 1
    payload, before = b"", -1
    for number in sorted(counts):
        empty = number - before - 1
        payload += varint(-empty) if empty > 1 else varint(0) * empty
        payload += varint(counts[number])
        before = number
    return wrapped(payload, layout, compressed=compressed)


def wrapped(payload: bytes, layout: Layout, *, compressed: bool = False, **changed: Any) -> str:
    header = {"cookie": 0x1C849313, "length": len(payload), "offset": 0, "ratio": 1.0} | changed
    content = struct.pack(
        ">IIIIQQd",
        header["cookie"],
        header["length"],
        header["offset"],
        layout.digits,
        layout.lowest,
        layout.highest,
        header["ratio"],
    )
    content += payload
    if compressed:
        squeezed = zlib.compress(content)
        content = struct.pack(">II", 0x1C849314, len(squeezed)) + squeezed
    return base64.b64encode(content).decode()
