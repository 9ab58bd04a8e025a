"""Decode HdrHistograms (format V2, plain or zlib-compressed, in base64) and query them.

The format is the one of the HdrHistogram project (Gil Tene), described in its Java class
``AbstractHistogram``: a header, then the counts of the slots as zig-zag LEB128 integers of at most
9 bytes, where a negative integer -n stands for n empty slots. Slots are exact up to a number of
significant digits and a unit, so a value is known as a range of *equivalent* values.

A percentile is HdrHistogram's: the highest value equivalent to the smallest recorded one that at
least that percentage of all values does not exceed (the inverse of the empirical distribution,
Hyndman and Fan 1996, type 1). It is a value that was measured, up to a slot's width, and never an
average of two.
"""

import base64
import binascii
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_PLAIN, _COMPRESSED = 0x1C849303, 0x1C849304
_KIND = 0xFFFFFF0F  # the bits of a cookie that identify the format: the rest is the size of a word
_HEADER = struct.Struct(">IIIIQQd")
_COMPRESSED_HEADER = struct.Struct(">II")
# Far above any real histogram: 1 ns to an hour with 3 digits has 33,792 slots, most of them empty.
# Compressed data may claim anything, and an array of counts takes 50 times a byte's memory.
_LONGEST_BYTES = 1 << 20
_MOST_SLOTS = 1 << 16
_MOST_VALUES = 1 << 62  # whose sums have 64 bits
_LONGEST_VARINT = 8  # bytes; the ninth exists only for counts of 2^55 and more


