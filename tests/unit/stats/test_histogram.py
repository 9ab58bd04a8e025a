"""Test histograms as the load generator's library (Rust, hdrhistogram 7.6.0) encodes them."""

import base64
import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.stats.histogram import Histogram, Layout, decode, merge
from tests.support.hdr import FINE, LATENCIES, encoded, varint, wrapped

# Recorded from that library: its encoding, and its statistics of it. `recorded` are the first non-
# empty slots: their highest value and count. Percentiles are of its value_at_quantile: its
# value_at_percentile takes the 99.9th of 5,000 for the 4,996th, by rounding.
EXAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "hdr_histograms.json").read_text()
)
FORMS = [
    pytest.param(example, form, id=f"{example['name']}, {form}")
    for example in EXAMPLES
    for form in ("plain", "deflated")
    if example[form] is not None
]


@pytest.mark.parametrize(("example", "form"), FORMS)
def test_percentiles_are_those_of_the_library_that_wrote_it(
    example: dict[str, Any], form: str
) -> None:
    histogram = decode(example[form])
    assert histogram.layout == Layout(example["lowest"], example["highest"], example["digits"])
    assert histogram.count == example["count"]
    assert histogram.mean == pytest.approx(example["mean"], rel=1e-12)
    assert histogram.maximum == example["maximum"]
    highest = histogram.layout.bounds(histogram.slots)[1]
    slots = np.stack([highest, histogram.counts], axis=1)[: len(example["recorded"])]
    assert slots.tolist() == example["recorded"]
    for percent, value in example["percentiles"]:
        if percent > 0 and histogram.count:
            assert histogram.percentile(percent) == value, percent


@given(
    values=st.lists(st.integers(1_000, 3_600_000_000_000), min_size=1, max_size=60),
    layout=st.sampled_from([LATENCIES, FINE]),
    compressed=st.booleans(),
    percent=st.floats(0.001, 100) | st.sampled_from([50.0, 95.0, 99.0, 99.9, 100.0]),
)
def test_a_percentile_is_a_value_that_was_recorded_up_to_its_slot(
    values: list[int], layout: Layout, compressed: bool, percent: float
) -> None:
    histogram = decode(encoded(values, layout, compressed=compressed))
    assert histogram.count == len(values)
    exact = sorted(values)[math.ceil(len(values) * percent / 100 - 1e-9) - 1]
    width = max(512 if layout is LATENCIES else 1, exact / 1_000)
    assert exact <= histogram.percentile(percent) < exact + width
    assert max(values) <= histogram.maximum < max(values) + max(512, max(values) / 1_000)
    mean = sum(values) / len(values)
    assert abs(histogram.mean - mean) <= max(512, mean / 1_000)


@given(
    parts=st.lists(st.lists(st.integers(1, 3_600_000_000_000), max_size=20), min_size=1, max_size=5)
)
def test_merged_histograms_are_the_histogram_of_all_values(parts: list[list[int]]) -> None:
    merged = merge(decode(encoded(part, FINE)) for part in parts)
    whole = decode(encoded([value for part in parts for value in part], FINE))
    assert merged.slots.tolist() == whole.slots.tolist()
    assert merged.counts.tolist() == whole.counts.tolist()
    assert merged.layout == whole.layout


@given(st.lists(st.integers(0, 2**54), min_size=1, max_size=30))
def test_counts_of_any_size_come_back(counts: list[int]) -> None:
    payload = b"".join(varint(count) for count in counts)
    histogram = decode(wrapped(payload, LATENCIES))
    found = zip(histogram.slots.tolist(), histogram.counts.tolist(), strict=True)
    assert list(found) == [(slot, count) for slot, count in enumerate(counts) if count]


def test_99_9_percent_of_a_thousand_is_the_999th() -> None:
    """In floating point 0.999 * 1000 exceeds 999, and would select the largest."""
    histogram = decode(encoded([1_000_000] * 999 + [2_000_000_000], FINE))
    assert histogram.percentile(99.9) < 1_001_000
    assert histogram.percentile(99.91) > 1_999_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%%%", "not base64"),
        ("", "truncated: 0 bytes"),
        (base64.b64encode(bytes(40)).decode(), "not an HdrHistogram of format V2"),
        (wrapped(b"\2", LATENCIES, length=2), "1 bytes of counts, but its header states 2"),
        (wrapped(b"\2", LATENCIES, offset=1), "shifted or fractional"),
        (wrapped(b"\2", LATENCIES, ratio=0.5), "shifted or fractional"),
        (wrapped(b"\2", Layout(1_000, 3_600_000_000_000, 6)), "invalid range: 6 digits"),
        (wrapped(b"\2", Layout(0, 3_600_000_000_000, 3)), "invalid range"),
        (wrapped(b"\2", Layout(1_000, 1_500, 3)), "invalid range"),
        (wrapped(b"\x80", LATENCIES), "last count is truncated"),
        (wrapped(b"\xff" * 8 + b"\1", LATENCIES), "count of 2\\^55 or more"),
        (wrapped(varint(-30_000) + varint(1), LATENCIES), "more than its"),
        (wrapped(varint(-20_000) * 2, LATENCIES), "more than its"),
        (
            base64.b64encode(struct.pack(">II", 0x1C849314, 4) + b"oops").decode(),
            "cannot be decompressed",
        ),
        (base64.b64encode(struct.pack(">II", 0x1C849314, 9) + b"oops").decode(), "header states 9"),
    ],
)
def test_invalid_histogram_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(text)


@given(st.sampled_from(EXAMPLES), st.integers(0, 7), st.floats(0, 1, exclude_max=True))
def test_a_changed_bit_never_crashes(example: dict[str, Any], bit: int, place: float) -> None:
    content = bytearray(base64.b64decode(example["deflated"]))
    content[int(place * len(content))] ^= 1 << bit
    try:
        histogram = decode(base64.b64encode(content).decode())
    except ValueError:
        return
    assert histogram.count >= 0


def test_percentiles_that_cannot_be() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    empty = Histogram(LATENCIES, nothing, nothing)
    assert (empty.count, empty.mean, empty.maximum) == (0, 0.0, 0)
    with pytest.raises(ValueError, match="empty histogram"):
        empty.percentile(50)
    some = decode(encoded([5_000], LATENCIES))
    for percent in (0, -1, 100.1, math.nan):
        with pytest.raises(ValueError, match="above 0 and at most 100"):
            some.percentile(percent)


def test_only_histograms_of_one_layout_merge() -> None:
    with pytest.raises(ValueError, match="no histogram"):
        merge([])
    with pytest.raises(ValueError, match="different layouts"):
        merge([decode(encoded([5_000], LATENCIES)), decode(encoded([5_000], FINE))])