@dataclass(frozen=True)
class Layout:
    """The mapping of values to slots.

    Values are exact to ``digits`` significant digits, in units of ``lowest`` (rounded down to a
    power of two), up to ``highest``.
    """

    lowest: int
    highest: int
    digits: int

    @property
    def unit(self) -> int:
        """The width of the narrowest slots, a power of two."""
        return self.lowest.bit_length() - 1

    @property
    def half(self) -> int:
        """Half the number of slots of the first bucket, a power of two.

        Each further bucket has this number of slots, each twice as wide as in the bucket before.
        """
        exact_up_to: int = 2 * 10**self.digits
        return (exact_up_to - 1).bit_length() - 1

    @property
    def slots(self) -> int:
        buckets, reach = 1, 1 << (self.half + 1 + self.unit)
        while reach <= self.highest:
            buckets, reach = buckets + 1, reach << 1
        return (buckets + 1) << self.half

    def bounds(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        bucket = np.maximum((slots >> self.half) - 1, 0)
        within = slots - (bucket << self.half)
        shift = bucket + self.unit
        low = within << shift
        return low, low + (np.int64(1) << shift) - 1


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of values, such as latencies in ns.

    ``slots`` are the non-empty slots, ascending, shape (n,); ``counts`` are their counts.
    """

    layout: Layout
    slots: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean of the slots' middles, off by half a slot at most; 0 when empty."""
        if not len(self.slots):
            return 0.0
        low, high = self.layout.bounds(self.slots)
        middles = low + (high - low + 1) // 2
        return float(np.average(middles.astype(np.float64), weights=self.counts))

    @property
    def maximum(self) -> int:
        """The highest value equivalent to the largest recorded one; 0 when empty."""
        return int(self.layout.bounds(self.slots[-1:])[1][0]) if len(self.slots) else 0

    def percentile(self, percent: float) -> int:
        """Return the value that ``percent`` (above 0, at most 100) of all values do not exceed.

        Raises ValueError for another number, and where nothing was recorded.
        """
        return int(self.percentiles([percent])[0])

    def percentiles(self, percents: Iterable[float]) -> NDArray[np.int64]:
        """Return ``percentile`` of each of ``percents``, in one pass."""
        total = self.count
        if not total:
            raise ValueError("an empty histogram has no percentiles")
        ranks = [_rank(percent, total) for percent in percents]
        places = np.searchsorted(np.cumsum(self.counts), np.asarray(ranks, dtype=np.int64))
        return self.layout.bounds(self.slots[places])[1]


def _rank(percent: float, total: int) -> int:
    """Return the rank of the percentile, in exact arithmetic on its decimal form."""
    if not 0 < percent <= 100:
        raise ValueError(f"a percentile must be above 0 and at most 100, not {percent:g}")
    return math.ceil(Fraction(str(percent)) * total / 100)


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Merge ``histograms``, which must have the same layout, into one; exact.

    Raises ValueError for none, or for different layouts.
    """
    several = list(histograms)
    layouts = {histogram.layout for histogram in several}
    if len(layouts) != 1:
        raise ValueError("histograms of different layouts" if layouts else "no histogram to merge")
    slots, places = np.unique(
        np.concatenate([histogram.slots for histogram in several]), return_inverse=True
    )
    counts = np.zeros(len(slots), dtype=np.int64)
    np.add.at(counts, places, np.concatenate([histogram.counts for histogram in several]))
    return Histogram(layouts.pop(), slots, counts)


def decode(encoded: str) -> Histogram:
    """Decode the histogram in a base64 text.

    Raises ValueError, with the reason, for an invalid text.
    """
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is not base64 ({error})") from error
    if len(content) >= _COMPRESSED_HEADER.size:
        cookie, length = _COMPRESSED_HEADER.unpack_from(content)
        if cookie & _KIND == _COMPRESSED & _KIND:
            content = _inflated(content[_COMPRESSED_HEADER.size :], length)
    return _decode_plain(content)


def _inflated(content: bytes, length: int) -> bytes:
    if len(content) != length:
        raise ValueError(f"has {len(content)} bytes, but its header states {length}")
    unpacker = zlib.decompressobj()
    try:
        inflated = unpacker.decompress(content, _LONGEST_BYTES)
    except zlib.error as error:
        raise ValueError(f"cannot be decompressed ({error})") from error
    if not unpacker.eof:
        raise ValueError("its compressed data have no end")
    return inflated


def _decode_plain(content: bytes) -> Histogram:
    if len(content) < _HEADER.size:
        raise ValueError(f"is truncated: {len(content)} bytes")
    cookie, length, offset, digits, lowest, highest, ratio = _HEADER.unpack_from(content)
    if cookie & _KIND != _PLAIN & _KIND:
        raise ValueError(f"is not an HdrHistogram of format V2 (cookie {cookie:#x})")
    if offset or ratio != 1.0:
        raise ValueError("has shifted or fractional values, which are not supported")
    if not (digits <= 5 and lowest >= 1 and 2 * lowest <= highest < 1 << 62):
        raise ValueError(f"has an invalid range: {digits} digits from {lowest} to {highest}")
    payload = content[_HEADER.size :]
    if len(payload) != length:
        raise ValueError(f"has {len(payload)} bytes of counts, but its header states {length}")
    layout = Layout(lowest, highest, digits)
    if layout.slots > _MOST_SLOTS or length > _LONGEST_BYTES:
        raise ValueError(f"is too large: {layout.slots:,} slots, and {length:,} bytes of counts")
    slots, counts = _filled(_integers(payload), layout.slots)
    if counts.sum(dtype=np.float64) > _MOST_VALUES:
        raise ValueError(f"is not plausible: has more than {_MOST_VALUES} values")
    return Histogram(layout, slots, counts)


def _integers(payload: bytes) -> NDArray[np.int64]:
    """Decode zig-zag LEB128 integers.

    They have 7 bits a byte, the lowest first, and the top bit set in all but the last byte.
    """
    octets = np.frombuffer(payload, dtype=np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise ValueError("its last count is truncated")
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - starts + 1
    if len(lengths) and lengths.max() > _LONGEST_VARINT:
        raise ValueError("has a count of 2^55 or more")
    values = np.zeros(len(ends), dtype=np.int64)
    for place in range(int(lengths.max(initial=0))):
        longer = lengths > place
        bits = octets[starts[longer] + place].astype(np.int64) & 0x7F
        values[longer] |= bits << (7 * place)
    return (values >> 1) ^ -(values & 1)


def _filled(integers: NDArray[np.int64], slots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the non-empty slots and their counts, from counts and numbers of empty slots."""
    steps = np.where(integers < 0, -integers, 1)
    if steps.max(initial=0) > slots or int(steps.sum()) > slots:
        raise ValueError(f"has counts for more than its {slots} slots")
    filled = integers > 0
    return (np.cumsum(steps) - steps)[filled], integers[filled]
